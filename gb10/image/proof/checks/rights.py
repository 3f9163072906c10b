"""Rights: no unknown program gives its caller another user's rights, and nobody may write everybody's files."""

from gb10.image.proof.check import Check, Problem, Subject
from gb10.image.recipe.allowances import fits

MEANING = {
    "setuid": "a program with its caller's rights",
    "setgid": "a program with its caller's group",
    "writable": "a path that others cannot write; a folder may be writable and sticky, as /tmp is",
}


def judge(subject: Subject) -> list[Problem]:
    """Every file and folder with such a mode that is not allowed."""
    if subject.image is None:
        return []
    patterns = [pattern for one in subject.allowed.rights for pattern in one.paths]
    return [
        Problem(file=one.path, expected=MEANING[one.kind], found=one.kind)
        for one in subject.scan.hazards
        if one.kind in MEANING and not fits(one.path, patterns)
    ]


CHECK = Check(
    name="rights",
    reads="the modes of all files and folders",
    fails="a program is setuid or setgid, or everybody may write a file or a folder without the sticky bit",
    hint="chmod it in what made it: a mod, an overlay, a wheel; Debian's own are listed in recipes/verify.yaml",
    judge=judge,
)
