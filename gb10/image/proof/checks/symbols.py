"""Symbols: the loader finds every library and every symbol that a library or program of the image wants."""

from collections import defaultdict
from collections.abc import Sequence

from gb10.image.proof.check import Check, Problem, Subject
from gb10.image.proof.wheel_claims import of_other_pythons
from gb10.image.recipe.allowances import Allowances, fits
from gb10.inside.scan.linked import Absent, Unresolved

NAMED = 3
WHEN = {"load": "it cannot be loaded", "call": "it fails when it calls them"}


def judge(subject: Subject) -> list[Problem]:
    """Every file that lacks a library or symbols; what another library of the image offers is there.

    A module for another Python than its folder's, with one for that Python beside it, is loaded by nobody.
    """
    if subject.linked is None:
        return []
    idle = of_other_pythons(binary.path for binary in subject.scan.binaries)
    absent = [one for one in subject.linked.absent if one.path not in idle]
    unresolved = [one for one in subject.linked.unresolved if one.path not in idle]
    found = [*_absent(absent, subject.allowed), *_unresolved(absent, unresolved, subject.allowed)]
    if subject.linked.more:
        found.append(Problem(file="the image", expected="few of them", found=f"{subject.linked.more} more"))
    return found


def _absent(absent: Sequence[Absent], allowed: Allowances) -> list[Problem]:
    return [
        Problem(file=one.path, expected=f"{one.library}, which it needs", found="no such file in the image")
        for one in absent
        if not allowed.absent(one.library, one.path)
    ]


def _unresolved(absent: Sequence[Absent], unresolved: Sequence[Unresolved], allowed: Allowances) -> list[Problem]:
    """One problem for each file and moment; symbols of a library that may be absent are that library's."""
    offered: dict[str, list[str]] = defaultdict(list)
    for lacking in absent:
        if entry := allowed.absent(lacking.library, lacking.path):
            offered[lacking.path] += entry.symbols
    wanted: dict[tuple[str, str], list[str]] = defaultdict(list)
    for one in unresolved:
        name = one.symbol.partition("@")[0]
        if not fits(name, offered[one.path]) and not allowed.unresolved(name, one.path):
            wanted[one.path, one.when].append(one.symbol)
    return [
        Problem(file=path, expected="libraries with its symbols", found=f"{_undefined(symbols)}: {WHEN[when]}")
        for (path, when), symbols in sorted(wanted.items())
    ]


def _undefined(symbols: list[str]) -> str:
    more = f" and {len(symbols) - NAMED} more" if len(symbols) > NAMED else ""
    return f"undefined {', '.join(symbols[:NAMED])}{more}"


CHECK = Check(
    name="symbols",
    reads="the dynamic symbols of every library and program of an image, searched as ld.so does",
    fails="a library is needed, or a symbol is wanted, that no file of the image has, nor the GPU's driver",
    hint="it was built for another release of what it needs (torch, most often): install two that fit",
    judge=judge,
)
