"""The digest of all that decides a plan: what was made of it holds while the digest is the same."""

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


def inputs_digest(words: Sequence[str], env: Mapping[str, str], config: Sequence[Path] = ()) -> str:
    """Hex sha256 over all that decides a plan: ``words``, the settings in ``env``, ``config``, the checkout's files."""
    own = {name: value for name, value in sorted(env.items()) if name in CHOICES or name.startswith(OWN)}
    hashed = hashlib.sha256(json.dumps([list(words), own]).encode())
    for file in (*config, *_files()):
        hashed.update(f"\0{file}\0".encode())
        hashed.update(file.read_bytes() if file.is_file() else b"-")
    return hashed.hexdigest()


def _files() -> list[Path]:
    found = []
    for top in (package_of(ROOT), *(ROOT / name for name in READ)):
        for folder, folders, names in os.walk(top):
            folders[:] = sorted(one for one in folders if one != "__pycache__")
            found += [Path(folder) / one for one in sorted(names)]
    return [*found, ROOT / "requirements.lock"]
