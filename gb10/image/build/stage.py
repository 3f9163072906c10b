"""The engine that builds, the layers that it has, and one build of a stage by BuildKit with its log in the store."""

import stat
from collections.abc import Callable
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

from gb10.containers.buildx.build import BuildRequest, BuildResult, build
from gb10.containers.buildx.commands import open_buildx, require_builder
from gb10.containers.buildx.progress import IMPORT, Event, LogLine, Note, StepDone, StepFailed, StepStarted
from gb10.containers.connection import Engine
from gb10.containers.reach import connect_if_has_images, connect_or_start
from gb10.core.host import Host
from gb10.core.reporter import Reporter, Task
from gb10.core.store import Store
from gb10.errors import BuildError, EngineError
from gb10.image.build.kept_by_engine import IN_ENGINE, engine_folder
from gb10.image.context import Context, build_architecture
from gb10.image.plan.values import Plan, Step

WARNING = "WARNING: local cache import"
"""Prefix of buildx's warning that a folder holds no cache."""


def ready_engine(ctx: Context) -> Engine:
    """The engine to build with, started when needed. The log shows which engines were not usable."""
    return with_builder(ctx, connect_or_start(ctx.env, ctx.store))


def engine_with_images(ctx: Context) -> Engine | None:
    """The engine that may have images, started when needed; None when nothing was ever built on this machine."""
    engine = connect_if_has_images(ctx.env, ctx.store)
    return with_builder(ctx, engine) if engine else None


def with_builder(ctx: Context, engine: Engine) -> Engine:
    """The engine with the user's builder, if any. Its notes are said, once."""
    for note in engine.notes:
        ctx.reporter.say_once(note)
    return replace(engine, builder=ctx.builder)


def check_caches(ctx: Context, engine: Engine) -> None:
    """Raise EngineError where a cache cannot be exported."""
    if ctx.cache_to and not (engine.containerd or engine.builder):
        raise EngineError(
            "Docker's classic image store exports no build cache (--cache-to)",
            where=engine.endpoint.host,
            hint="name a builder (--builder), or let Docker use containerd's image store; --cache-from "
            "works with either",
        )


def check_builder(host: Host, engine: Engine) -> Engine:
    """The engine, after a check of its builder, if any. Raises EngineError when the builder cannot be used."""
    if engine.builder is None:
        return engine
    found = require_builder(engine, host.env, host.store, f"linux/{build_architecture()}")
    if found.driver == "docker":  # buildx itself refuses a context by this name
        raise EngineError(
            f"the builder {engine.builder} is an engine of its own, which keeps what it builds",
            hint=f"without --builder, by DOCKER_CONTEXT={engine.builder}; --builder is for the drivers "
            "remote, kubernetes and docker-container",
        )
    return engine


def run_build(
    ctx: Context, engine: Engine, request: BuildRequest, step: Step, on_event: Callable[[Event], None]
) -> BuildResult:
    """Build; every line a step prints is shown when verbose. Raises BuildError with the log's path."""

    def events(event: Event) -> None:
        if isinstance(event, LogLine):
            ctx.reporter.detail(event.text)
        if isinstance(event, StepFailed) and event.step.startswith(IMPORT):
            ctx.reporter.say(f"{event.step} failed, building without it: {event.error}")
        if isinstance(event, Note) and event.text.startswith(WARNING):
            ctx.reporter.say(event.text)
        ctx.on_build(engine, step, event)
        on_event(event)

    buildx = open_buildx(engine, ctx.env, ctx.store)
    request = replace(request, cache_from=ctx.cache_from)
    return build(buildx, request, log=log_path(ctx.store, step), on_event=events, stop=ctx.stop)


def note_steps(reporter: Reporter, task: Task, event: Event) -> None:
    """Count finished steps and name the one that started last."""
    if isinstance(event, StepDone):
        reporter.advance(task, 1)
    elif isinstance(event, StepStarted):
        reporter.advance(task, 0, event.step[:72])


def log_path(store: Store, step: Step) -> Path:
    """The path of a step's full log. Only the last log of each key is kept."""
    return store.root / "logs" / f"{step.name}-{step.key[:12]}.log"


def check_exported(folder: Path, *expected: str) -> None:
    """Raise BuildError for any other name, a link or a folder: compiled code may write any file.

    The store reads and writes here with your rights, and would follow a link out of the folder.
    """
    wrong = [
        path.name
        for path in sorted(folder.iterdir())
        if not (any(fnmatchcase(path.name, pattern) for pattern in expected) and stat.S_ISREG(path.lstat().st_mode))
    ]
    if wrong:
        raise BuildError(
            f"the build stage exported {', '.join(map(ascii, wrong[:5]))}",
            where=f"expected only regular files: {', '.join(expected)}",
            hint="a patch or a source tree that the stage compiled may have written it: read them",
        )


def remember_built(store: Store, engine: Engine, plan: Plan) -> None:
    """Mark the layers and tools of a plan that was just built."""
    section = engine_folder(engine)
    for step in plan.steps:
        if step.kind not in IN_ENGINE:
            continue
        store.write_text(store.entry(section, step.key), step.name)
