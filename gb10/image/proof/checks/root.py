"""Root: a note that a container of the image starts as root."""

from gb10.image.proof.check import Check, Problem, Subject


def judge(subject: Subject) -> list[Problem]:
    """The image's user, if it is root."""
    if subject.image is None or subject.image.user.partition(":")[0] not in ("", "0", "root"):
        return []
    return [Problem(file="USER", expected="a user without rights, where nothing needs them", found="root")]


CHECK = Check(
    name="root",
    reads="the user that a container of the image starts as",
    fails="that user is root, who may do everything in the container",
    hint="docker run --user 1000 starts it as another; our images let each user write the caches and the WORKDIR",
    judge=judge,
    severity="note",
)
