"""Other machine: a note for a wheel or a folder that is for another machine than a GB10."""

from gb10.image.proof.check import Check, Problem, Subject
from gb10.image.proof.wheel_claims import SPARK, wheel_claims


def judge(subject: Subject) -> list[Problem]:
    """Every wheel and every folder of packages for another machine."""
    claims = wheel_claims(subject) if subject.target else ()
    return [
        Problem(file=one.site, expected=f"a wheel for {SPARK}", found=f"it is for {one.machine}, a GB10 is {SPARK}")
        for one in claims
        if one.machine not in ("", SPARK)
    ]


CHECK = Check(
    name="wheel_platform",
    reads="the tags of a wheel, or of the wheels that a folder was installed from",
    fails="they are for another machine than a GB10",
    hint="take the aarch64 wheel for a Spark",
    judge=judge,
    severity="note",
)
