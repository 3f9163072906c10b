"""Whether two sides were measured alike: what speaks against either, and what differs between them. Pure."""

import re
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from gb10.serving.benchmark.saved_serve import SavedServe
from gb10.serving.load_generator.validity import busy_gpus, gpus, number

ALIKE: Final = {
    "prompt": "tokens of a prompt",
    "answer": "tokens of an answer",
    "depth": "tokens of context",
    "exact": "--exact-tg",
    "extra": "fields of a request",
    "tool": "load generator",
    "tool_version": "version of the load generator",
    "runs": "runs",
    "warm_up": "warm-up runs",
    "canary_tokens": "tokens of a canary",
}
"""Settings that must be equal, and how a person calls them."""
MACHINE: Final = {"kernel": "kernel", "machine": "architecture", "cores": "CPU cores", "governor": "CPU governor"}
GPU: Final = {"name": "GPU", "driver_version": "NVIDIA driver"}
CLOCK: Final = 0.03
FIGURE: Final = re.compile(r"\d[\d.,]*")


def doubts_of(side: str, served: Sequence[SavedServe]) -> Iterator[str]:
    """The doubts of a side's launches, each kind once: its first example, and how many launches have it."""
    values_by_side: dict[str, list[str]] = {}
    for one in served:
        for kind, doubt in {FIGURE.sub("#", doubt): doubt for doubt in one.doubts}.items():
            values_by_side.setdefault(kind, []).append(doubt)
    for found in values_by_side.values():
        yield f"{side}: {found[0]}" + (f" ({len(found)} of {len(served)})" if len(served) > 1 else "")


def different_settings(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[str]:
    """Settings in which two benchmarks differ, so that their figures cannot be compared."""
    found = [f"{text}: {a.get(name)} and {b.get(name)}" for name, text in ALIKE.items() if a.get(name) != b.get(name)]
    books = [one.get("book", {}).get("sha256") for one in (a, b)]
    return [*found, "the book that prompts are cut from"] if books[0] != books[1] else found


def differences(a: Sequence[SavedServe], b: Sequence[SavedServe]) -> Iterator[str]:
    """What differs between the sides' machines, models and tokenizers, beside what the user compares."""
    if not a or not b:
        return
    for name, text in MACHINE.items():
        yield from _differs(text, [one.machine.get(name) for one in a], [one.machine.get(name) for one in b])
    for name, text in GPU.items():
        yield from _differs(text, *([_of_gpu(one, name) for one in side] for side in (a, b)))
    yield from _differs("model", [one.model for one in a], [one.model for one in b])
    tokenizers = [[one.settings.get("tokenizer") for one in side] for side in (a, b)]
    if set(map(str, tokenizers[0])) != set(map(str, tokenizers[1])):
        yield "the tokenizers differ: prompts of equal tokens are not of equal text"
    clocks = [_clock(side) for side in (a, b)]
    if clocks[0] and clocks[1] and abs(clocks[0] / clocks[1] - 1) > CLOCK:
        yield f"the GPU's clock differs: {clocks[0]:,.0f} MHz with A, {clocks[1]:,.0f} with B"


def _differs(what: str, a: Sequence[object], b: Sequence[object]) -> Iterator[str]:
    one, two = (", ".join(sorted({str(value) for value in side})) for side in (a, b))
    if one != two:
        yield f"{what} differs: {one} with A, {two} with B"


def _of_gpu(served: SavedServe, name: str) -> str:
    return ", ".join(str(gpu.get(name)) for gpu in gpus(served.machine)) or "unknown"


def _clock(side: Sequence[SavedServe]) -> float | None:
    """The median clock of a side's GPUs under load, in MHz."""
    looks = [look for one in side for level in one.levels for look in level.looks]
    found = [clock for gpu in busy_gpus(looks) if (clock := number(gpu.get("clocks.sm")))]
    return statistics.median(found) if found else None
