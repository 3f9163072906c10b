"""A server started by a command of the user's: watched until it is healthy, ended with all that it started."""

import shlex
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gb10.core.host import Host
from gb10.core.proc import CommandFailedError
from gb10.core.reporter import clock
from gb10.core.server_session import end_session, leading, started
from gb10.errors import ServeError
from gb10.serving.doctor.masking import masked, masked_environment
from gb10.serving.run.cause import cause_of, ending_of
from gb10.serving.run.health import is_healthy
from gb10.serving.trial.launcher import Launched, Launcher
from gb10.serving.trial.template import fill

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


def end_left(host: Host, pid: int, begun: int) -> None:
    """End the server that a killed run left behind, if it is still the same process."""
    if begun and started(pid) == begun:
        host.reporter.say(f"ending the server that an earlier run left behind (process {pid})")
        end_session(pid)
