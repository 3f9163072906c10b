"""Only: no binary holds code for another arch than the one that --only names."""

from gb10.image.proof.check import Check, Problem, Subject, described


def judge(subject: Subject) -> list[Problem]:
    """Every binary with SASS, PTX or link-time IR of another arch."""
    if subject.only is None:
        return []
    arch = subject.only.sm.removeprefix("sm_")
    wrong = [one for one in subject.undeclared if any(code.partition("_")[2] != arch for code in one.codes)]
    expected = f"nothing but code for {arch}, as --only asks"
    return [Problem(file=binary.path, expected=expected, found=described(binary)) for binary in wrong]


CHECK = Check(
    name="only",
    reads="every binary with GPU code, when --only is given",
    fails="a binary holds code for another arch, and no manifest of its wheel declares so",
    hint="--claim allows code for other archs beside the claimed one",
    judge=judge,
)
