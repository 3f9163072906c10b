"""Builds through docker buildx: one request in, events while it runs, the image's digest or a BuildError out."""

import json
import os
import re
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from gb10.containers.buildx.commands import Buildx
from gb10.containers.buildx.progress import (
    EXPORT,
    IMPORT,
    Event,
    RawJson,
    Record,
    StepDone,
    StepFailed,
    StepStarted,
    Transfer,
)
from gb10.containers.connection import Engine
from gb10.core.concurrency import IdleTimeout, Stop
from gb10.core.proc import SILENT, CommandFailedError, stream
from gb10.errors import BuildError, Gb10Error

PATIENCE: Final = 900.0
"""Seconds without progress after which a pull is given up; unpacking a large layer shows none for minutes."""
LAYER: Final = 7200.0
"""The same for one layer of a cache's export, of which BuildKit reports only start and end: 9 GB at 10 Mbit/s."""
STEPS: Final = re.compile(
    rf"{IMPORT}|{EXPORT}|\[internal\] load metadata for|resolve image config for|docker-image://|\[[^\]]*\] FROM "
)
"""How BuildKit names the steps that only read from a registry, or write a cache to it."""


@dataclass(slots=True)
class Pulls:
    """What runs, and how far each transfer is. BuildKit repeats the figures of a pull that stands still."""

    running: set[str] = field(default_factory=set)
    done: dict[tuple[str, str], tuple[int, bool]] = field(default_factory=dict)
    news: int = 0
    clock: Callable[[], float] = time.monotonic
    since: float = 0.0
    """When the last news came."""

    def take(self, event: Event) -> None:
        """One more event."""
        match event:
            case StepStarted(step):
                self.running.add(step)
            case StepDone(step) | StepFailed(step):
                self.running.discard(step)
            case Transfer(step, what, done, _, whole):
                if self.done.get((step, what)) == (done, whole):
                    return
                self.done[step, what] = done, whole
            case _:
                pass
        self.news += 1
        self.since = self.clock()

    @property
    def waiting(self) -> tuple[str, ...]:
        """The steps that run, if all of them only wait for a registry."""
        steps = tuple(self.running)
        return steps if all(map(STEPS.match, steps)) else ()

    @property
    def exporting(self) -> bool:
        """Whether one of them writes a cache."""
        return any(step.startswith(EXPORT) for step in self.waiting)

    def sign(self, _: int) -> object:
        """The sign of life for ``IdleTimeout``: always another one while a step runs that may be silent."""
        in_time = self.exporting and self.clock() - self.since < LAYER - PATIENCE
        return self.news if self.waiting and not in_time else object()

    def error(self, target: str, log: Path) -> BuildError:
        """The error of a build that was ended because it only waited."""
        what, hint = f"a registry sent nothing for {PATIENCE:.0f} s", "that registry, then run the command again"
        if self.exporting:
            what = f"a cache export finished no layer for {LAYER:.0f} s"
            hint = "that cache, then run the command again, or without --cache-to"
        return BuildError(
            f"{what}: the build of {target} was ended",
            where="\n".join([*sorted(self.waiting), f"log: {log}"]),
            hint=f"check the network to {hint}: finished steps are kept",
        )


Network = Literal["none", "default", "host"]


@dataclass(frozen=True, kw_only=True, slots=True)
class BuildRequest:
    """One target of one Dockerfile. Of ``out`` and ``output`` only one can be named.

    ``network`` is for steps that say ``RUN --network=default``; ``host`` is for an engine that has no bridge.
    """

    dockerfile: Path
    target: str
    platform: str
    context: Path | None = None
    """Where ADD and COPY without --from read; None: an empty directory."""
    contexts: Mapping[str, Path | str] = field(default_factory=dict)
    """Named ones: a folder, or ``docker-image://TAG`` of the engine."""
    secrets: Mapping[str, Path] = field(default_factory=dict)
    build_args: Mapping[str, str] = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    rebuild_id: bool = False
    """Whether every stage runs, whatever BuildKit's cache has."""
    fresh: tuple[str, ...] = ()
    """Stages that run in every build: BuildKit looks for no result of theirs in its cache."""
    output: str | None = None
    """buildx's --output; without it and ``out`` the result stays in the build cache alone."""
    out: Path | None = None
    """A directory that receives the result's files."""
    network: Network = "none"
    cache_from: tuple[str, ...] = ()
    cache_to: tuple[str, ...] = ()
    """External caches, as buildx takes them."""

    def __post_init__(self) -> None:
        if self.out and self.output:
            raise Gb10Error(f"a build has two outputs: {self.out} and {self.output}")


