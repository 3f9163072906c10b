"""Every error a user can meet: one class per remedy, each with its exit code.

Exit codes: 0 ok, 1 bug, 2 usage, 3 empty selection, 4 lock stale, 5 fetch, 6 patch,
7 container engine, 8 build, 9 verify, 10 publish, 130 interrupted.
"""

import contextlib
import sys
from typing import ClassVar, Final

INTERRUPTED: Final = 130


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
    """A flag, a recipe or a setting is wrong: the user edits it."""

    code = 2
    kind = "usage"


class EmptySelectionError(Gb10Error):
    """The selection matches nothing: the user widens it."""

    code = 3
    kind = "empty"


class LockStaleError(Gb10Error):
    """The lock does not match its recipe: the user runs ``lock``."""

    code = 4
    kind = "lock"


class FetchError(Gb10Error):
    """A byte we need could not be had, or is not the byte that was locked."""

    code = 5
    kind = "fetch"


class PatchError(Gb10Error):
    """A patch does not apply: the user refreshes or retires it."""

    code = 6
    kind = "patch"


class EngineError(Gb10Error):
    """No usable container engine: the user starts or points to one."""

    code = 7
    kind = "engine"


class BuildError(Gb10Error):
    """A build step failed: the user reads its log."""

    code = 8
    kind = "build"


class VerifyError(Gb10Error):
    """A result is not what it claims to be: it is not tagged."""

    code = 9
    kind = "verify"


class PublishError(Gb10Error):
    """A registry, a node or a wheel cache did not take what was sent: the user retries."""

    code = 10
    kind = "publish"


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
)


def interrupted() -> int:
    """Say that a run was interrupted; returns its exit code."""
    with contextlib.suppress(OSError):  # the terminal may be what ended the run
        print("interrupted; run the same command again to go on", file=sys.stderr)
    return INTERRUPTED
