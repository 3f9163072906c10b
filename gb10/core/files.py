"""What gb10 knows of a file: its content's hash, a locked file, a file that the user names, one written whole."""

import errno
import hashlib
import json
import os
import re
import shutil
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gb10.errors import UsageError


def digest(value: object) -> str:
    """Hex sha256 of a JSON value; dict order does not matter, list order does."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


COMMIT: Final = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True, slots=True)
class Checkout:
    """Files of a git repository: ``paths`` (all when empty) at a tag, and the ``commit`` that the tag was resolved to.

    ``pin`` is the tag, or the commit itself; with ``moving`` a branch or a tag, ``HEAD`` the repository's own branch.
    ``submodules`` are the paths of those that are in the tree.
    """

    url: str
    pin: str
    paths: tuple[str, ...] = ()
    commit: str = ""
    submodules: tuple[str, ...] = ()
    moving: bool = False

    @property
    def what(self) -> str:
        """The pin with its kind."""
        if COMMIT.fullmatch(self.pin):
            return f"the commit {self.pin}"
        return f"the {'branch' if self.moving else 'tag'} {self.pin}"

    @property
    def ref(self) -> str:
        """The form that is sent to a server."""
        return self.pin if self.moving or COMMIT.fullmatch(self.pin) else f"refs/tags/{self.pin}"


@dataclass(frozen=True, slots=True)
class Artifact:
    """What a file must be, not where it lies; ``size`` in bytes.

    ``checkout``: what it is made of, where no index has it. ``index``: the URL of the only index it may come from; when
    empty, the user's indexes.
    """

    filename: str
    sha256: str
    size: int
    checkout: Checkout | None = None
    index: str = ""


def read_plain_file(path: Path, most: int, hint: str | None = None) -> bytes:
    """The bytes of a plain file. Raises UsageError for another kind of file, one that cannot be read or is larger.

    ``most`` is in bytes. A pipe without a writer does not block.
    """
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as stream:  # noqa: PTH123 - Path has no flags
            if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                raise UsageError(f"{path} is no plain file", hint=hint)
            content = stream.read(most + 1)
    except OSError as error:
        raise UsageError(f"cannot read {path}", where=error.strerror or str(error), hint=hint) from error
    if len(content) > most:
        raise UsageError(f"{path} is larger than {most >> 20} MiB", hint=hint)
    return content


class DoubtedFileError(Exception):
    """A file of the user's state that somebody else may have written; its text says why."""


def read_state_file(path: Path, most: int) -> tuple[bytes, os.stat_result]:
    """The first ``most`` bytes of a file that only this user can write, and its status. A link is not followed.

    Raises OSError, and DoubtedFileError for what is no plain file, or is another user's to write.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(path, flags), "rb") as stream:  # noqa: PTH123 - Path has no flags
        kept = os.fstat(stream.fileno())
        if not stat.S_ISREG(kept.st_mode):
            raise DoubtedFileError("it is no plain file")
        if kept.st_uid != os.geteuid() or kept.st_mode & (stat.S_IWOTH | stat.S_IWGRP):
            raise DoubtedFileError("another user may have written it")
        return stream.read(most), kept


def write_whole(path: Path, text: str, what: str = "") -> None:
    """Write a file anew: a reader sees the old text or the new one. Raises UsageError.

    ``what`` names it in the error: ``the lock``.
    """
    part = path.with_name(f".{path.name}.{os.urandom(16).hex()}.part")
    try:
        with part.open("x", encoding="utf-8") as handle:
            handle.write(text)
            handle.flush()
            os.fsync(handle.fileno())
        part.replace(path)
    except OSError as error:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        raise UsageError(" ".join(filter(None, ("cannot write", what, str(path)))), where=str(error)) from error


NO_LINKS: Final = (errno.EPERM, errno.EACCES, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV)
"""Why a file gets no second name: the file system has none, or no more of them, or the file is another user's."""


def link_or_copy(source: Path, target: Path) -> None:
    """Give a file a second name; where that cannot be, a copy. Raises OSError when the target exists."""
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        with source.open("rb") as content, target.open("xb") as copy:
            shutil.copyfileobj(content, copy, 1 << 20)
        shutil.copystat(source, target)


def has_hard_links(folder: Path) -> bool:
    """Whether files of an empty folder get a second name."""
    (folder / "first").touch()
    try:
        os.link(folder / "first", folder / "second")
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        return False
    return True
