"""What a GPU of one compute capability does with the code that a scan found. Pure.

Rules: CUDA C++ programming guide, "Binary compatibility", "PTX compatibility" and "Family-specific features".
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from gb10.errors import UsageError
from gb10.image.recipe.arch import Arch
from gb10.inside.scan.binary import Binary
from gb10.inside.scan.code_fit import Fit, code_fit
from gb10.inside.scan.fatbin import Codes
from gb10.inside.scan.scan import Scan

MEANING = {
    Fit.NATIVE: "SASS of exactly this capability",
    Fit.FAMILY: "SASS of the family, loaded as it is",
    Fit.COMPATIBLE: "plain SASS of an earlier minor, loaded as it is",
    Fit.PTX: "PTX only: compiled by the driver on first use",
    Fit.NOTHING: "code for other GPUs only: cannot be launched",
    Fit.NONE: "no GPU code",
    Fit.DAMAGED: "unreadable",
}
UNIT_FITS = (Fit.NATIVE, Fit.FAMILY, Fit.COMPATIBLE, Fit.PTX, Fit.NOTHING)
RANK = {fit: rank for rank, fit in enumerate(Fit)}


@dataclass(frozen=True, kw_only=True, slots=True)
class Judged:
    """A binary, its best fit, and how many of its units (fatbins, about one per translation unit) have which."""

    binary: Binary
    fit: Fit
    units: dict[Fit, int]


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """Every binary of a scan, judged for one arch."""

    arch: Arch
    root: str
    judged: tuple[Judged, ...]

    @property
    def counts(self) -> dict[Fit, int]:
        """The number of binaries per best fit; every fit has an entry."""
        found = Counter(item.fit for item in self.judged)
        return {fit: found[fit] for fit in Fit}


def parse_fits(names: Sequence[str]) -> frozenset[Fit]:
    """The named fits, or all without a name. Raises UsageError for an unknown one."""
    known = {str(fit): fit for fit in Fit}
    wrong = next((name for name in names if name not in known), None)
    if wrong is not None:
        raise UsageError(f"unknown fit {wrong!r}", hint=f"valid: {', '.join(known)}")
    return frozenset(known[name] for name in names) or frozenset(Fit)


def judge(scan: Scan, arch: Arch) -> Verdict:
    """The fit of a scan for the arch's GPU. Only the capability counts, not the suffix."""
    judged = tuple(judge_binary(binary, arch.capability) for binary in scan.binaries)
    return Verdict(arch=arch, root=scan.root, judged=judged)


def judge_binary(binary: Binary, capability: str) -> Judged:
    """One binary on one capability."""
    units: Counter[Fit] = Counter()
    for unit in binary.units:
        units[unit_fit(unit.codes, capability)] += unit.count
    best = min(units, key=RANK.__getitem__, default=Fit.NONE)
    return Judged(
        binary=binary,
        fit=Fit.DAMAGED if binary.error else best,
        units={fit: units[fit] for fit in UNIT_FITS},
    )


def unit_fit(codes: Codes, capability: str) -> Fit:
    """The best that one unit offers."""
    return min((code_fit(code, capability) for code in codes), key=RANK.__getitem__, default=Fit.NONE)
