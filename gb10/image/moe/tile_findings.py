"""What a tuning run found: read strictly, line by line, and the row that each batch size gets. Pure."""

import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

LEAST_WIN: Final = 0.02
SPREADS: Final = 2.0
"""A row replaces the default when it wins by more than LEAST_WIN, and by more than SPREADS times its spread."""
FEWEST: Final = 5


class _Line(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=True)


class Machine(_Line):
    """What was tuned on; ``memory`` in bytes."""

    kind: Literal["machine"]
    gpu: str
    capability: list[int]
    units: int
    memory: int
    driver: str
    torch: str
    triton: str
    clock_mhz: int | None
    host: str = ""


class Refused(_Line):
    """The shape needs more bytes than the run may take."""

    kind: Literal["refused"]
    need: int
    memory: int
    host: str = ""


class Screened(_Line):
    """One row, timed briefly; ``us`` is None for one that failed, ``why`` says so."""

    kind: Literal["screen"]
    size: int
    row: dict[str, int]
    us: float | None
    why: str | None
    error: float
    seconds: float
    host: str = ""


class Timed(_Line):
    """One row of the last round: microseconds of each turn."""

    kind: Literal["final"]
    size: int
    routing: str
    row: dict[str, int]
    us: list[float]
    host: str = ""


class Done(_Line):
    """A batch size is finished; ``compiled`` counts kernels since the start of that worker."""

    kind: Literal["done"]
    size: int
    seconds: float
    compiled: int
    host: str = ""


class End(_Line):
    """The worker is finished; ``peak`` in bytes."""

    kind: Literal["end"]
    peak: int
    compiled: int
    host: str = ""


Finding = Machine | Refused | Screened | Timed | Done | End
LINE: Final[TypeAdapter[Finding]] = TypeAdapter(
    Annotated[Machine | Refused | Screened | Timed | Done | End, Field(discriminator="kind")]
)


def read_line(line: str) -> Finding | None:
    """A finding; None for a line that is none, such as the half one of a run that was killed."""
    try:
        return LINE.validate_json(line)
    except ValidationError:
        return None


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    """The row of a batch size. ``win``: the least share of time it saves; ``spread``: of the noisier of the two."""

    size: int
    row: Mapping[str, int]
    default: Mapping[str, int]
    win: float
    spread: float
    microseconds: float
    """Median of the default, uniform routing."""

    @property
    def is_default(self) -> bool:
        """Whether it is the engine's own row."""
        return self.row == self.default


def finished(findings: Iterable[Finding]) -> set[int]:
    """Batch sizes that need no work."""
    return {one.size for one in findings if isinstance(one, Done)}


def choose(findings: Sequence[Finding], defaults: Mapping[int, Mapping[str, int]]) -> tuple[Choice, ...]:
    """A row for each finished batch size: the default, unless another wins clearly with every routing."""
    done = finished(findings)
    return tuple(_choice(findings, size, default) for size, default in sorted(defaults.items()) if size in done)


def _choice(findings: Sequence[Finding], size: int, default: Mapping[str, int]) -> Choice:
    times: dict[str, dict[str, list[float]]] = {}
    for one in findings:
        if isinstance(one, Timed) and one.size == size and len(one.us) >= FEWEST:
            times.setdefault(json.dumps(one.row, sort_keys=True), {})[one.routing] = one.us
    own = times.get(json.dumps(dict(default), sort_keys=True), {})
    base = statistics.median(own["uniform"]) if "uniform" in own else 0.0
    best = Choice(size=size, row=default, default=default, win=0.0, spread=0.0, microseconds=base)
    for text, found in times.items():
        win, spread = _against(own, found)
        if win > max(LEAST_WIN, SPREADS * spread) and win > best.win:
            row = json.loads(text)
            best = Choice(size=size, row=row, default=default, win=win, spread=spread, microseconds=base)
    return best


def _against(own: Mapping[str, Sequence[float]], found: Mapping[str, Sequence[float]]) -> tuple[float, float]:
    """The least win over all routings, and the largest spread of any side; no win when a routing is missing."""
    if not own or own.keys() != found.keys():
        return 0.0, 0.0
    wins = [1 - statistics.median(found[routing]) / statistics.median(own[routing]) for routing in own]
    return min(wins), max(spread(times) for side in (own, found) for times in side.values())


def spread(times: Sequence[float]) -> float:
    """The standard deviation, relative, by the median of distances from the median: one slow turn does not count."""
    middle = statistics.median(times)
    return 1.4826 * statistics.median(abs(one - middle) for one in times) / middle
