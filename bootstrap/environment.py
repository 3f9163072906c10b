"""The environment for a lock and an interpreter, and its path in the store; no network, fast to import."""

import hashlib
import os
import sys
from pathlib import Path
from typing import NamedTuple

from gb10.errors import UsageError

CHECKOUT = Path(__file__).resolve().parent.parent
STAMP = "complete"


class Environment(NamedTuple):
    """A virtual environment: ``key`` names it, ``root`` links to it; the stamp, written last, marks it valid."""

    lock: Path
    key: str
    root: Path

    @property
    def stamp(self) -> Path:
        """Written last, with the digest of the lock."""
        return self.root / STAMP

    @property
    def python(self) -> Path:
        """The interpreter to run; it may not exist yet."""
        return self.root / "bin" / "python"

    def is_complete(self) -> bool:
        """True when the environment is complete and its interpreter still exists.

        Raises UsageError when root would run programs that another user may change.
        """
        if self.root.exists():
            check_owner(self.root, self.root.stat().st_uid, os.geteuid())
        return is_stamped(self.root, self.lock) and os.access(self.python, os.X_OK)


def check_owner(root: Path, owner: int, user: int) -> None:
    """Raise UsageError when ``user`` is root and another user owns the programs below ``root``."""
    if user == 0 != owner:
        raise UsageError(
            f"the environment belongs to user {owner}; root must not run its programs",
            where=str(root),
            hint="run as that user, or set GB10_CACHE_DIR to a directory that root owns",
        )


def environment(lock: Path, store_root: Path) -> Environment:
    """The environment of a lock for the interpreter that runs this; same inputs, same place. Raises UsageError."""
    if os.pathsep in str(store_root):
        raise UsageError(
            f"the store's path contains {os.pathsep!r}: Python cannot create an environment there",
            where=str(store_root),
            hint=f"set GB10_CACHE_DIR to a directory without {os.pathsep!r} in its path",
        )
    key = environment_key(lock.read_bytes())
    return Environment(lock=lock, key=key, root=store_root / "environments" / key)


def environment_key(lock: bytes) -> str:
    """Hex sha256 over the lock, the Python, its path and the machine: they decide which wheels fit."""
    # One home may serve several machines and Pythons; moving a Python breaks its environments.
    interpreter = (sys.implementation.cache_tag, sys.abiflags, sys.base_prefix, os.uname().machine)
    return hashlib.sha256("\0".join((*interpreter, "")).encode() + lock).hexdigest()


def is_inside(lock: Path) -> bool:
    """True when the interpreter that runs this is the environment of that lock."""
    return is_stamped(Path(sys.prefix), lock)


def is_stamped(root: Path, lock: Path) -> bool:
    """True when a directory holds the whole environment of a lock."""
    stamp = root / STAMP
    return stamp.exists() and stamp.read_text(encoding="ascii") == hashlib.sha256(lock.read_bytes()).hexdigest()
