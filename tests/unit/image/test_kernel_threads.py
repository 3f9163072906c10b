"""With how many threads a compiled kernel can start: real cubins of nvcc 13.0 for sm_121, as in b12x's files.

``bounded`` has ``__launch_bounds__(256)``, ``required`` has ``.reqntid 160, 2, 1``.
"""

from pathlib import Path

import pytest

from gb10.image.explain.child.b12x import kernel_threads
from gb10.image.plan.catalog import ROOT
from tests.unit.engine_child import CHILD, fresh, stand_in

FILES = ROOT / "tests/unit/data/threads"
HOST = b"\x7fELF\x02\x01\x01" + bytes(9) + (1).to_bytes(2, "little") + (183).to_bytes(2, "little") + bytes(44)
"""The start of an object file for aarch64."""


def cubin(name: str) -> bytes:
    return (FILES / f"{name}.cubin").read_bytes()


@pytest.mark.parametrize(("names", "most"), [(["bounded"], 256), (["required"], 320), (["required", "bounded"], 256)])
def test_the_author_s_bound_of_the_strictest_kernel_counts(names: list[str], most: int) -> None:
    assert kernel_threads.most(HOST + b"".join(map(cubin, names))) == most


def test_a_kernel_without_a_bound_has_the_device_s() -> None:
    assert kernel_threads.most(HOST + (FILES.parent / "scan/cuda13.sm_121.cubin").read_bytes()) == 1024


@pytest.mark.parametrize(("registers", "most"), [(8, 8192), (64, 1024), (65, 896), (128, 512), (168, 384), (255, 256)])
def test_registers_bound_the_threads_of_a_block(registers: int, most: int) -> None:
    assert kernel_threads.by_registers(registers) == most


@pytest.mark.parametrize("content", [b"", HOST, HOST + b"\x7fELF"])
def test_a_file_without_a_kernel_tells_nothing(content: bytes) -> None:
    with pytest.raises(ValueError, match="does not say"):
        kernel_threads.most(content)


@pytest.mark.parametrize(
    ("wanted", "error"), [(0, ""), (320, ""), (321, "can have 320 threads, and b12x starts it with 321")]
)
def test_a_kernel_that_cannot_start_as_b12x_starts_it_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, wanted: int, error: str
) -> None:
    (tmp_path / "key").write_bytes(HOST + cubin("required"))
    stand_in(monkeypatch, "b12x._lib.compiler", _cache_object_path=tmp_path.joinpath)
    for name in ("torch", f"{CHILD}.shared.gpu", f"{CHILD}.shared.triton_cache"):
        stand_in(monkeypatch, name)
    worker = fresh(monkeypatch, "b12x.worker")
    assert error in str(worker.too_few_threads({"key": wanted}) or "")
    assert bool(error) == bool(worker.too_few_threads({"key": wanted}))
