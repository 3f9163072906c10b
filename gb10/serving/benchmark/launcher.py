"""A server that is launched to be measured: by a command, by a recipe, or one that runs already."""

import re
import shlex
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from gb10.containers.docker_containers import tail_of
from gb10.containers.images import find_image
from gb10.core.child_sessions import leading, started
from gb10.core.fetch import redact
from gb10.core.host import Host
from gb10.core.journal import Journal
from gb10.core.proc import CommandFailedError
from gb10.core.reporter import clock
from gb10.errors import Gb10Error, ServeError, UsageError
from gb10.image.context import Context
from gb10.models.load.model_recipe import ModelRecipe
from gb10.serving.doctor.masking import masked, masked_environment
from gb10.serving.run.existing import of_service, services_on
from gb10.serving.run.fleet import Fleet, open_fleet
from gb10.serving.run.health import is_healthy
from gb10.serving.run.prepare_service import PreparedService, ServiceRequest, load_source, prepare_service
from gb10.serving.run.running import running
from gb10.serving.run.service import Service
from gb10.serving.run.watching import LINES, Watched, cause_of, end_service, ending_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Launched:
    """A healthy server."""

    url: str
    facts: Mapping[str, object] = field(default_factory=dict)
    """What ran: the command, the image and its digest, the settings."""
    log: Callable[[], Sequence[str]] = tuple
    """The lines of its log so far; of several ranks, the head's."""
    logs: Callable[[], Mapping[str, Sequence[str]]] = dict
    """The lines of each rank, by ``rank N on HOST``; empty where there is one log."""
    ended: Callable[[], str] = str
    """How it ended; empty while it runs."""
    processes: Sequence[str] = ()
    """What its processes are told by: the number of their leader, or the ids of the containers that they are in."""


Launcher = Callable[[], AbstractContextManager[Launched]]
"""Starts a server and ends it with the context. Raises ServeError with the line of its log that tells why."""


def running_already(url: str) -> Launcher:
    """The launcher of an endpoint that is not ours to start."""

    @contextmanager
    def launch() -> Iterator[Launched]:
        yield Launched(url=url, facts={"endpoint": redact(url)})

    return launch


PLACE: Final = re.compile(r"\{([a-z_][a-z0-9_]*)\}")
"""Other braces are the command's own: JSON, say."""
ENV: Final = "env."


@dataclass(frozen=True, slots=True, kw_only=True)
class Filled:
    """What runs."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]


def fill(template: str, parameters: Mapping[str, str], port: int) -> Filled:
    """The template with its parameters. A value may have several words; ``env.NAME`` sets a variable.

    Raises UsageError for a placeholder without a value, and for a parameter that nothing uses.
    """
    values = {"port": str(port), "args": "", **parameters}
    wanted = set(PLACE.findall(template))
    missing = sorted(wanted - values.keys())
    unused = sorted(name for name in parameters if name not in wanted and not name.startswith(ENV))
    if missing:
        hint = f"valid: {', '.join(sorted(values))}"
        raise UsageError(f"the command has {{{missing[0]}}}, which has no value", where=template, hint=hint)
    if unused:
        hint = f"write {{{unused[0]}}} where it belongs"
        raise UsageError(f"the command has no place for {unused[0]!r}", where=template, hint=hint)
    try:
        argv = tuple(shlex.split(PLACE.sub(lambda found: values[found[1]], template)))
    except ValueError as error:
        raise UsageError("the command is not complete", where=f"{template}: {error}") from error
    if not argv:
        raise UsageError("the command is empty", hint="--launch 'vllm serve MODEL --port {port}'")
    environment = {name.removeprefix(ENV): value for name, value in parameters.items() if name.startswith(ENV)}
    return Filled(argv=argv, environment=environment)


LOOK: Final = 0.25
TAIL: Final = 1 << 20
"""Bytes of a log's end that are read."""
NO_KEYS: Final = ("OPENAI_API_KEY",)
"""Variables that a server does not need, and might print."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """How a server is started. ``patience``: seconds until it must be healthy."""

    template: str
    parameters: Mapping[str, str]
    url: str = "http://127.0.0.1:{port}"
    patience: float = 1800.0


def by_command(host: Host, command: Command, log: Path, begun: Callable[[int, int], object]) -> Launcher:
    """The launcher; ``begun`` gets the leader of the new session and when it started, so that a later run can end it.

    Raises UsageError for a template that cannot be filled.
    """
    fill(command.template, command.parameters, 0)

    @contextmanager
    def launch() -> Iterator[Launched]:
        port = free_port()
        filled = fill(command.template, command.parameters, port)
        own = {name: value for name, value in host.env.items() if name not in NO_KEYS}
        url = command.url.replace("{port}", str(port))
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text("", encoding="utf-8")
        try:
            with leading(filled.argv, log=log, env={**own, **filled.environment}) as child:
                begun(child.pid, started(child.pid) or 0)
                found = Launched(
                    url=url,
                    facts={
                        "command": masked(shlex.join(filled.argv)),
                        "environment": masked_environment(filled.environment),
                    },
                    log=lambda: tail(log),
                    ended=lambda: "" if (code := child.poll()) is None else _ending(code),
                    processes=(str(child.pid),),
                )
                _wait(host, found, command.patience, log)
                yield found
        except CommandFailedError as error:
            raise ServeError(f"{filled.argv[0]} cannot be started", where=error.tail) from error

    return launch


def _ending(code: int) -> str:
    """A negative code is a signal's, as a shell would add 128 to it."""
    return ending_of(128 - code if code < 0 else code, out_of_memory=False)


