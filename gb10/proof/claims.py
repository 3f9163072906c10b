"""Claims held against bytes: the cubins that a module of ours declares, the arch that a marker names. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from gb10.errors import VerifyError
from gb10.inside.scan import Binary, Scan
from gb10.recipe.arch import Arch


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """One claim that the bytes do not bear out."""

    file: str
    expected: str
    found: str

    def __str__(self) -> str:
        return f"{self.file}\n  expected {self.expected}\n  found    {self.found}"


def check_declared(declared: Mapping[str, Sequence[str]], scans: Iterable[Scan]) -> list[Problem]:
    """Problems of modules by the end of their path: exactly the declared SASS, in every unit some.

    PTX beside the SASS is no problem: it is never what a GPU of the declared arch loads.
    """
    binaries = [binary for scan in scans for binary in scan.binaries]
    problems: list[Problem] = []
    for module, cubins in sorted(declared.items()):
        named = [binary for binary in binaries if f"/{binary.path}".endswith(f"/{module}")]
        if not named:
            problems.append(Problem(file=module, expected=_listed(cubins), found="no such file"))
        for binary in named:
            problems += _check_module(binary, cubins)
    return problems


def _check_module(binary: Binary, cubins: Sequence[str]) -> list[Problem]:
    if binary.error:
        return [Problem(file=binary.path, expected=_listed(cubins), found=f"{binary.kind}: {binary.error}")]
    if set(_sass(binary.codes)) != set(cubins):
        return [Problem(file=binary.path, expected=_listed(cubins), found=described(binary))]
    bare = sum(unit.count for unit in binary.units if not _sass(unit.codes))
    if bare:
        expected = f"{_listed(cubins)} in every unit"
        return [Problem(file=binary.path, expected=expected, found=f"{bare} units without any cubin")]
    return []


def check_claim(arch: Arch, scan: Scan, claim: str) -> list[Problem]:
    """Problems of a wheel or directory that ``claim`` (a marker, a tag) says was built for ``arch``.

    Every binary with GPU code must hold SASS of exactly that arch, suffix included, and one binary at least must.
    """
    holders = [binary for binary in scan.binaries if binary.codes or binary.error]
    expected = f"{arch.sm}, as {claim} claims"
    if not holders:
        return [Problem(file=scan.root, expected=expected, found="no GPU code")]
    wrong = [binary for binary in holders if arch.sm not in binary.codes]
    return [Problem(file=binary.path, expected=expected, found=described(binary)) for binary in wrong]


def refuse(problems: Sequence[Problem]) -> None:
    """Raise VerifyError with every problem; return when there is none."""
    if problems:
        subject = "1 file does" if len(problems) == 1 else f"{len(problems)} files do"
        raise VerifyError(
            f"{subject} not hold the GPU code that {'it' if len(problems) == 1 else 'they'} should",
            where="\n".join(map(str, problems)),
            hint="rebuild it (wheels --rebuild-NAME); if the declaration is wrong, correct that",
        )


def described(binary: Binary) -> str:
    """``sm_120 x50, compute_80 x19``, or why that is unknown."""
    return binary.error or counted(binary.codes) or "no GPU code"


def counted(codes: Mapping[str, int]) -> str:
    """``sm_120 x50, compute_80 x19``."""
    return ", ".join(f"{code} x{count}" for code, count in codes.items())


def _sass(codes: Iterable[str]) -> list[str]:
    return [code for code in codes if code.startswith("sm_")]


def _listed(cubins: Sequence[str]) -> str:
    return ", ".join(sorted(cubins)) or "no cubin"
