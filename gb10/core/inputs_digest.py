"""The digest of all that decides a plan: what was made of it holds while the digest is the same."""

import errno
import hashlib
import json
import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from gb10.core.installation import ROOT, package_of

READ: Final = ("templates", "recipes", "patches", "kernels", "benches")
CHOICES: Final = ("DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CERT_PATH", "DOCKER_TLS_VERIFY")
OWN: Final = "GB10_"
"""How the variables of our own settings begin: any of them may change what a run does."""


def inputs_digest(words: Sequence[str], env: Mapping[str, str], config: Sequence[Path] = ()) -> str | None:
    """Hex sha256 over all that decides a plan: ``words``, the settings in ``env``, ``config``, the checkout's files.

    None where a file cannot be read, or a folder holds a link to a folder, which is not looked into: nothing is kept.
    """
    try:
        return _digest(words, env, (*config, *_files()))
    except OSError:
        return None


def _digest(words: Sequence[str], env: Mapping[str, str], files: Iterable[str | Path]) -> str:
    own = {name: value for name, value in sorted(env.items()) if name in CHOICES or name.startswith(OWN)}
    hashed = hashlib.sha256(json.dumps([list(words), own]).encode())
    for file in files:
        hashed.update(b"\0%b\0" % os.fsencode(file))
        hashed.update(_content(file))
    return hashed.hexdigest()


def _content(file: str | Path) -> bytes:
    """The bytes of a plain file; nothing else is read. A thousand files by ``Path`` would take twice the time."""
    try:
        opened = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return b"-"
    try:
        status = os.fstat(opened)
        return os.read(opened, status.st_size) if stat.S_ISREG(status.st_mode) else b"-"
    finally:
        os.close(opened)


def _files() -> list[str]:
    """Raises OSError for a folder that cannot be read, or holds a link to a folder."""
    found = []
    tops = (package_of(ROOT), *(ROOT / name for name in READ))
    for top in filter(os.path.lexists, tops):
        for folder, folders, names in os.walk(top, onerror=_stop):
            folders[:] = sorted(one for one in folders if one != "__pycache__")
            if any(Path(folder, one).is_symlink() for one in folders):
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), folder)
            found += [f"{folder}/{one}" for one in sorted(names)]
    return [*found, f"{ROOT}/requirements.lock"]


def _stop(error: OSError) -> None:
    raise error
