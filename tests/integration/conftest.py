"""Tools that we did not write, for real: installed by hash into the store, none taken from the machine."""

from pathlib import Path

import pytest

from tests.integration.pinned import pinned


@pytest.fixture(scope="session")
def cuda_tools() -> Path:
    """A CUDA prefix with bin/ptxas, bin/fatbinary, bin/cuobjdump and lib/libnvjpeg.so.13; about 45 MB, once."""
    return pinned("cuda-tools", Path(__file__).with_name("cuda-tools.txt")) / "nvidia" / "cu13"
