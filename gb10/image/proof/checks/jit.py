"""JIT: a note which libraries hold only PTX for the GPU, and what compiling it costs."""

from collections.abc import Sequence

from gb10.image.proof.arch_match import unit_fit
from gb10.image.proof.check import Check, Problem, Subject
from gb10.inside.scan.binary import Binary, Unit
from gb10.inside.scan.code_fit import Fit

SMALL = 1_000_000
"""Bytes of PTX that are not worth a line."""


def judge(subject: Subject) -> list[Problem]:
    """Every library whose first use waits for the driver's compiler."""
    if subject.arch is None:
        return []
    capability, problems = subject.arch.capability, list[Problem]()
    for binary in subject.scan.binaries:
        units = [unit for unit in binary.units if unit_fit(unit.codes, capability) is Fit.PTX]
        if ptx_of(units) >= SMALL:
            problems.append(_note(binary, units, subject))
    return problems


def ptx_of(units: Sequence[Unit]) -> int:
    """Bytes of PTX that the driver would compile: of several versions of a unit it takes one."""
    return sum(unit.ptx // max(1, sum(code.startswith("compute_") for code in unit.codes)) for unit in units)


def _note(binary: Binary, units: Sequence[Unit], subject: Subject) -> Problem:
    size, cost = ptx_of(units) / 1e6, subject.allowed.ptx
    count = sum(unit.count for unit in units)
    minutes = f", up to {size * cost.seconds_per_mb / 60:,.0f} CPU minutes in all" if cost else ""
    return Problem(
        file=binary.path,
        expected="SASS for this GPU",
        found=f"PTX alone in {count} units, {size:,.0f} MB: the driver compiles each on its first use{minutes}",
    )


CHECK = Check(
    name="jit",
    reads="the code of every library, unit by unit, and the size of its PTX before compression",
    fails="for a unit the GPU finds PTX alone, 1 MB or more in a library",
    hint="keep the cache of compiled kernels on a volume: CUDA_CACHE_PATH; or compile the library for the GPU",
    judge=judge,
    severity="note",
)
