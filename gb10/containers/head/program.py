"""The registry's program: Debian's docker-registry for the head's machine, accepted by apt's signatures."""

from collections.abc import Mapping
from pathlib import Path
from shutil import rmtree
from typing import Final

from gb10.containers.failure import explained
from gb10.containers.packages import fetch_packages
from gb10.core.machine import ARCHITECTURES
from gb10.core.proc import capture
from gb10.core.store import Store, is_sealed, seal
from gb10.errors import EngineError

PACKAGE: Final = "docker-registry"
"""Version 2.8 in trixie, 7 MB. It needs glibc 2.34, as Ubuntu 22.04 and DGX OS have it, and nothing else."""


def registry_program(store: Store, env: Mapping[str, str], machine: str) -> Path:
    """The program for a machine in the kernel's spelling, fetched when the store lacks it or it is damaged.

    Raises EngineError (no apt, mirror or signature wrong, an unknown machine) and UsageError (no mirror is known).
    """
    if machine not in ARCHITECTURES:
        raise EngineError(f"no registry is known for a head of {machine}", hint=f"heads: {', '.join(ARCHITECTURES)}")
    folder = store.entry("engine", f"{PACKAGE}-{machine}")
    with store.locked(PACKAGE):
        if not is_sealed(folder / PACKAGE):
            store.replace(folder, lambda out: _unpack(store, env, ARCHITECTURES[machine], out))
    return folder / PACKAGE


def _unpack(store: Store, env: Mapping[str, str], architecture: str, out: Path) -> None:
    with (
        fetch_packages(store, env, (PACKAGE,), architecture) as debs,
        explained(f"{PACKAGE} cannot be unpacked", hint="see whether the store's disk is full, and run again"),
    ):
        for deb in debs:
            capture(["dpkg-deb", "--extract", str(deb), str(out / "tree")])
    (out / "tree/usr/bin" / PACKAGE).rename(out / PACKAGE)
    rmtree(out / "tree")
    seal(out / PACKAGE)
