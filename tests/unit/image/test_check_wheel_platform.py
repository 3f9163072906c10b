"""The check ``wheel_platform``: a note for a wheel that is for another machine than a GB10."""

import pytest

from gb10.image.proof.check import Subject, Target
from gb10.image.proof.checks.wheel_platform import CHECK
from gb10.inside.scan.scan import Scan
from tests.unit.image.test_check_wheel_machine import library, wheel


@pytest.mark.parametrize(
    ("tag", "noted"),
    [
        ("cp313-cp313-manylinux_2_28_aarch64", False),
        ("cp313-cp313-manylinux_2_28_x86_64", True),
        ("py3-none-any", False),
    ],
)
def test_the_machine_of_a_wheel(tag: str, noted: bool) -> None:
    found = CHECK.judge(wheel(library("x/a.so", "x86_64"), tag=tag))
    assert CHECK.severity == "note"
    assert bool(found) == noted


def test_a_library_that_no_wheel_speaks_for_gets_the_note() -> None:
    scan = Scan(root="folder", binaries=(library("a.so", "x86_64"), library("b.so", "aarch64"), library("c", "cuda")))
    assert [one.file for one in CHECK.judge(Subject(scan=scan, target=Target()))] == ["a.so"]
