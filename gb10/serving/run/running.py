"""One service from its recipe to a healthy endpoint; what was started is ended when that fails."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from gb10.containers.connection import engine_host
from gb10.containers.docker_containers import tail_of
from gb10.containers.images import ImageInfo
from gb10.core.reporter import Reporter, clock
from gb10.errors import EndpointError, Gb10Error, ServeError, UsageError
from gb10.image.context import Context
from gb10.models.memory.estimating import NAMES
from gb10.serving.doctor.rule_files import load_stages
from gb10.serving.guard.finding import Verdict
from gb10.serving.run.existing import Found, check_memory, of_service, runs_unchanged, services_on
from gb10.serving.run.fleet import Fleet, on_all_nodes, on_all_nodes_collect_errors
from gb10.serving.run.health import first_answer, is_healthy
from gb10.serving.run.notes import note_nodes
from gb10.serving.run.ports import check_port
from gb10.serving.run.prepare_service import PreparedService
from gb10.serving.run.service import Service
from gb10.serving.run.start_phases import keep_phases
from gb10.serving.run.starting import end_all, ready_images, started
from gb10.serving.run.watching import LINES, Watched, cause_of, died, watch

DYING: Final = 3
"""Seconds that a server takes to end after an error that ends it."""
OTHER: Final = "another attention or MoE backend may help: ./build.py explain MODEL"
SECRETS: Final = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")
"""Variables that a server gets from the user's environment, and that no recipe holds."""


Keep = Callable[[Mapping[str, Sequence[str]]], object]
"""Gets the logs of all ranks before they are ended."""


@contextmanager
def running(
    ctx: Context, fleet: Fleet, prepared: PreparedService, *, keep: Keep | None = None
) -> Iterator[Watched | None]:
    """The service, healthy; None when it runs already, unchanged. Ended when the context fails.

    Raises UsageError, EngineError, PublishError (the pull), ServeError.
    """
    machines = on_all_nodes(lambda _, engine: engine_host(engine), fleet)
    service = prepared.service
    images = ready_images(ctx, fleet, service.image, machines)
    found = services_on(fleet)
    own = of_service(found, service.name)
    if runs_unchanged(service, own, images):
        yield None
        return
    image = next(iter(images.values()))
    mods = prepared.mods(ctx.reporter, image)  # first: a mod that needs trust must end no running service
    _say_replaced(ctx.reporter, service, images)
    prepared = prepared.placed(ctx.reporter, ctx.env, image).with_folders(ctx.reporter)
    _clear(ctx.reporter, fleet, prepared.service, own, replace=prepared.request.replace)
    service = prepared.meeting_free(ctx.reporter).service
    check_memory(service, found, machines)
    check_port(service, [one for one in found if one not in own])
    secrets = {name: ctx.env[name] for name in SECRETS if ctx.env.get(name)}
    _note(ctx, service)
    with started(service, fleet, images, mods, secrets, reporter=ctx.reporter) as containers:
        _note(ctx, service)  # once more: `status` forgets a service that is on none of its nodes
        ahead = {host: machine.ahead for host, machine in machines.items()}
        watched = Watched(
            name=service.name,
            fleet=fleet,
            containers=containers,
            ahead=ahead,
            keep=keep,
            service=service,
            secrets=tuple(secrets.values()),
        )
        try:
            _healthy(ctx.reporter, service, watched, prepared.request.patience)
            began = time.monotonic()
            _check_answer(ctx, service, watched)
            _say_phases(ctx.reporter, service, watched, time.monotonic() - began)
        except BaseException:
            watched.keep_logs()
            raise
        yield watched


def _note(ctx: Context, service: Service) -> None:
    """Note the nodes of a service, for `status`, `logs` and `stop`. It runs without, too."""
    try:
        note_nodes(ctx.env, service.name, service.hosts)
    except UsageError as error:
        why = ": ".join(filter(None, (error.message, error.where)))
        ctx.reporter.say_once(f"its nodes are not noted, so status, logs and stop need --nodes: {why}")


def _say_replaced(reporter: Reporter, service: Service, images: Mapping[str, ImageInfo]) -> None:
    """Say which variables of PyTorch's allocator the image sets, and this service sets otherwise."""
    for one in dict.fromkeys(text for image in images.values() for text in image.environment):
        name, _, value = one.partition("=")
        given = service.ranks[0].container.environment.get(name, value)
        if name in NAMES and value not in given:
            reporter.say(
                f"the image's {name}={value} does not count: this service sets {given}; write it into the recipe"
            )


