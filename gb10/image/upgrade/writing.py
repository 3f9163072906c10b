"""Writes a proposal: recipe and lock, both or neither."""

import contextlib
import os
import uuid
from pathlib import Path

from gb10.errors import UsageError
from gb10.image.lock.lockfile import lock_path, write_lock
from gb10.image.upgrade.proposal import Proposal, read_recipe


def check_writable(path: Path) -> None:
    """Raise UsageError for a recipe that cannot be written, before anything is asked of an index."""
    target = path.resolve()
    for place in (target, target.parent, lock_path(path).parent):
        if place.exists() and not os.access(place, os.W_OK):
            raise UsageError(f"cannot write the image recipe {path}", where=f"{place} is read-only", hint=_copy(path))


def write(found: Proposal) -> None:
    """Write both. Raises UsageError, and leaves both as they were, when one cannot be written or was changed since."""
    if read_recipe(found.path)[0] != found.before:
        raise UsageError(f"{found.path} changed while its next release was looked for", hint="run the command again")
    target = found.path.resolve()
    try:
        _replace(target, found.text)
        write_lock(lock_path(found.path), found.lock)
    except OSError as error:
        raise UsageError(
            f"cannot write the image recipe {found.path}", where=str(error), hint=_copy(found.path)
        ) from error
    except UsageError:
        _replace(target, found.before)
        raise


def _replace(target: Path, text: str) -> None:
    """Write a file aside and rename it, with the mode of the old one. Raises OSError."""
    part = target.with_name(f".{target.name}.{uuid.uuid4().hex}.part")
    try:
        part.write_bytes(text.encode())
        part.chmod(target.stat().st_mode & 0o777)
        part.replace(target)
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)


def _copy(path: Path) -> str:
    return f"upgrade a copy: cp {path} {lock_path(path)} DIR, then --engine DIR/{path.name}"
