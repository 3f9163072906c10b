"""Machine: each library of a wheel or a folder is for the machine that its wheel names, else for a GB10's."""

from gb10.image.proof.check import Check, Problem, Subject
from gb10.image.proof.wheel_claims import SPARK, claim_of, wheel_claims

OF_GPUS = ("", "cuda", "other")


def judge(subject: Subject) -> list[Problem]:
    """Every library for another machine. Of an image the check `requirements` knows the platform."""
    if subject.target is None:
        return []
    claims = wheel_claims(subject)
    problems = []
    for binary in subject.scan.binaries:
        claim = claim_of(binary.path, claims)
        wanted = (claim.machine if claim else "") or SPARK
        if binary.machine not in (*OF_GPUS, wanted):
            said = f"code for {wanted}{', as its wheel says' if claim and claim.machine else ''}"
            problems.append(Problem(file=binary.path, expected=said, found=f"code for {binary.machine}"))
    return problems


CHECK = Check(
    name="wheel_machine",
    reads="the header of every ELF of a wheel or a folder, and the tags of its wheel",
    fails="a library or a program is for another machine than its wheel says, or than a GB10 where no wheel says it",
    hint="the file was built or packed on another machine: build the wheel for aarch64, or take the index's own",
    judge=judge,
)
