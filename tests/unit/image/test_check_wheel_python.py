"""The check ``wheel_python``: an extension module that no Python of its wheel or folder loads."""

from dataclasses import replace

import pytest

from gb10.image.proof.check import Target
from gb10.image.proof.checks.wheel_python import CHECK
from tests.unit.image.test_check_wheel_machine import library, wheel

DRIVES = ("gb10.image.proof.wheel_claims",)  # through others: see tests/mutations.py

SITE = "lib/python3.12/site-packages"


@pytest.mark.parametrize(
    ("tag", "name", "wrong"),
    [
        ("cp313-cp313-manylinux_2_28_aarch64", "x/a.cpython-313-aarch64-linux-gnu.so", False),
        ("cp313-cp313-manylinux_2_28_aarch64", "x/a.cpython-312-aarch64-linux-gnu.so", True),
        ("cp313-cp313-manylinux_2_28_aarch64", "x/a.cpython-313t-aarch64-linux-gnu.so", True),
        ("cp313-cp313t-manylinux_2_28_aarch64", "x/a.cpython-313t-aarch64-linux-gnu.so", False),
        ("cp313-cp313-manylinux_2_28_aarch64", "x/a.abi3.so", False),
        ("cp313-cp313-manylinux_2_28_aarch64", "x/liba.so", False),
        ("cp39-abi3-manylinux_2_28_aarch64", "x/a.cpython-312-aarch64-linux-gnu.so", False),
    ],
)
def test_a_module_against_the_tag_of_its_wheel(tag: str, name: str, wrong: bool) -> None:
    assert bool(CHECK.judge(wheel(library(name, "aarch64"), tag=tag))) == wrong


@pytest.mark.parametrize(("minor", "wrong"), [(12, False), (13, True)])
def test_a_module_against_the_python_of_its_folder(minor: int, wrong: bool) -> None:
    one = library(f"{SITE}/x/a.cpython-3{minor}-aarch64-linux-gnu.so", "aarch64")
    assert bool(CHECK.judge(wheel(one, site=SITE))) == wrong


def test_a_module_that_is_there_for_several_pythons_is_fine() -> None:
    names = [f"x/a.cpython-3{minor}-aarch64-linux-gnu.so" for minor in (11, 12, 13)]
    assert CHECK.judge(wheel(*(library(name, "aarch64") for name in names))) == []


def test_the_python_of_the_target_counts_where_it_is_named() -> None:
    one = wheel(library("x/a.cpython-313-aarch64-linux-gnu.so", "aarch64"))
    (problem,) = CHECK.judge(replace(one, target=Target(python=12)))
    assert (problem.expected, problem.found) == ("a module for Python 3.12", "Python 3.13")
