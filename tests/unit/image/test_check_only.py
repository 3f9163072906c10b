"""The check ``only``: no code for another arch."""

import pytest

from gb10.image.proof.check import Subject
from gb10.image.proof.checks.only import CHECK
from gb10.image.recipe.arch import Arch
from gb10.inside.scan.scan import Scan
from tests.unit.image.test_check_claim import FLASHINFER, MODULES, library

GB10 = Arch("12.1", "f")


@pytest.mark.parametrize(
    ("codes", "passes"),
    [
        ({"sm_121f": 1}, True),
        ({"sm_121f": 1, "compute_121f": 1, "lto_121f": 1}, True),
        ({"sm_121f": 1, "sm_120": 1}, False),
        ({"sm_121f": 1, "compute_80": 1}, False),
        ({"sm_121f": 1, "sm_121": 1}, False),
        ({}, True),
    ],
)
def test_code_for_another_arch(codes: dict[str, int], passes: bool) -> None:
    scan = Scan(root="root", binaries=(library("k.so", **codes),))
    assert (CHECK.judge(Subject(scan=scan, only=GB10)) == []) == passes
    assert CHECK.judge(Subject(scan=scan)) == []


def test_declared_modules_are_held_to_their_manifest() -> None:
    scan = Scan(root="root", binaries=MODULES)
    assert CHECK.judge(Subject(scan=scan, manifests=[FLASHINFER], only=GB10)) == []
    assert len(CHECK.judge(Subject(scan=scan, only=GB10))) == 2
