"""Watching a service: when a rank ends, it is named with the line of its log that tells why, and all are ended."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from textwrap import shorten
from typing import Final

from gb10.containers.connection import Engine, engine_host, seconds_of
from gb10.containers.docker_containers import ContainerState, container_state, tail_of, was_silent
from gb10.core.log_words import first_error
from gb10.errors import Gb10Error, ServeError
from gb10.serving.doctor.log_judging import remedy_of
from gb10.serving.run.existing import Found
from gb10.serving.run.fleet import Fleet, on_all_nodes, on_all_nodes_collect_errors
from gb10.serving.run.service import Service
from gb10.serving.run.start_phases import StartPhases, read_phases
from gb10.serving.run.starting import end_all

GUARDED: Final = 99
"""The exit code of launch.sh when it ended the server because memory ran out."""
GUARD: Final = "gb10: "
"""How a line of launch.sh begins."""
GUARD_ENDS: Final = "the memory guard ends the server"
SIGNALS: Final = {137: "SIGKILL", 139: "SIGSEGV", 143: "SIGTERM", 134: "SIGABRT", 135: "SIGBUS", 132: "SIGILL"}
LONGEST: Final = 300


def cause_of(lines: Sequence[str]) -> str | None:
    """The line of a log that tells why its server ended.

    That is the first exception that no other caused, else the first line that speaks of an error, else the last line.
    """
    texts = [line.strip() for line in lines if line.strip()]
    return error_line(texts) or (_short(texts[-1]) if texts else None)


def error_line(lines: Sequence[str]) -> str | None:
    """The line of a log that tells of an error; None for a log without one."""
    found = first_error([line.strip() for line in lines])
    return _short(found) if found else None


def guard_report(lines: Sequence[str]) -> list[str]:
    """What the memory guard printed of the last end of a server: its rule, and the figures of half a minute."""
    start = max((index for index, line in enumerate(lines) if GUARD_ENDS in line), default=None)
    return [] if start is None else [line.strip() for line in lines[start:] if line.startswith(GUARD)]


def ending_of(code: int, *, out_of_memory: bool) -> str:
    """An exit code in words."""
    if code == GUARDED:
        return "the memory guard ended it"
    if out_of_memory:
        return "it ran out of the memory that its container may use"
    return f"it was ended by {SIGNALS[code]}" if code in SIGNALS else f"it ended with code {code}"


def _short(line: str) -> str:
    return shorten(line, LONGEST, placeholder=" …")


PAUSE: Final = 1.0
"""Seconds between two looks."""
AWAY: Final = 10.0
"""Seconds since its last answer after which a node counts as lost, when its engine refuses connections."""
SILENT: Final = 30.0
"""The same when it accepts them and says nothing: a busy machine does so, too."""
LINES: Final = 2000
SHOWN: Final = 6
ENDING: Final = 8
"""Seconds that the other ranks get to end by themselves."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Death:
    """How a rank ended. ``cause`` is a line of its log, if there is one; ``lines`` are the last of it."""

    rank: int
    host: str
    how: str
    at: float
    """When, by the clock of this machine."""
    code: int = 0
    lost: bool = False
    """Whether its node does not answer, so that nothing more can be read of it."""
    cause: str | None = None
    lines: tuple[str, ...] = ()
    remedy: str | None = None
    """What to do, when a rule of `doctor` knows the error."""
    report: tuple[str, ...] = ()
    """What the memory guard printed, when it ended the rank."""


