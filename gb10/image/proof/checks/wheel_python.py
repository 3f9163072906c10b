"""Python: each extension module of a wheel or a folder is for the Python that loads it."""

from collections import defaultdict

from gb10.image.proof.check import Check, Problem, Subject
from gb10.image.proof.wheel_claims import EXTENSION, claim_of, wheel_claims


def judge(subject: Subject) -> list[Problem]:
    """Every module that no Python of its wheel or folder loads; one that is there for several Pythons is fine."""
    claims = wheel_claims(subject) if subject.target else ()
    modules: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for binary in subject.scan.binaries if claims else ():
        if found := EXTENSION.fullmatch(binary.path):
            modules[found["stem"]].append((found["minor"], binary.path))
    problems = []
    for same in modules.values():
        claim = claim_of(same[0][1], claims)
        if claim and claim.pythons and not claim.pythons & {minor for minor, _ in same}:
            wanted = " or ".join(f"3.{minor}" for minor in sorted(claim.pythons))
            here = ", ".join(f"3.{minor}" for minor, _ in same)
            problems.append(Problem(file=same[0][1], expected=f"a module for Python {wanted}", found=f"Python {here}"))
    return problems


CHECK = Check(
    name="wheel_python",
    reads="the names of extension modules (.cpython-313-….so), the tags of a wheel, a folder's Python or --python",
    fails="a module is for another Python than the one that loads it",
    hint="install the wheel for this Python, or build it again: pip takes the right one from an index by itself",
    judge=judge,
)