@dataclass(frozen=True, kw_only=True, slots=True)
class BuildResult:
    """The result as buildx reports it; the digests are None when no image was made."""

    image: str | None
    """Digest of the manifest (without containerd's store: of the config)."""
    config: str | None
    metadata: Mapping[str, object]


def lent_network(engine: Engine) -> Network:
    """The network for steps that say ``--network=default``: the embedded engine has no bridge, and lends the host's."""
    return "host" if engine.kind == "embedded" and engine.builder is None else "default"


def image_output(engine: Engine) -> str:
    """buildx's --output that hands an image to the engine; layers that stay on this machine are not compressed."""
    if engine.builder:
        return "type=docker,compression=uncompressed"
    return "type=image,compression=uncompressed" if engine.containerd else "type=image"


def build(
    buildx: Buildx,
    request: BuildRequest,
    *,
    log: Path,
    on_event: Callable[[Event], None] = lambda event: None,
    stop: Stop | None = None,
) -> BuildResult:
    """Build; the readable log goes to ``log``. Raises BuildError with the failed step and its last lines.

    ``stop`` ends the build, and CancelledError is raised.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    work = buildx.store.scratch("build")
    try:
        with log.open("w", encoding="utf-8") as out:
            _run(buildx, request, work, Record(out, log, on_event), stop)
        return _result(work / "metadata.json")
    finally:
        shutil.rmtree(work, ignore_errors=True)


def arguments(request: BuildRequest, *, work: Path) -> list[str]:
    """buildx's arguments for a request. Pure."""
    argv = ["build", "--progress=rawjson", "--provenance=false", "--sbom=false"]
    argv += [f"--network={request.network}", f"--metadata-file={work / 'metadata.json'}"]
    argv += [f"--file={request.dockerfile}", f"--target={request.target}", f"--platform={request.platform}"]
    argv += [f"--build-context={name}={path}" for name, path in sorted(request.contexts.items())]
    argv += [f"--secret=id={name},{_csv(f'src={path}')}" for name, path in sorted(request.secrets.items())]
    argv += [f"--build-arg={name}={value}" for name, value in sorted(request.build_args.items())]
    argv += [f"--tag={tag}" for tag in request.tags]
    argv += ["--no-cache"] if request.rebuild_id else [f"--no-cache-filter={stage}" for stage in request.fresh]
    argv += [f"--cache-from={cache}" for cache in request.cache_from]
    argv += [f"--cache-to={cache}" for cache in request.cache_to]
    output = f"type=local,{_csv(f'dest={request.out}')}" if request.out else request.output or "type=cacheonly"
    return [*argv, f"--output={output}", str(request.context or work / "empty")]


def _csv(text: str) -> str:
    """A field as buildx's CSV options want it when it holds a comma or a quote."""
    doubled = text.replace('"', '""')
    return f'"{doubled}"'


def _run(buildx: Buildx, request: BuildRequest, work: Path, record: Record, stop: Stop | None) -> None:
    (work / "empty").mkdir()
    parser, waits = RawJson(), Pulls()

    def on_line(line: str) -> None:
        for event in parser.feed(line):
            waits.take(event)
            record.take(event)

    argv = [*buildx.command, *arguments(request, work=work)]
    patience = IdleTimeout(seconds=PATIENCE, sign=waits.sign)
    try:
        stream(argv, log=Path(os.devnull), on_line=on_line, env=buildx.env, stop=stop, patience=patience)
    except CommandFailedError as error:
        if error.returncode == SILENT:
            raise waits.error(request.target, record.log) from error
        raise record.error(request.target) from error


def _result(metadata: Path) -> BuildResult:
    found = json.loads(metadata.read_text(encoding="utf-8")) if metadata.exists() else {}
    return BuildResult(
        image=found.get("containerimage.digest"), config=found.get("containerimage.config.digest"), metadata=found
    )
