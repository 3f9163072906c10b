"""Declared: modules that were compiled here hold exactly the cubins that their wheel's manifest names."""

from collections.abc import Sequence

from gb10.image.proof.check import Check, Problem, Subject, described, sass
from gb10.inside.scan.binary import Binary


def judge(subject: Subject) -> list[Problem]:
    """Every declared module that is missing or holds something else; damaged ones are left to that check."""
    problems: list[Problem] = []
    for file, cubins in sorted(subject.declared.items()):
        found = subject.binaries_at(file)
        if not found:
            problems.append(Problem(file=file, expected=_listed(cubins), found="no such file"))
        for binary in found:
            problems += [] if binary.error else _compare(binary, cubins)
    return problems


def _compare(binary: Binary, cubins: Sequence[str]) -> list[Problem]:
    """PTX beside the SASS is no problem: a GPU of the declared arch never loads it."""
    if sass(binary.codes) != set(cubins):
        return [Problem(file=binary.path, expected=_listed(cubins), found=described(binary))]
    bare = sum(unit.count for unit in binary.units if not sass(unit.codes))
    if bare:
        expected = f"{_listed(cubins)} in every unit"
        return [Problem(file=binary.path, expected=expected, found=f"{bare} units without any cubin")]
    return []


def _listed(cubins: Sequence[str]) -> str:
    return ", ".join(sorted(cubins)) or "no cubin"


CHECK = Check(
    name="declared",
    reads="the manifest.json of wheels that were compiled here, and the modules that it names",
    fails="a module is missing, holds other SASS than it declares, or has a unit without SASS",
    hint="build it again: ./build.py wheels --rebuild NAME; if the declaration is wrong, correct that",
    judge=judge,
)
