"""The check ``claim``: SASS of the arch in all GPU code; declared modules are held to their manifest instead."""

import zipfile
from pathlib import Path

import pytest

from gb10.image.proof.check import Subject
from gb10.image.proof.checks.claim import CHECK
from gb10.image.proof.reading import read_markers, scan_path
from gb10.image.proof.wheel_files import Manifest
from gb10.image.recipe.arch import Arch, parse_arch
from gb10.inside.scan.binary import Binary, Unit
from gb10.inside.scan.scan import Scan

MADE = Path(__file__).parents[1] / "data" / "scan"


def library(path: str, **codes: int) -> Binary:
    """A library of one unit."""
    return Binary(path=path, kind="elf", size=1, units=(Unit(codes=codes, count=1),) if codes else ())


def judged(*binaries: Binary, arch: str = "12.1f", manifest: Manifest | None = None) -> list[tuple[str, str]]:
    """File and finding of each problem."""
    manifests = [manifest] if manifest else []
    subject = Subject(
        scan=Scan(root="root", binaries=binaries), manifests=manifests, claims={"--claim": parse_arch(arch)}
    )
    return [(problem.file, problem.found) for problem in CHECK.judge(subject)]


@pytest.mark.parametrize(
    ("codes", "found"),
    [
        ({"sm_121f": 1}, []),
        ({"sm_121f": 1, "sm_120": 1}, []),
        ({"sm_121": 1}, [("k.so", "sm_121 x1")]),
        ({"sm_121a": 1}, [("k.so", "sm_121a x1")]),
        ({"compute_121f": 1}, [("k.so", "compute_121f x1")]),
        ({}, [("root", "no GPU code")]),
    ],
)
def test_a_claim(codes: dict[str, int], found: list[tuple[str, str]]) -> None:
    assert judged(library("k.so", **codes)) == found


FLASHINFER = Manifest(
    file="f/manifest.json",
    arch="sm_121f",
    modules={"f/norm.so": ["sm_121f"], "f/fp4_120.so": ["sm_120f"], "f/fp4_121.so": ["sm_121a"]},
)
MODULES = (library("f/norm.so", sm_121f=1), library("f/fp4_120.so", sm_120f=1), library("f/fp4_121.so", sm_121a=1))


def test_modules_that_are_declared_for_another_arch_pass() -> None:
    assert judged(*MODULES, manifest=FLASHINFER) == []
    assert [file for file, _ in judged(*MODULES)] == ["f/fp4_120.so", "f/fp4_121.so"]


def test_a_manifest_of_another_arch_does_not_bear_out_a_claim() -> None:
    assert judged(*MODULES, arch="12.1a", manifest=FLASHINFER) == [("f/manifest.json", "a wheel for sm_121f")]


def test_a_file_that_no_manifest_declares_is_held_to_the_claim() -> None:
    assert judged(*MODULES, library("f/other.so", sm_90=1), manifest=FLASHINFER) == [("f/other.so", "sm_90 x1")]


def test_a_manifest_alone_does_not_bear_out_a_claim() -> None:
    lying = Manifest(file="f/manifest.json", arch="sm_121f", modules={"k.so": ["sm_120f"]})
    assert judged(library("k.so", sm_120f=1), manifest=lying) == [("root", "no sm_121f in any file")]


def test_a_wheel_with_a_wrong_marker_is_caught(tmp_path: Path) -> None:
    wheel = tmp_path / "vllm-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(MADE / "compressed.o", "vllm/_C.abi3.so")
        archive.writestr("vllm/__init__.py", "")
    (tmp_path / ".vllm-arch").write_text("12.1a\n")
    claims = {name: parse_arch(text) for name, text in read_markers(tmp_path).items()}
    [problem] = CHECK.judge(Subject(scan=scan_path(wheel), claims=claims))
    assert (problem.file, problem.expected) == ("vllm/_C.abi3.so", "sm_121a, as .vllm-arch claims")
    assert problem.found == "compute_120f x1, sm_120f x1"
    assert CHECK.judge(Subject(scan=scan_path(tmp_path), claims={"a tag": Arch("12.0", "f")})) == []
