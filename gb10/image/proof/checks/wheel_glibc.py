"""glibc: each library of a wheel or a folder finds its symbols of the C library on the target."""

from gb10.image.proof.check import Check, Problem, Subject
from gb10.image.proof.wheel_claims import SPARK, claim_of, wheel_claims


def judge(subject: Subject) -> list[Problem]:
    """Every library that wants a newer glibc. A library for another machine is another check's."""
    if subject.target is None:
        return []
    claims, glibc = wheel_claims(subject), subject.target.glibc
    problems = []
    for binary in subject.scan.binaries:
        claim, wanted = claim_of(binary.path, claims), binary.versions.get("GLIBC", "")
        own = (claim.machine if claim else "") or SPARK
        if wanted and binary.machine in ("", own) and _numbers(wanted) > _numbers(glibc):
            found = f"it wants GLIBC_{wanted}"
            problems.append(Problem(file=binary.path, expected=f"a library for glibc {glibc} or older", found=found))
    return problems


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


CHECK = Check(
    name="wheel_glibc",
    reads="the symbol versions that every ELF of a wheel or a folder wants of glibc, and --glibc",
    fails="one wants a newer glibc than the target has: 2.39, that of DGX OS 7, where --glibc names no other",
    hint="build it on an older system, take an older wheel, or run it in an image with this glibc",
    judge=judge,
)
