"""A real cmake for the tests that run a release's own lines of CMake."""

import os
import platform
import zipfile
from pathlib import Path
from typing import Final

import pytest

from gb10.core.files import Artifact
from gb10.core.store import open_store
from gb10.sources.index.client import fetch_all

CMAKE: Final = {
    "x86_64": Artifact(
        "cmake-3.31.10-py3-none-manylinux_2_17_x86_64.manylinux2014_x86_64.whl",
        "2f766bb46367e5e0559fa33184653754bce044583a06014dcaebf8e6dff8a1f1",
        27_808_794,
    ),
    "aarch64": Artifact(
        "cmake-3.31.10-py3-none-manylinux_2_17_aarch64.manylinux2014_aarch64.whl",
        "a4a5615f31f692c9b9aa8b365704e4b76172348af6fa40e16fea3f118bb01194",
        27_165_148,
    ),
}


@pytest.fixture(scope="session")
def cmake() -> Path:
    """A real cmake, pinned, unpacked into the store once."""
    wheel = CMAKE[platform.machine()]

    def unpack(target: Path) -> None:
        with zipfile.ZipFile(fetch_all([wheel], open_store(os.environ), os.environ)[wheel.sha256]) as archive:
            archive.extractall(target)
        (target / "cmake/data/bin/cmake").chmod(0o755)

    return open_store(os.environ).ensure("cmake", wheel.sha256, unpack) / "cmake/data/bin/cmake"
