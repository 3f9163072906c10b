"""Which wheel is best: the same tags in the same order as packaging gives for a running interpreter."""

import platform
import sys

import pytest
from packaging.tags import sys_tags

from gb10.core.machine import MACHINES
from gb10.errors import UsageError
from gb10.image.lock.resolver import Platform, best_wheel, platform_of

TRIXIE = Platform(python="3.13", architecture="arm64", glibc=39)


def test_tags_are_those_of_a_running_interpreter() -> None:
    architecture = next(name for name, machine in MACHINES.items() if machine == platform.machine())
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    here = Platform(python=python, architecture=architecture, glibc=int(platform.libc_ver()[1].split(".")[1]))
    assert [*here.tags()] == [*sys_tags()]


@pytest.mark.parametrize(
    ("filenames", "best"),
    [
        (("a-1-py3-none-any.whl", "a-1-cp313-cp313-manylinux_2_17_aarch64.whl"), 1),
        (("a-1-cp312-abi3-manylinux2014_aarch64.whl", "a-1-cp312-abi3-manylinux_2_28_aarch64.whl"), 1),
        (("a-1-cp313-cp313-manylinux_2_28_aarch64.whl", "a-1-cp313-cp313-manylinux_2_34_aarch64.whl"), 1),
        (("a-1-cp313-cp313-manylinux_2_28_aarch64.whl", "a-1-cp313-cp313-manylinux_2_40_aarch64.whl"), 0),
        (("a-1-cp313-cp313-linux_aarch64.whl", "a-1-cp312-abi3-manylinux_2_17_aarch64.whl"), 0),
        (("a-1-py3-none-any.whl", "a-1-cp313-cp313t-manylinux_2_28_aarch64.whl"), 0),
        (("a-1-py3-none-any.whl", "a-1-cp313-cp313-manylinux_2_28_x86_64.whl"), 0),
        (("a-1-1-py3-none-any.whl", "a-1-2-py3-none-any.whl", "a-1-py3-none-any.whl"), 1),
        (("a-1-cp312-cp312-manylinux_2_28_aarch64.whl", "a-1-py3-none-musllinux_1_2_aarch64.whl"), None),
        ((), None),
    ],
)
def test_best_wheel(filenames: tuple[str, ...], best: int | None) -> None:
    expected = None if best is None else filenames[best]
    assert best_wheel(filenames, TRIXIE) == expected
    assert best_wheel(reversed(filenames), TRIXIE) == expected


def test_uv_name() -> None:
    assert platform_of("trixie", "3.13", "amd64").uv_name == "x86_64-manylinux_2_39"


def test_unknown_suite() -> None:
    with pytest.raises(UsageError, match="unknown Debian suite 'potato'"):
        platform_of("potato", "3.13", "amd64")
