"""Packages for tests, as their pins say: installed by hash into the store, once, never into an environment."""

import os
import sys
from pathlib import Path

from bootstrap.install import PIP
from gb10.core.files import digest
from gb10.core.proc import capture
from gb10.core.store import file_sha256, open_store


def pinned(section: str, *requirements: Path, platform: str = "", python: str = "") -> Path:
    """The directory that holds what these files pin, in the wheels of this Python or another, and of platforms."""

    def install(target: Path) -> None:
        pip = [sys.executable, "-I", str(PIP / "pip"), "install", "--quiet", "--no-deps", "--require-hashes"]
        only = ["--only-binary", ":all:", "--no-compile", "--target", str(target)]
        only += [f"--platform={one}" for one in platform.split()]
        only += [f"--python-version={python}"] if python else []
        capture([*pip, *only, *(f"--requirement={path}" for path in requirements)], env=os.environ)
        for tool in target.glob("nvidia/*/bin/*"):
            tool.chmod(0o755)

    key = digest([sys.implementation.cache_tag, *filter(None, [platform, python]), *map(file_sha256, requirements)])
    return open_store(os.environ).ensure(section, key, install)


def cuda_prefix() -> Path:
    """A CUDA prefix with bin/ptxas, bin/fatbinary, bin/cuobjdump and lib/libnvjpeg.so.13; about 45 MB, once."""
    return pinned("cuda-tools", Path(__file__).with_name("cuda-tools.txt")) / "nvidia" / "cu13"
