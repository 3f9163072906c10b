"""Every error a user can meet: one class per remedy, each with its exit code; ``exit_codes`` is the table."""

import contextlib
import sys
from typing import ClassVar, Final

INTERRUPTED: Final = 130
CLOSED_PIPE: Final = 141
"""As for a program that SIGPIPE ended: the reader of stdout wants no more."""


FULL_DISK: Final = ("no space left on device", "disk quota exceeded")
"""How a program that ends with an error of its own says that a disk is full; in lower case."""


class Gb10Error(Exception):
    """What went wrong, where, and what to do now; caught once, in ``gb10.cli``."""

    code: ClassVar[int] = 1
    kind: ClassVar[str] = "bug"

    def __init__(self, message: str, *, where: str | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.hint = hint

    def __str__(self) -> str:
        lines = [f"error: {self.message}"]
        if self.where:
            lines += [f"  {line}" for line in self.where.splitlines()]
        if self.hint:
            lines += [f"hint: {line}" for line in self.hint.splitlines()]
        return "\n".join(lines)


class UsageError(Gb10Error):
    """An option, a recipe or a setting is wrong: correct it."""

    code = 2
    kind = "usage"


class EmptySelectionError(Gb10Error):
    """The selection matches nothing: widen it."""

    code = 3
    kind = "empty"


class LockStaleError(Gb10Error):
    """The lock does not match its recipe: run `lock`."""

    code = 4
    kind = "lock"


class FetchError(Gb10Error):
    """A file cannot be downloaded, or it is not the file that was locked."""

    code = 5
    kind = "fetch"

    def __init__(
        self, message: str, *, where: str | None = None, hint: str | None = None, absent: bool = False
    ) -> None:
        """``absent``: every index answered, and none has the file. Other failures may be gone the next time."""
        super().__init__(message, where=where, hint=hint)
        self.absent = absent


class PatchError(Gb10Error):
    """A patch does not apply: refresh it or retire it."""

    code = 6
    kind = "patch"


class EngineError(Gb10Error):
    """No container engine can be used: start one, or choose another."""

    code = 7
    kind = "engine"


class BuildError(Gb10Error):
    """A build step failed, or the disk is full: read the log that the error names."""

    code = 8
    kind = "build"


class VerifyError(Gb10Error):
    """A result is not what it claims to be; it gets no tag."""

    code = 9
    kind = "verify"


class PublishError(Gb10Error):
    """A registry, a machine or a wheel cache refused, or the connection broke: run the command again."""

    code = 10
    kind = "publish"


class EndpointError(Gb10Error):
    """A serving endpoint does not answer, or not as an OpenAI-compatible one: start it, or correct its URL or key."""

    code = 11
    kind = "endpoint"


class ServeError(Gb10Error):
    """A server did not start, died, or answers garbage; what was started is stopped."""

    code = 12
    kind = "serve"


class UncheckedError(Gb10Error):
    """A part of what was asked could not be looked at, and nothing wrong was found in the rest: see its reason."""

    code = 13
    kind = "unchecked"


ERRORS: tuple[type[Gb10Error], ...] = (
    Gb10Error,
    UsageError,
    EmptySelectionError,
    LockStaleError,
    FetchError,
    PatchError,
    EngineError,
    BuildError,
    VerifyError,
    PublishError,
    EndpointError,
    ServeError,
    UncheckedError,
)


def exit_codes() -> dict[int, tuple[str, str]]:
    """Every exit code with its kind and what it means: what ``--help`` and docs/reference.md print."""
    return {
        0: ("ok", "Success; a cache hit is a success, too."),
        1: ("bug", "A bug in gb10: please report it with the traceback."),
        **{error.code: (error.kind, error.__doc__ or "") for error in ERRORS[1:]},
        INTERRUPTED: ("interrupted", "Ctrl-C or a signal: run the same command again to continue."),
        CLOSED_PIPE: ("pipe", "The reader of stdout closed it, as `head` does."),
    }


def interrupted(then: str = "run the same command again to continue") -> int:
    """Say that a run was interrupted, and how it goes on; returns its exit code."""
    with contextlib.suppress(OSError):  # the terminal may be what ended the run
        print(f"interrupted; {then}", file=sys.stderr)
    return INTERRUPTED
