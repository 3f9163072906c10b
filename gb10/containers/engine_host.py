"""The machine that a container engine runs on, as the engine has it."""

import re
import time
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from gb10.containers.connection import Engine, asking
from gb10.containers.docker_answers import EngineIdAnswer, MachineAnswer

FRACTION: Final = re.compile(r"\.(\d{1,6})\d*")


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineHost:
    """The machine behind an engine."""

    machine: str
    """In the kernel's spelling: ``aarch64``."""
    memory: int
    """Bytes."""
    ahead: float
    """Seconds by which its clock is before ours; zero where that is not known."""
    runtimes: frozenset[str]
    """Names of the engine's runtimes: ``runc``, ``nvidia``."""


def engine_host(engine: Engine) -> EngineHost:
    """The machine that an engine runs on; raises EngineError."""
    with asking(engine) as sdk:
        sent = time.time()
        info = MachineAnswer.model_validate(sdk.info())
        middle = (sent + time.time()) / 2
    clock = seconds_of(info.clock)
    return EngineHost(
        machine=info.machine,
        memory=info.memory,
        ahead=clock - middle if clock is not None else 0.0,
        runtimes=frozenset(info.runtimes),
    )


def engine_id(engine: Engine) -> str:
    """An engine's name for itself; it gets a new one when its data are wiped. Raises EngineError."""
    with asking(engine) as sdk:
        return EngineIdAnswer.model_validate(sdk.info()).id


def seconds_of(moment: str) -> float | None:
    """A time as an engine writes it (RFC 3339, nanoseconds) in seconds since 1970; None for what is none. Pure."""
    try:
        found = datetime.fromisoformat(FRACTION.sub(lambda part: f".{part[1]:0<6}", moment))
    except (ValueError, OverflowError):
        return None
    return found.timestamp() if found.tzinfo is not None and found.year > 1 else None
