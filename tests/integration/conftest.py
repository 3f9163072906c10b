"""Tools that we did not write, for real: installed by hash into the store, none taken from the machine."""

import os
from pathlib import Path

import pytest

from gb10.host.store import open_store
from tests.integration.debian_git import unpack_git
from tests.integration.pinned import pinned


@pytest.fixture(scope="session")
def cuda_tools() -> Path:
    """A CUDA prefix with bin/ptxas, bin/fatbinary, bin/cuobjdump and lib/libnvjpeg.so.13; about 45 MB, once."""
    return pinned("cuda-tools", Path(__file__).with_name("cuda-tools.txt")) / "nvidia" / "cu13"


@pytest.fixture(scope="session")
def git_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with Debian's git, for chroot; its users keep to folders of their own."""
    return unpack_git(open_store(os.environ), tmp_path_factory.mktemp("git"))