def _wait(host: Host, launched: Launched, patience: float, log: Path) -> None:
    """Until the server is healthy. Raises ServeError when it ends, or patience does."""
    deadline = time.monotonic() + patience
    with host.reporter.task("loading") as task:
        while not is_healthy(launched.url):
            lines = launched.log()
            if launched.ended():
                cause = cause_of(lines)
                raise ServeError(f"the server did not start: {launched.ended()}", where=cause, hint=f"its log: {log}")
            if time.monotonic() > deadline:
                last = next((line for line in reversed(lines) if line.strip()), None)
                what = f"the server is not healthy after {clock(patience)}: {launched.url}/health"
                raise ServeError(what, where=last, hint=f"its log: {log}\ngive it more time: --wait SECONDS")
            host.reporter.update(task, 0, 0, lines[-1].strip()[:100] if lines else "")
            time.sleep(LOOK)


def tail(path: Path) -> list[str]:
    """The last lines of a log."""
    with path.open("rb") as stream:
        size = stream.seek(0, 2)
        stream.seek(max(0, size - TAIL))
        return stream.read().decode("utf-8", "replace").splitlines()


def free_port() -> int:
    """A port of this machine on which nothing listens."""
    with socket.socket() as probing:
        probing.bind(("127.0.0.1", 0))
        return int(probing.getsockname()[1])


def by_recipe(ctx: Context, prepared: PreparedService, logs: Path) -> Launcher:
    """The launcher of a service. A container of its name, which a killed run left behind, is ended first.

    What each rank printed is kept in files whose names begin as ``logs``.
    """

    @contextmanager
    def launch() -> Iterator[Launched]:
        name = prepared.service.name
        with open_fleet(ctx, prepared.service.hosts) as fleet:
            left = of_service(services_on(fleet), name)
            if left:
                end_service(fleet, left, name)
            with running(ctx, fleet, prepared, keep=partial(keep_ranks, logs)) as watched:
                if watched is None or watched.service is None:
                    raise AssertionError("the service was ended, and runs")
                try:
                    yield _launched(watched.service, fleet, watched)
                finally:
                    watched.end()

    return launch


def keep_ranks(logs: Path, found: Mapping[str, Sequence[str]]) -> None:
    """A file for each rank, without secrets."""
    logs.parent.mkdir(parents=True, exist_ok=True)
    for rank, lines in found.items():
        name = re.sub(r"[^A-Za-z0-9.-]+", "-", rank)
        text = masked("\n".join(lines))
        logs.with_name(f"{logs.name}-{name}.log").write_text(f"{text}\n", encoding="utf-8")


