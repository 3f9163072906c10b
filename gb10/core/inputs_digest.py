"""The digest of all that decides a plan: what was made of it holds while the digest is the same."""

import errno
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
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


def _digest(words: Sequence[str], env: Mapping[str, str], files: Sequence[Path]) -> str:
    own = {name: value for name, value in sorted(env.items()) if name in CHOICES or name.startswith(OWN)}
    hashed = hashlib.sha256(json.dumps([list(words), own]).encode())
    for file in files:
        hashed.update(b"\0%b\0" % os.fsencode(file))
        hashed.update(file.read_bytes() if file.is_file() else b"-")
    return hashed.hexdigest()


def _files() -> list[Path]:
    """Raises OSError for a folder that cannot be read, or holds a link to a folder."""
    found = []
    tops = (package_of(ROOT), *(ROOT / name for name in READ))
    for top in filter(os.path.lexists, tops):
        for folder, folders, names in os.walk(top, onerror=_stop):
            folders[:] = sorted(one for one in folders if one != "__pycache__")
            if any(Path(folder, one).is_symlink() for one in folders):
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), folder)
            found += [Path(folder) / one for one in sorted(names)]
    return [*found, ROOT / "requirements.lock"]


def _stop(error: OSError) -> None:
    raise error
