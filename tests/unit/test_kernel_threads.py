"""With how many threads a compiled kernel can start: real cubins of nvcc 13.0 for sm_121, as in b12x's files.

``bounded`` has ``__launch_bounds__(256)``, ``required`` has ``.reqntid 160, 2, 1``.
"""

import sys
from pathlib import Path
from types import ModuleType

import pytest

from gb10.image.plan.catalog import ROOT
from gb10.inside import elf
from tests.unit.test_refusal import loaded

FILES = ROOT / "tests/unit/data/threads"
HOST = b"\x7fELF\x02\x01\x01" + bytes(9) + (1).to_bytes(2, "little") + (183).to_bytes(2, "little") + bytes(44)
"""The start of an object file for aarch64."""


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setitem(sys.modules, "elf", elf)
    return loaded("kernel_threads", ROOT / "gb10/image/explain/child/kernel_threads.py")


def cubin(name: str) -> bytes:
    return (FILES / f"{name}.cubin").read_bytes()


@pytest.mark.parametrize(("names", "most"), [(["bounded"], 256), (["required"], 320), (["required", "bounded"], 256)])
def test_the_author_s_bound_of_the_strictest_kernel_counts(threads: ModuleType, names: list[str], most: int) -> None:
    assert threads.most(HOST + b"".join(map(cubin, names))) == most


def test_a_kernel_without_a_bound_has_the_device_s(threads: ModuleType) -> None:
    assert threads.most(HOST + (FILES.parent / "scan/cuda13.sm_121.cubin").read_bytes()) == 1024


@pytest.mark.parametrize(("registers", "most"), [(8, 8192), (64, 1024), (65, 896), (128, 512), (168, 384), (255, 256)])
def test_registers_bound_the_threads_of_a_block(threads: ModuleType, registers: int, most: int) -> None:
    assert threads.by_registers(registers) == most


@pytest.mark.parametrize("content", [b"", HOST, HOST + b"\x7fELF"])
def test_a_file_without_a_kernel_tells_nothing(threads: ModuleType, content: bytes) -> None:
    with pytest.raises(ValueError, match="does not say"):
        threads.most(content)


@pytest.mark.parametrize(
    ("wanted", "error"), [(0, ""), (320, ""), (321, "can have 320 threads, and b12x starts it with 321")]
)
def test_a_kernel_that_cannot_start_as_b12x_starts_it_is_told(
    threads: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, wanted: int, error: str
) -> None:
    (tmp_path / "key").write_bytes(HOST + cubin("required"))
    compiler = ModuleType("b12x._lib.compiler")
    compiler.__dict__["_cache_object_path"] = tmp_path.joinpath
    for module in (threads, ModuleType("b12x"), ModuleType("b12x._lib"), compiler):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    worker = loaded("b12x_worker", ROOT / "gb10/image/explain/child/b12x_worker.py")
    assert error in str(worker.cannot_start({"key": wanted}) or "")
    assert bool(error) == bool(worker.cannot_start({"key": wanted}))
