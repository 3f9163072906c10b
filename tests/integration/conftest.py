"""Tools that we did not write, for real: installed by hash into the store, none taken from the machine."""

import os
import sys
from pathlib import Path

import pytest

from bootstrap.install import PIP
from gb10.proc import capture
from gb10.store import file_sha256, open_store

CUDA_TOOLS = Path(__file__).with_name("cuda-tools.txt")


@pytest.fixture(scope="session")
def cuda_tools() -> Path:
    """A CUDA prefix with bin/ptxas, bin/fatbinary, bin/cuobjdump and lib/libnvjpeg.so.13; about 45 MB, once."""

    def install(target: Path) -> None:
        pip = [sys.executable, "-I", str(PIP / "pip"), "install", "--quiet", "--no-deps", "--require-hashes"]
        only = ["--only-binary", ":all:", "--no-compile", "--target", str(target)]
        capture([*pip, *only, "--requirement", str(CUDA_TOOLS)], env=os.environ)

    prefix = open_store(os.environ).ensure("cuda-tools", file_sha256(CUDA_TOOLS), install) / "nvidia" / "cu13"
    for tool in (prefix / "bin").iterdir():
        tool.chmod(0o755)
    return prefix
