"""The check ``wheel_glibc``: a library that wants a newer glibc than the target has."""

from dataclasses import replace

import pytest

from gb10.image.proof.check import DGX_OS, Target
from gb10.image.proof.checks.wheel_glibc import CHECK
from tests.unit.image.test_check_wheel_machine import library, wheel


@pytest.mark.parametrize(
    ("wanted", "target", "wrong"),
    [
        ("2.17", DGX_OS, False),
        ("2.39", DGX_OS, False),
        ("2.41", DGX_OS, True),
        ("2.34", "2.31", True),
        ("", "2.17", False),
    ],
)
def test_a_library_against_the_glibc_of_the_target(wanted: str, target: str, wrong: bool) -> None:
    one = replace(wheel(library("x/a.so", "aarch64", wanted)), target=Target(glibc=target))
    assert [problem.found for problem in CHECK.judge(one)] == ([f"it wants GLIBC_{wanted}"] if wrong else [])


def test_a_library_for_another_machine_is_another_checks() -> None:
    assert CHECK.judge(wheel(library("x/a.so", "x86_64", "2.41"))) == []
