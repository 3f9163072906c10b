"""Machine: each library of a wheel is for the machine that the wheel names, or for a GB10's where it is for any."""

from gb10.image.proof.check import Check, Problem, Subject
from gb10.image.proof.wheel_claims import OF_GPUS, SPARK, claim_of, wheel_claims


def judge(subject: Subject) -> list[Problem]:
    """Every library for another machine. Of an image the check `requirements` knows the platform."""
    if subject.target is None:
        return []
    claims = wheel_claims(subject)
    problems = []
    for binary in subject.scan.binaries:
        claim = claim_of(binary.path, claims)
        wanted = (claim.machine if claim else "") or SPARK
        if claim and binary.machine not in (*OF_GPUS, wanted):
            said = f"code for {wanted}{', as its wheel says' if claim.machine else ''}"
            problems.append(Problem(file=binary.path, expected=said, found=f"code for {binary.machine}"))
    return problems


CHECK = Check(
    name="wheel_machine",
    reads="the header of every ELF of a wheel or a folder, and the tags of its wheel",
    fails="a library or a program is for another machine than its wheel says; in a wheel for any: than a GB10",
    hint="the file was built or packed on another machine: build the wheel for aarch64, or take the index's own",
    judge=judge,
)