@dataclass(slots=True)
class Watched:
    """A running service: the ranks in the order of the fleet. It has no ``containers`` after its end.

    ``ahead`` has the seconds by which the clocks of nodes are before ours: engines tell by these when a rank ended.
    ``heard`` is when each node answered last.
    """

    name: str
    fleet: Fleet
    containers: dict[str, str]
    ahead: Mapping[str, float] = field(default_factory=dict)
    heard: dict[str, float] = field(default_factory=dict)
    keep: Callable[[Mapping[str, Sequence[str]]], object] | None = None
    """Gets the logs of all ranks before they are gone, if it is to have them."""
    service: Service | None = None
    """As it was started; None for one that was found."""
    secrets: tuple[str, ...] = ()
    """Values that the servers got beside it (a token of the Hub)."""

    def look(self) -> Death | None:
        """The rank that ended first, if one has."""
        found = on_all_nodes_collect_errors(
            lambda host, engine: container_state(engine, self.containers[host]), self.fleet
        )
        deaths = [death for rank, host in enumerate(self.fleet) if (death := self._death(rank, host, found[host]))]
        return min(deaths, key=lambda death: death.at) if deaths else None

    def _death(self, rank: int, host: str, state: ContainerState | Gb10Error | None) -> Death | None:
        now = time.time()
        heard = self.heard.setdefault(host, now)
        if isinstance(state, Gb10Error):
            how = f"its node does not answer: {state.where or state.message}"
            lost = now - heard > (SILENT if was_silent(state) else AWAY)
            return Death(rank=rank, host=host, how=how, at=heard, lost=True) if lost else None
        self.heard[host] = now
        if state is None:
            return Death(rank=rank, host=host, how="its container was removed, by stop or by another watch", at=heard)
        if state.runs:
            return None
        ended = seconds_of(state.ended)
        at = heard if ended is None else ended - self.ahead.get(host, 0.0)
        how = ending_of(state.code, out_of_memory=state.out_of_memory)
        return Death(rank=rank, host=host, how=how, code=state.code, at=at)

    def explained(self, death: Death) -> Death:
        """The death with the lines of its log, if its node answers."""
        if death.lost:
            return death
        lines = on_all_nodes_collect_errors(
            lambda host, engine: tail_of(engine, self.containers[host], LINES), {death.host: self.fleet[death.host]}
        )[death.host]
        if isinstance(lines, Gb10Error):
            return death
        report = guard_report(lines) if death.code == GUARDED else []
        last = [line for line in lines if line.strip() and line.strip() not in report][-SHOWN:]
        cause, remedy, clean = cause_of(lines), remedy_of(lines), self.without_secrets
        return replace(
            death,
            cause=clean(cause) if cause else None,
            lines=tuple(map(clean, last)),
            remedy=clean(remedy) if remedy else None,
            report=tuple(map(clean, report)),
        )

    def without_secrets(self, text: str) -> str:
        """A text of a log for a screen: without tokens and passwords, also those that the ranks were given."""
        from gb10.serving.doctor.masking import masked, secrets_in, secrets_of  # noqa: PLC0415 - its patterns

        containers = [rank.container for rank in self.service.ranks] if self.service else []
        given = [(*secrets_of(one.environment), *secrets_in(one.command)) for one in containers]
        return masked(text, dict.fromkeys(chain(*given, self.secrets)))

    def logs(self) -> dict[str, Sequence[str]]:
        """The last lines of each rank's log, by ``rank N on HOST``; of a node that does not answer, why."""
        read = {host: engine for host, engine in self.fleet.items() if host in self.containers}
        found = on_all_nodes_collect_errors(lambda host, engine: tail_of(engine, self.containers[host], LINES), read)
        return {
            f"rank {rank} on {host}": [lines.message] if isinstance(lines, Gb10Error) else lines
            for rank, host in enumerate(self.fleet)
            if (lines := found.get(host)) is not None
        }

    def keep_logs(self) -> None:
        """Hand the logs of all ranks out, while there are some."""
        if self.keep and self.containers:
            self.keep(self.logs())

    def end(self) -> dict[str, Gb10Error]:
        """End every rank; the error of each node where that failed."""
        self.keep_logs()
        left = end_all(self.fleet, {host: (one,) for host, one in self.containers.items()}, patience=ENDING)
        self.containers.clear()  # who started them need not wait for a lost node again
        return left


