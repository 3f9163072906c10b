"""The check ``wheel_machine``: a library for another machine than its wheel says, or than a GB10."""

import pytest

from gb10.image.proof.check import Subject, Target
from gb10.image.proof.checks.wheel_machine import CHECK
from gb10.inside.scan.binary import Binary
from gb10.inside.scan.installed import Distribution
from gb10.inside.scan.scan import Scan


def library(path: str, machine: str, glibc: str = "2.17") -> Binary:
    return Binary(path=path, kind="elf", size=1, machine=machine, versions={"GLIBC": glibc})


def wheel(*libraries: Binary, tag: str = "cp313-cp313-manylinux_2_28_aarch64", site: str = "") -> Subject:
    """A wheel at ``site``, or the one file that was scanned."""
    prefix = f"{site}/" if site else ""
    one = Distribution(path=f"{prefix}x-1.dist-info/METADATA", name="x", version="1", tags=(tag,))
    scan = Scan(root="x.whl" if not site else "folder", binaries=libraries, distributions=(one,))
    return Subject(scan=scan, target=Target())


@pytest.mark.parametrize(
    ("tag", "machine", "wrong"),
    [
        ("cp313-cp313-manylinux_2_28_aarch64", "aarch64", False),
        ("cp313-cp313-manylinux_2_28_aarch64", "x86_64", True),
        ("cp313-cp313-linux_aarch64", "x86_64", True),
        ("cp313-cp313-musllinux_1_2_aarch64", "riscv64", True),
        ("cp38-abi3-manylinux2014_x86_64", "x86_64", False),
        ("cp38-abi3-manylinux2014_x86_64", "aarch64", True),
        ("py3-none-any", "aarch64", False),
        ("py3-none-any", "x86_64", True),
        ("py3-none-any", "cuda", False),
    ],
)
def test_a_library_against_the_tag_of_its_wheel(tag: str, machine: str, wrong: bool) -> None:
    found = CHECK.judge(wheel(library("x/a.so", machine), tag=tag))
    assert [one.file for one in found] == (["x/a.so"] if wrong else [])
    assert all(machine in one.found for one in found)


def test_each_library_falls_under_its_own_wheel_of_a_folder() -> None:
    good = wheel(library("one.whl/a.so", "aarch64"), site="one.whl")
    bad = wheel(library("two.whl/a.so", "x86_64"), site="two.whl")
    scan = Scan(
        root="folder",
        binaries=good.scan.binaries + bad.scan.binaries,
        distributions=good.scan.distributions + bad.scan.distributions,
    )
    assert [one.file for one in CHECK.judge(Subject(scan=scan, target=Target()))] == ["two.whl/a.so"]


def test_a_library_that_no_wheel_speaks_for_is_not_wrong() -> None:
    scan = Scan(root="folder", binaries=(library("a.so", "x86_64"), library("b.so", "aarch64")))
    assert CHECK.judge(Subject(scan=scan, target=Target())) == []


def test_what_gb10_builds_itself_is_not_asked() -> None:
    assert CHECK.judge(Subject(scan=Scan(root="layer", binaries=(library("a.so", "x86_64"),)))) == []
