"""The CuTe DSL that the image holds makes code for GB10: its block-scaled products become one instruction each.

The wheels are those of the image's lock, for the Python that runs here; compiling takes no GPU. That the instruction
computes rightly needs a GB10, and is not shown here. Other releases: tests/e2e/test_cute_dsl.py.
"""

from pathlib import Path

import pytest
from packaging.requirements import Requirement

from gb10.core.proc import CommandFailedError
from gb10.image.lock.lockfile import load_lock, lock_path
from gb10.image.plan.catalog import ROOT
from gb10.inside.compile.markers import kernels_of
from gb10.inside.scan.binary import scan_file
from tests.integration.cute_dsl.release import DEPENDENCIES, Release, products, release

pytestmark = [pytest.mark.integration, pytest.mark.slow]

PINS = Path(__file__).with_name("4.8.0.txt")
PRODUCTS = {
    "MmaMXF4NVF4Op": "OMMA.SF.16864.F32.E2M1.E2M1.UE4M3.4X",
    "MmaMXF4Op": "OMMA.SF.16864.F32.E2M1.E2M1.E8",
    "MmaMXF8Op": "QMMA.SF.16832.F32.E4M3.E4M3.E8",
}
"""A class of the DSL: the instruction that must be there, with scales (SF), factors, and the kind of the scales."""


@pytest.fixture(scope="module")
def locked() -> Release:
    """Some 110 MB, once."""
    return release(PINS)


@pytest.fixture(scope="module")
def made(locked: Release, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cubin of each class."""
    folder = tmp_path_factory.mktemp("cubins")
    locked.compile(folder, *PRODUCTS)
    return folder


def test_it_is_the_release_that_the_image_holds() -> None:
    lock = load_lock(lock_path(ROOT / "recipes/images/vllm.yaml"))
    lines = [line for path in (PINS, DEPENDENCIES) for line in path.read_text().splitlines()]
    pins = [Requirement(line.removesuffix(" \\")) for line in lines if line and line[0] not in "# "]
    for wheels in lock.wheels.image.values():
        versions = {wheel.name: wheel.version for wheel in wheels}
        wrong = [str(pin) for pin in pins if pin.name in versions and str(pin.specifier) != f"=={versions[pin.name]}"]
        assert not wrong
        assert {pin.name for pin in pins} - set(versions) == {"nvidia-cuda-nvdisasm"}


@pytest.mark.parametrize("instruction", PRODUCTS)
def test_a_block_scaled_product_is_one_instruction_of_sm_121a(locked: Release, made: Path, instruction: str) -> None:
    cubin = made / f"{instruction}.cubin"
    assert scan_file(cubin, cubin.name).codes == {"sm_121a": 1}
    sass = locked.sass(cubin)
    assert "\t.target\tsm_121a\n" in sass
    assert products(sass) == [PRODUCTS[instruction]]


@pytest.mark.parametrize("instruction", PRODUCTS)
def test_it_is_counted(made: Path, instruction: str) -> None:

    (counts,) = kernels_of((made / f"{instruction}.cubin").read_bytes()).values()
    found = {name: count for name, count in counts.items() if "MMA" in name}
    assert found == {"QMMA.SF" if instruction == "MmaMXF8Op" else "OMMA": 1}


def test_a_gpu_without_the_instruction_is_refused(locked: Release, tmp_path: Path) -> None:
    with pytest.raises(CommandFailedError):
        locked.compile(tmp_path, "MmaMXF4NVF4Op", arch="sm_100a")
    assert "expects arch to be one of" in (tmp_path / "log").read_text()