def guard_reports(fleet: Fleet, found: Sequence[Found]) -> dict[str, list[str]]:
    """What the memory guard printed of each container that it ended, by the container's id.

    A node that does not answer is left out: its log cannot be read.
    """
    ended = [one for one in found if not one.state.runs and one.state.code == GUARDED]
    on = {host: [one.state.id for one in ended if one.host == host] for host in fleet}

    def read(host: str, engine: Engine) -> dict[str, list[str]]:
        return {container: guard_report(tail_of(engine, container, LINES)) for container in on[host]}

    done = on_all_nodes_collect_errors(read, {host: engine for host, engine in fleet.items() if on[host]})
    return {name: lines for part in done.values() if isinstance(part, dict) for name, lines in part.items()}


def starts_of(fleet: Fleet, found: Sequence[Found]) -> dict[str, StartPhases]:
    """How long the starts of the heads that run took, by container; of a node that does not answer, nothing."""
    heads = [one for one in found if one.state.runs and one.labels.rank == 0]
    on = {host: [one.state.id for one in heads if one.host == host] for host in fleet}

    def read(host: str, engine: Engine) -> dict[str, StartPhases]:
        kept = {container: read_phases(engine, container) for container in on[host]}
        return {container: phases for container, phases in kept.items() if phases}

    done = on_all_nodes_collect_errors(read, {host: engine for host, engine in fleet.items() if on[host]})
    return {name: phases for part in done.values() if isinstance(part, dict) for name, phases in part.items()}


def watch(watched: Watched, until: Callable[[], bool]) -> None:
    """Look every second until ``until`` says so; when a rank ends, end all. Raises ServeError that names it."""
    while not until():
        death = watched.look()
        if death:
            death = watched.explained(death)
            raise died(watched.name, death, watched.end())
        time.sleep(PAUSE)


def died(name: str, death: Death, left: Mapping[str, Gb10Error]) -> ServeError:
    """The error of a service whose rank ended, and of nodes where the others could not be ended. Pure."""
    where = list(death.report) or [death.cause or ""]
    if death.lines and death.cause not in death.lines[-1:]:
        where += ["the last lines of its log:", *(f"  {line[:300]}" for line in death.lines)]
    where += [f"not ended on {host}: {error.message}" for host, error in left.items() if host != death.host]
    hint = (
        "let it use less memory: --set gpu_memory_utilization=N, a shorter max_model_len"
        if death.code == GUARDED
        else death.remedy
    )
    again = "end what is left: ./build.py stop " + name if left else None
    return ServeError(
        f"{name}: rank {death.rank} on {death.host} ended first: {death.how}; all ranks are stopped",
        where="\n".join(filter(None, where)) or None,
        hint="\n".join(filter(None, (hint, again))) or None,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Ended:
    """A service that was ended: its containers by node."""

    name: str
    containers: tuple[Found, ...]


def watched_service(fleet: Fleet, name: str, own: Sequence[Found]) -> Watched:
    """A service that runs, to be watched. Raises EngineError."""
    ranks = {one.host: fleet[one.host] for one in own}
    machines = on_all_nodes(lambda _, engine: engine_host(engine), ranks)
    return Watched(
        name=name,
        fleet=ranks,
        containers={one.host: one.state.id for one in own},
        ahead={host: machine.ahead for host, machine in machines.items()},
    )


def end_service(fleet: Fleet, own: Sequence[Found], name: str) -> Ended:
    """End and remove all containers of a service. Raises ServeError that names the nodes where that failed."""
    errors = end_all(fleet, {host: [one.state.id for one in own if one.host == host] for host in fleet})
    if errors:
        where = "\n".join(f"{host}: {error.where or error.message}" for host, error in errors.items())
        raise ServeError(f"{name} is not stopped everywhere", where=where, hint="run the command again")
    return Ended(name=name, containers=tuple(own))
