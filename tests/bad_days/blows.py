"""Blows: what happens to a command while it runs, at a moment that chance chose."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gb10.containers.connection import Engine
from tests.integration.nodes import kill
from tests.integration.proxy import Line

SIGNALS: Final = {"kill -9": signal.SIGKILL, "SIGINT": signal.SIGINT, "SIGTERM": signal.SIGTERM}
ENGINE: Final = "engine killed"
NETWORK: Final = "network gone"
DISK: Final = "disk full"
OUTAGE: Final = 3.0
"""Seconds that a broken thing stays broken while the command goes on."""
LONGEST: Final = 600.0
"""Seconds after which a command counts as hung."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Surroundings:
    """What a blow can hit beside the command itself; None where the command has no such thing."""

    engine: Engine | None = None
    line: Line | None = None
    full: Callable[[], AbstractContextManager[None]] | None = None

    def blows(self) -> list[str]:
        """The kinds that can happen here."""
        found = {ENGINE: self.engine, NETWORK: self.line, DISK: self.full}
        return [*SIGNALS, *(name for name, there in found.items() if there is not None)]


@dataclass(frozen=True, kw_only=True, slots=True)
class End:
    """How a command ended; ``late``: it was over before the blow."""

    code: int
    err: str
    seconds: float
    late: bool


def struck(  # noqa: PLR0917 - the command, then what happens to it
    argv: Sequence[str], env: Mapping[str, str], log: Path, around: Surroundings, blow: str, moment: float
) -> End:
    """Run a command and let the blow fall after ``moment`` seconds; what it breaks is whole again afterwards."""
    begin = time.monotonic()
    with log.open("wb") as err, _breaking(around, blow) as breaks:
        child = subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=err)
        try:
            late = _ended_within(child, moment)
            if not late:
                mended = breaks(child)
                if not _ended_within(child, OUTAGE):
                    mended()
            code = child.wait(LONGEST)
        finally:
            child.kill()
            child.wait()
    return End(
        code=code, err=log.read_text(encoding="utf-8", errors="replace"), seconds=time.monotonic() - begin, late=late
    )


def _ended_within(child: subprocess.Popen[bytes], seconds: float) -> bool:
    try:
        child.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


@contextmanager
def _breaking(around: Surroundings, blow: str) -> Iterator[Callable[[subprocess.Popen[bytes]], Callable[[], None]]]:
    """What breaks when it is called, and returns what mends it; all is whole again when the context ends."""
    with ExitStack() as until_then:

        def fall(child: subprocess.Popen[bytes]) -> Callable[[], None]:
            if blow in SIGNALS:
                os.kill(child.pid, SIGNALS[blow])
            elif blow == ENGINE and around.engine:
                kill(around.engine)
            elif blow == NETWORK and around.line:
                until_then.enter_context(around.line.gone())
            elif blow == DISK and around.full:
                until_then.enter_context(around.full())
            return until_then.close

        yield fall
