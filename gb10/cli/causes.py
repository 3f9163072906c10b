"""Exceptions of Python and the system, as errors that a user can act on."""

import errno
from typing import Final

from gb10.errors import BuildError, Gb10Error, UsageError

FULL: Final = (errno.ENOSPC, errno.EDQUOT)
DENIED: Final = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOLCK)
WRONG_PATH: Final = (
    errno.ENAMETOOLONG,
    errno.ELOOP,
    errno.EISDIR,
    errno.ENOTDIR,
    errno.EIO,
    errno.ENXIO,
    errno.ENODEV,
    errno.EINVAL,
)
WORDS: Final = {
    "integer string conversion": "a number has thousands of digits",
    "Symlink loop from": "a path is a loop of symbolic links",
}
"""Python raises these without a class of their own: int() and Path.resolve()."""
SHOWN: Final = 200
"""Characters of a path that an error repeats."""


def known_cause(error: Exception) -> Gb10Error | None:
    """The error that a user can act on; None for a bug."""
    if isinstance(error, OSError):
        return machine_error(error)
    if isinstance(error, UnicodeEncodeError):
        return name_error(error)
    found = next((words for words in WORDS if words in str(error)), None)
    return UsageError(WORDS[found], hint="check the command line and the settings") if found else None


def machine_error(error: OSError) -> Gb10Error | None:
    """The error for a full disk, a denied file or an unusable path; None for a bug."""
    path = shortened(str(error.filename or "a file"))
    if error.errno in FULL:
        hint = "free some space, or set GB10_CACHE_DIR to a larger disk; then run the same command again"
        return BuildError("the disk is full", where=f"{path}: {error.strerror}", hint=hint)
    if error.errno in DENIED:
        hint = "check its owner and mode, or set GB10_CACHE_DIR to a directory that you may write to"
        return UsageError(f"cannot read or write {path}: {error.strerror}", hint=hint)
    if error.errno in WRONG_PATH and (error.filename or error.errno == errno.EIO):
        return UsageError(f"cannot use {path}: {error.strerror}", hint="give the path of a regular file or directory")
    return None


def name_error(error: UnicodeEncodeError) -> Gb10Error | None:
    """The error for a name that is not UTF-8: Python keeps its bytes as lone surrogates."""
    if not any("\udc80" <= sign <= "\udcff" for sign in error.object[error.start : error.end]):
        return None
    name = shortened(ascii(error.object))
    return UsageError(f"a name is not UTF-8: {name}", hint="rename the file or directory, then run the command again")


def shortened(text: str) -> str:
    """A text of any length, shortened to fit a line."""
    return text if len(text) <= SHOWN else f"{text[: SHOWN // 2]}…{text[-SHOWN // 4 :]}"


def bug(error: Exception) -> Gb10Error:
    """The error for an unexpected exception."""
    hint = "the traceback above shows where; please report it together with the command line"
    return Gb10Error(f"this is a bug in gb10: {type(error).__name__}: {error}", hint=hint)
