"""The check ``jit``: a note on PTX that the driver compiles, with its cost."""

from dataclasses import replace

import pytest

from gb10.image.proof.checks.jit import CHECK
from gb10.image.recipe.allowances import Allowances, Cost
from gb10.inside.scan.binary import Binary, Unit
from gb10.inside.scan.scan import Scan
from tests.unit.made_up_images import found, image

COST = Cost(seconds_per_mb=6.0, measured="by nobody, for this test")


def noted(*units: Unit, cost: Cost | None = None) -> list[tuple[str, str]]:
    """The notes on a library of these units."""
    library = Binary(path="vllm/_fa2.so", kind="elf", size=1, units=units)
    subject = image(scan=Scan(root="i", binaries=(library,)))
    return found(CHECK.judge(replace(subject, allowed=Allowances(ptx=cost))))


def test_ptx_alone_and_its_cost() -> None:
    unit = Unit(codes={"sm_80": 1, "compute_80": 1}, count=76, ptx=680_000_000)
    told = "PTX alone in 76 units, 680 MB: the driver compiles each on its first use"
    assert noted(unit) == [("_fa2.so", told)]
    assert noted(unit, cost=COST) == [("_fa2.so", f"{told}, up to 68 CPU minutes in all")]


@pytest.mark.parametrize("codes", [{"sm_120": 1, "compute_120": 1}, {"sm_121f": 1, "compute_121f": 1}, {"sm_90": 1}])
def test_code_that_the_gpu_loads_or_cannot_use_costs_nothing(codes: dict[str, int]) -> None:
    assert noted(Unit(codes=codes, count=1, ptx=9_000_000)) == []


def test_of_several_versions_of_a_unit_the_driver_compiles_one() -> None:
    unit = Unit(codes={"compute_80": 1, "compute_90": 1, "compute_100": 1}, count=1, ptx=2_900_000)
    assert noted(unit) == []
    assert len(noted(replace(unit, ptx=3_000_000))) == 1
