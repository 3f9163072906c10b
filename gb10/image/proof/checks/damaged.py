"""Damage: files that contradict themselves, and cubins that are for another GPU than their fatbin says."""

from gb10.image.proof.check import UNREADABLE, Check, Problem, Subject, described


def judge(subject: Subject) -> list[Problem]:
    """Every binary that contradicts itself. A user's file that could not be opened was not checked: it has a row."""
    unopened = UNREADABLE if subject.target else ""
    damaged = (binary for binary in subject.scan.binaries if binary.error and binary.kind != unopened)
    return [Problem(file=binary.path, expected="a whole file", found=described(binary)) for binary in damaged]


CHECK = Check(
    name="damaged",
    reads="the headers of every ELF, fatbin and cubin",
    fails="a header contradicts the file, a file cannot be read, or a fatbin entry names another arch than its cubin",
    hint="download or build the file again; if it stays damaged, the file's author must mend it",
    judge=judge,
)
