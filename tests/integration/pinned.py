"""Packages for tests, as their pins say: installed by hash into the store, once, never into an environment."""

import os
import platform as platform_module
import sys
from pathlib import Path

from bootstrap.install import PIP
from gb10.host.digest import digest
from gb10.host.proc import capture
from gb10.host.store import file_sha256, open_store


def pinned(room: str, *requirements: Path, platform: str = "", python: str = "") -> Path:
    """The directory that holds what these files pin, in the wheels of the Python that runs or of a platform.

    ``python`` is another Python's version, on this machine's glibc of 2.36 or newer.
    """

    def install(target: Path) -> None:
        pip = [sys.executable, "-I", str(PIP / "pip"), "install", "--quiet", "--no-deps", "--require-hashes"]
        only = ["--only-binary", ":all:", "--no-compile", "--target", str(target)]
        only += [f"--platform={platform}"] if platform else []
        only += [f"--python-version={python}", *map("--platform={}".format, _platforms())] if python else []
        capture([*pip, *only, *(f"--requirement={path}" for path in requirements)], env=os.environ)
        for tool in target.glob("nvidia/*/bin/*"):
            tool.chmod(0o755)

    key = digest([python or sys.implementation.cache_tag, *filter(None, [platform]), *map(file_sha256, requirements)])
    return open_store(os.environ).ensure(room, key, install)


def _platforms() -> list[str]:
    """The tags of wheels that run here: for another Python, pip adds none."""
    machine = platform_module.machine()
    return [f"manylinux_2_{minor}_{machine}" for minor in range(36, 4, -1)] + [f"manylinux2014_{machine}"]