def _launched(service: Service, fleet: Fleet, watched: Watched) -> Launched:
    images = {host: find_image(engine, service.image) for host, engine in fleet.items()}
    head = next(iter(fleet))

    def log() -> Sequence[str]:
        try:
            return tail_of(fleet[head], watched.containers[head], LINES)
        except Gb10Error as error:
            return [str(error.message)]

    def ended() -> str:
        death = watched.look()
        return f"rank {death.rank} on {death.host}: {death.how}" if death else ""

    return Launched(
        url=service.endpoint,
        facts={
            "image": service.image,
            "digest": {host: image.id for host, image in images.items() if image},
            "command": {rank.node.host: masked(rank.container.command) for rank in service.ranks},
            "environment": {rank.node.host: masked_environment(rank.container.environment) for rank in service.ranks},
        },
        log=log,
        logs=watched.logs,
        ended=ended,
        processes=tuple(watched.containers.values()),
    )


MakeLauncher = Callable[[Journal, str], Launcher]
"""The launcher of a side or a row; the journal takes what a later run must end, the text names the launch's log."""
IMAGE, VARIANT, ARGS = "image", "variant", "args"
KEY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")
Parameters = Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Starting:
    """How servers are started: by a command, or a recipe as `run` does it."""

    request: ServiceRequest
    """Of a recipe; each side or row has parameters of its own beside."""
    recipe: str | None
    launch: str | None
    endpoint: str

    @property
    def document(self) -> dict[str, Any]:
        """All that decides what a server is, but for a side's own parameters."""
        render = self.request.render
        return {
            "recipe": self.recipe,
            "launch": self.launch,
            "endpoint": self.endpoint,
            "nodes": self.request.nodes,
            "image": self.request.image,
            "variant": render.variant,
            "set": [list(pair) for pair in render.overrides],
        }

    def launcher(self, ctx: Context, parameters: Parameters, service: str, logs: Path) -> MakeLauncher:
        """The launcher of a side or a row. Raises UsageError for parameters that cannot be."""
        if self.recipe is not None:
            source = load_source(ctx.env, self.recipe)
            request = with_parameters(self.request, source.recipe, parameters, service)
            prepared = prepare_service(ctx.reporter, ctx.env, request, source=source)
            return lambda journal, name: by_recipe(ctx, prepared, logs / name)
        if self.launch is None:
            raise UsageError("nothing says how servers are started", hint="--recipe NAME, or --launch COMMAND")
        command = Command(
            template=self.launch, parameters=parameters, url=self.endpoint, patience=self.request.patience
        )
        by_command(ctx, command, logs / "none.log", lambda *_: None)

        def make(journal: Journal, name: str) -> Launcher:
            def begun(pid: int, started: int) -> None:
                journal.append_object({"kind": "begun", "pid": pid, "started": started})

            return by_command(ctx, command, logs / f"{name}.log", begun)

        return make


def with_parameters(
    request: ServiceRequest, recipe: ModelRecipe, parameters: Parameters, service: str
) -> ServiceRequest:
    """A request with a side's parameters in it. Raises UsageError for one that the recipe does not have."""
    own = {name: value for name, value in parameters.items() if name not in (IMAGE, VARIANT, ARGS)}
    known = recipe.defaults
    unknown = sorted(name for name in own if not name.startswith(ENV) and name.partition(".")[0] not in known)
    if unknown:
        hint = f"its parameters: {', '.join(known)}; args='…' gives the server more arguments"
        raise UsageError(f"{recipe.name} has no parameter {unknown[0]!r}", hint=hint)
    render = replace(
        request.render,
        overrides=(*request.render.overrides, *own.items()),
        variant=parameters.get(VARIANT) or request.render.variant,
        arguments=words_of(parameters.get(ARGS, "")),
    )
    return replace(request, render=render, image=parameters.get(IMAGE) or request.image, name=service)


def words_of(text: str) -> tuple[str, ...]:
    """The words of a text, as a shell divides it. Raises UsageError. Pure."""
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise UsageError(f"a quotation mark has no partner in {text!r}", where=str(error)) from error


def parameters_of(text: str) -> dict[str, str]:
    """``KEY=VALUE KEY='two words'``; a word without ``=`` is an image. Raises UsageError. Pure."""
    found: dict[str, str] = {}
    for word in words_of(text):
        key, _, value = word.partition("=") if KEY.match(word) and "=" in word else (IMAGE, "", word)
        if KEY.fullmatch(key) is None or key in found:
            raise UsageError(f"not a setting: {word!r}", hint="write KEY=VALUE KEY=VALUE, each key once, or an image")
        found[key] = value
    return found
