"""Running a fuzzer's inputs, by seed; what breaks a promise is kept under ``found/`` and run again by the tests."""

import hashlib
import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.fuzz.fuzzers import FUZZERS
from tests.fuzz.gauge import run

FOUND: Final = Path(__file__).parent / "found"


@dataclass(frozen=True, slots=True)
class Catch:
    """An input that breaks a promise, and how."""

    data: bytes
    problem: str


def hunt(name: str, seed: str, numbers: Iterable[int], folder: Path) -> tuple[Catch | None, int]:
    """Run the inputs of these numbers; the first that breaks a promise, and how many were run."""
    fuzzer, wanted = FUZZERS[name], list(numbers)
    finding = run((fuzzer.input(seed, number) for number in wanted), fuzzer.read, folder)
    if finding is None:
        return None, len(wanted)
    data = fuzzer.input(seed, wanted[finding.index]) if finding.index >= 0 else b""
    return Catch(data, finding.problem), finding.index + 1


def keep(name: str, catch: Catch) -> Path:
    """Write an input to ``found/NAME/``, for the tests to run again."""
    path = FOUND / name / hashlib.sha256(catch.data).hexdigest()[:12]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(catch.data)
    return path


def kept() -> list[Path]:
    """The inputs that once broke a promise."""
    return sorted(path for path in FOUND.glob("*/*") if path.parent.name in FUZZERS)


def rounds(size: int) -> Iterable[range]:
    """Numbers of inputs without end, so many at a time."""
    return (range(start, start + size) for start in itertools.count(0, size))
