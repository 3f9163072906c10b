"""The check ``declared``: exactly the cubins of the manifest, in every unit some."""

from pathlib import Path

import pytest

from gb10.image.proof.check import Subject
from gb10.image.proof.checks.declared import CHECK
from gb10.image.proof.reading import scan_path
from gb10.image.proof.wheel_files import Manifest
from gb10.inside.scan.binary import Binary, Unit
from gb10.inside.scan.scan import Scan

MADE = Path(__file__).parents[1] / "data" / "scan"


def library(path: str, *units: tuple[int, dict[str, int]]) -> Binary:
    """A library with so many units of such holdings."""
    return Binary(path=path, kind="elf", size=1, units=tuple(Unit(codes=codes, count=count) for count, codes in units))


def judged(scan: Scan, file: str = "k.so") -> list[str]:
    """What is found where sm_121f is declared."""
    declared = Manifest(file="manifest.json", arch="sm_121f", modules={file: ["sm_121f"]})
    return [problem.found for problem in CHECK.judge(Subject(scan=scan, manifests=[declared]))]


@pytest.mark.parametrize(
    ("module", "found"),
    [
        (library("lib/k.so", (1, {"sm_120": 1})), "sm_120 x1"),
        (library("lib/k.so", (1, {"sm_121f": 1, "sm_120f": 1})), "sm_120f x1, sm_121f x1"),
        (library("lib/k.so", (3, {"sm_121f": 1}), (2, {"compute_121f": 1})), "2 units without any cubin"),
        (library("lib/k.so"), "no GPU code"),
        (library("lib/other.so"), "no such file"),
    ],
)
def test_a_module_that_is_not_what_it_declares(module: Binary, found: str) -> None:
    assert judged(Scan(root="image", binaries=(module,))) == [found]


def test_a_module_that_is_what_it_declares() -> None:
    good = library("lib/k.so", (3, {"sm_121f": 1, "compute_121f": 1}))
    assert judged(Scan(root="image", binaries=(library("a.so"), good))) == []
    assert judged(scan_path(MADE), "libk.so") == []
