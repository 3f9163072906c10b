"""Damage: files that contradict themselves, and cubins that are for another GPU than their fatbin says."""

from gb10.image.proof.check import Check, Problem, Subject, described


def judge(subject: Subject) -> list[Problem]:
    """Every binary that could not be read to its end."""
    damaged = (binary for binary in subject.scan.binaries if binary.error)
    return [Problem(file=binary.path, expected="a whole file", found=described(binary)) for binary in damaged]


CHECK = Check(
    name="damaged",
    reads="the headers of every ELF, fatbin and cubin",
    fails="a header contradicts the file, a file cannot be read, or a fatbin entry names another arch than its cubin",
    hint="download or build the file again; if it stays damaged, the file's author must mend it",
    judge=judge,
)
