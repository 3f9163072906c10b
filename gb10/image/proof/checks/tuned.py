"""Tuned: files of tiles for a GB10 are found by the engine, and no row of them breaks it."""

from gb10.image.proof.check import Check, Problem, Subject


def judge(subject: Subject) -> list[Problem]:
    """What `moe check` found wrong in the files of an image."""
    found = subject.image.tuned if subject.image else ()
    return [
        Problem(file=path, expected="a file that the engine takes its tiles from", found=why) for path, why in found
    ]


CHECK = Check(
    name="tuned",
    reads="the files of tiles for a GB10 in an image, by the look-up of its engine's release",
    fails="the engine does not read a file, stops at it, or a row needs more shared memory than a GB10 has",
    hint="./build.py moe check IMAGE prints every row; docs/moe.md has the traps",
    judge=judge,
)