def _clear(reporter: Reporter, fleet: Fleet, service: Service, own: Sequence[Found], *, replace: bool) -> None:
    """Remove what a former run of this service left. Raises UsageError for one that runs, unless it is replaced.

    Ranks whose other ranks have ended serve nobody: a node was started anew, or the tool was killed.
    """
    runs, name = [one for one in own if one.state.runs], service.name
    half = len(runs) < len(service.ranks) and all(one.labels.digest == service.digest for one in runs)
    if runs and not half and not replace:
        where = "\n".join(f"{one.host}: {one.state.name}, since {one.state.started[:19]}" for one in runs)
        hint = f"stop it (./build.py stop {name}), or replace it (--replace)"
        raise UsageError(f"{name} runs already, with other settings or another image", where=where, hint=hint)
    if runs and half:
        reporter.say(f"{name}: {len(runs)} of its {len(service.ranks)} ranks run, so it is started anew")
    elif own:
        reporter.say(f"{name}: removing {len(own)} container{'s' * (len(own) > 1)} of an earlier run")
    for error in end_all(fleet, {host: [one.state.id for one in own if one.host == host] for host in fleet}).values():
        raise error


def _healthy(reporter: Reporter, service: Service, watched: Watched, patience: float) -> None:
    """Wait until the server says that it is ready. Raises ServeError when a rank ends, or patience does."""
    deadline = time.monotonic() + patience
    with reporter.task(f"{service.name}: loading") as task:

        def ready() -> bool:
            if time.monotonic() > deadline:
                raise _late(watched, patience)
            reporter.update(task, 0, 0, _last_line(watched))
            return is_healthy(service.endpoint)

        watch(watched, ready)


def _say_phases(reporter: Reporter, service: Service, watched: Watched, first_answer: float) -> None:
    """Say how long each phase of the start took, by the head's log, and keep it for ``status``; it is no condition."""
    head, stages = next(iter(watched.fleet)), load_stages()
    found = on_all_nodes_collect_errors(
        lambda host, engine: keep_phases(engine, watched.containers[host], stages, first_answer),
        {head: watched.fleet[head]},
    )[head]
    if found is None or isinstance(found, Gb10Error):
        why = f": {found.message}" if found else ", its log shows no line that begins or ends one"
        reporter.say(f"{service.name}: the phases of its start are not known{why}")
        return
    reporter.say(f"{service.name}: {found.line}")
    if advice := found.advice(stages):
        reporter.say(f"{service.name}: {advice}")


def _last_line(watched: Watched) -> str:
    """The newest line of the head's log, for the progress; without secrets, before it is cut."""
    found = _lines(watched, 1)
    return watched.without_secrets(found[-1].strip())[:100] if found else ""


def _lines(watched: Watched, count: int) -> list[str]:
    """The newest lines of the head's log; none when its node does not answer, which the watch finds."""
    head = next(iter(watched.fleet))
    found = on_all_nodes_collect_errors(
        lambda host, engine: tail_of(engine, watched.containers[host], count), {head: watched.fleet[head]}
    )[head]
    return [] if isinstance(found, Gb10Error) else found


def _late(watched: Watched, patience: float) -> ServeError:
    line = _last_line(watched)
    return ServeError(
        f"{watched.name} is not healthy after {clock(patience)}; it is stopped",
        where=f"the last line of its log: {line}" if line else None,
        hint="give it more time: --wait SECONDS; models that are not on the disk are downloaded first",
    )


def _check_answer(ctx: Context, service: Service, watched: Watched) -> None:
    """Raise ServeError when the first answer is no sound text, with the line that tells why a server failed."""
    try:
        with ctx.reporter.task(f"{service.name}: first request"):
            answers, judgement = first_answer(service, ctx.env)
    except EndpointError as error:
        raise _failed(watched, f"{service.name} is healthy and does not answer; it is stopped", error.where) from error
    why = watched.without_secrets(judgement.why)
    if judgement.verdict.bad:
        message = f"{service.name} is healthy, but its first answer is {judgement.verdict}; it is stopped"
        if judgement.verdict in (Verdict.ERROR, Verdict.CUT):  # as a server does that dies meanwhile
            raise _failed(watched, message, why)
        raise ServeError(message, where=why, hint=OTHER)
    if why:
        ctx.reporter.say(f"{service.name}: the first answer is {judgement.verdict}: {why}")
    if answers != service.answers:
        ctx.reporter.say(f"{service.name}: it has no chat, and answers /v1/{answers}")
        watched.service = replace(service, answers=answers)


def _failed(watched: Watched, message: str, why: str | None) -> ServeError:
    """The error of a server that failed at its first request: its death, if it dies, else a line of its log."""
    for _ in range(DYING):
        death = watched.look()
        if death:
            return died(watched.name, watched.explained(death), watched.end())
        time.sleep(1)
    where = "\n".join(filter(None, (why, cause_of(_lines(watched, LINES)))))
    return ServeError(message, where=watched.without_secrets(where) or None, hint=OTHER)
