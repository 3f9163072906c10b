"""One node's budget: items with their origin, the pool for the cache, peaks, and what does not fit. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from gb10.models.memory.figures import GIB, Known

Code = Literal[
    "weights-too-large",
    "pool-too-small",
    "share-too-large",
    "headroom-too-small",
    "load-peak",
    "cache-padding",
    "table",
]


@dataclass(frozen=True, kw_only=True, slots=True)
class Item:
    """What takes ``size`` bytes while the server answers."""

    name: str
    size: int
    known: Known
    source: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """Why a node's memory is too small; ``warning`` when the server starts all the same."""

    code: Code
    text: str
    warning: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Budget:
    """Memory of the nodes of one pipeline stage. All sizes in bytes.

    ``pool`` is the KV cache's; ``tokens`` is what it holds of requests of full length, of which ``requests`` fit.
    ``load`` and ``start`` are peaks before the server answers: while it loads, and while it compiles at a first start.
    """

    stage: int
    total: int
    items: tuple[Item, ...]
    pool: int
    tokens: int
    requests: float | None
    load: int
    start: int
    problems: tuple[Problem, ...] = ()

    @property
    def serving(self) -> int:
        """Bytes in use while the server answers."""
        return sum(item.size for item in self.items)

    @property
    def fits(self) -> bool:
        """Whether the server starts, and leaves the machine what it needs."""
        return all(problem.warning for problem in self.problems)


def size_of(items: Sequence[Item], *names: str) -> int:
    """Bytes of the items with these names."""
    return sum(item.size for item in items if item.name in names)


def gib(size: float) -> str:
    """``59.1 GiB``."""
    return f"{size / GIB:.1f} GiB"
