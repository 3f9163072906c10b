"""What one question to an engine's look-up gave: read from JSON, and how the answers are written. Pure."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """One file's parameters. ``module``: where the engine's module would lie; ``user``: the user's folder or None.

    ``shape`` has the parameters of the file's name by the names that the engine gives them. ``most``: rows are asked
    for each M from 1 to this one.
    """

    engine: str
    family: str
    module: str
    user: str | None
    shape: dict[str, Any]
    most: int
    topk: int = 8
    hidden: int = 2048
    group: int = 128
    triton: str = ""


@dataclass(slots=True)
class Answer:
    """What the engine did. ``opened``: the file it read; ``keys``: the batch sizes in it; ``name``: what it asked for.

    ``spans`` are ``[first M, last M, row, who takes it, the whole row or the error]``.
    """

    opened: str | None = None
    name: str = ""
    keys: list[int] | None = None
    raised: str | None = None
    spans: list[list[Any]] = field(default_factory=list)


def spans(sizes: Iterable[int], row_at: Callable[[int], list[Any]]) -> list[list[Any]]:
    """Runs of batch sizes that get equal rows: what ``row_at`` returns, after the first and the last size."""
    found: list[list[Any]] = []
    for size in sizes:
        row = row_at(size)
        if found and found[-1][2:] == row and found[-1][1] == size - 1:
            found[-1][1] = size
        else:
            found.append([size, size, *row])
    return found


def error_line(error: Exception) -> str:
    """An error in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:300]
