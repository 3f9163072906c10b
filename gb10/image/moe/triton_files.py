"""The Triton of a release, unpacked into the store: its compiler runs on this machine, for a GPU that is not here."""

import platform
import sys
import zipfile
from pathlib import Path
from typing import Final, Literal

from packaging.version import Version
from pydantic import ValidationError

from gb10.core.artifact import Artifact
from gb10.core.digest import digest
from gb10.core.fields import Model
from gb10.core.host import Host
from gb10.errors import FetchError, LockStaleError, UsageError
from gb10.image.recipe.locked import LockedWheel
from gb10.sources.index.downloads import fetch_all

LOCK: Final = "recipes/moe/triton.lock.json"
LEFT: Final = ("cupti", "nvperf", "libproton", "/lib/ocml.bc", "/lib/ockl.bc", "/bin/nvdisasm", "/bin/cuobjdump")
"""Parts of a wheel that no compile for an NVIDIA GPU needs."""
PROGRAM: Final = "triton/backends/nvidia/bin/"
LARGEST: Final = 1 << 30
KNOWS_121: Final = Version("3.6.0")
"""Triton from here brings a ptxas that has sm_121; before, the lock's ptxas serves."""


class TritonLock(Model):
    """Wheels of the versions that releases pin, for each interpreter and machine."""

    version: Literal[1]
    wheels: tuple[LockedWheel, ...]


def triton_site(host: Host, root: Path, version: str) -> Path:
    """The folder that Python imports this Triton from; made once. Raises UsageError, FetchError, LockStaleError."""
    wheel = _wheel(root, version)

    def make(work: Path) -> None:
        host.reporter.say(f"unpacking Triton {version}, once ({wheel.size >> 20} MiB to download)")
        found = fetch_all([Artifact(wheel.filename, wheel.sha256, wheel.size)], host.store, host.env)
        _unpack(found[wheel.sha256], work)

    return host.store.ensure("triton", digest(["triton", 1, wheel.sha256]), make)


def _wheel(root: Path, version: str) -> LockedWheel:
    try:
        lock = TritonLock.model_validate_json((root / LOCK).read_bytes())
    except (ValidationError, OSError) as error:
        raise LockStaleError(f"{LOCK} is not valid", where=str(error)[:400]) from error
    python, machine = f"cp3{sys.version_info.minor}", platform.machine()
    of_version = [wheel for wheel in lock.wheels if wheel.version == version]
    found = [wheel for wheel in of_version if f"-{python}-" in wheel.filename and f"_{machine}." in wheel.filename]
    if not of_version:
        known = ", ".join(sorted({wheel.version for wheel in lock.wheels}))
        raise UsageError(f"--compile has no Triton {version}", hint=f"{LOCK} has {known}; name one: --triton VERSION")
    if not found:
        raise UsageError(f"Triton {version} is not locked for Python 3.{sys.version_info.minor} on {machine}")
    return found[0]


def _unpack(wheel: Path, site: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        for entry in archive.infolist():
            name = entry.filename
            if name.startswith("/") or ".." in name.split("/") or entry.file_size > LARGEST:
                raise FetchError(f"{wheel.name} is not a wheel", where=f"it holds {name[:100]!r}")
            if any(part in name for part in LEFT):
                continue
            archive.extract(entry, site)
            if name.startswith(PROGRAM) and not name.endswith("/"):
                (site / name).chmod(0o755)
