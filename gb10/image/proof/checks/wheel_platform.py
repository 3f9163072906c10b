"""Platform: a note for a wheel, a folder of packages or a library that is for another machine than a GB10."""

from gb10.image.proof.check import Check, Problem, Subject
from gb10.image.proof.wheel_claims import OF_GPUS, SPARK, claim_of, wheel_claims


def judge(subject: Subject) -> list[Problem]:
    """Every wheel and folder of packages for another machine, and every library outside of them."""
    if subject.target is None:
        return []
    claims = wheel_claims(subject)
    found = {one.site if one.site != "." else subject.scan.root: one.machine for one in claims}
    loose = (binary for binary in subject.scan.binaries if not claim_of(binary.path, claims))
    found |= {binary.path: binary.machine for binary in loose if binary.machine not in OF_GPUS}
    return [
        Problem(file=file, expected=f"code for {SPARK}", found=f"it is for {machine}, a GB10 is {SPARK}")
        for file, machine in found.items()
        if machine not in ("", SPARK)
    ]


CHECK = Check(
    name="wheel_platform",
    reads="the tags of a wheel, or of the wheels that a folder was installed from; else the header of each ELF",
    fails="they are for another machine than a GB10",
    hint="take the aarch64 wheel for a Spark",
    judge=judge,
    severity="note",
)
