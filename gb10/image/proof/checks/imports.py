"""Imports: the packages of an image can be imported, where --imports asks for that."""

from gb10.image.proof.check import Check, Problem, Subject


def judge(subject: Subject) -> list[Problem]:
    """Every package whose import failed, or did not end in time."""
    imported = subject.image.imported if subject.image else ()
    return [Problem(file=name, expected="a package that can be imported", found=why) for name, why in imported if why]


CHECK = Check(
    name="imports",
    reads="the packages that recipes/verify.yaml names, by the image's own Python, when --imports is given",
    fails="an import raises an error, ends by a signal, or takes longer than 10 minutes",
    hint="under qemu an import can fail that works on a Spark: repeat it there before you look for the mistake",
    judge=judge,
)
