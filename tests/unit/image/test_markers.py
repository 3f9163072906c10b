"""Marker instructions: a grouped GEMM compiled for 12.1f, and the stub that the same source becomes for plain 12.1.

The cubins are nvcc 13.0.88's, of kernels/moe/swapped_128x32x128.cu; cuobjdump's counts stand in the tests.
"""

import gzip
import json
import sys
from collections import Counter
from pathlib import Path

import pytest

from gb10.core.proc import capture
from gb10.image.build.compile import UNKEYED, stage_files
from gb10.image.build.contexts import scanner_files, write_tree
from gb10.image.plan.catalog import ROOT, Catalog
from gb10.inside.compile import markers
from gb10.inside.scan.fatbin import FATBIN_MAGIC
from tests.recipes import SHIPPED

DATA = Path(__file__).parents[1] / "data" / "markers"
GEMM = {"GemmUniversal": ["QMMA", "UTMALDG"]}


def cubin(name: str) -> bytes:
    return gzip.decompress((DATA / f"{name}.cubin.gz").read_bytes())


def test_a_stage_gets_the_reader_of_changes_where_mods_are_baked_in() -> None:
    contents = Catalog(ROOT).contents
    assert set(scanner_files(contents)) == {"scan.py", "linked.py"}
    assert set(scanner_files(contents, mods=True)) == {"scan.py", "linked.py", "changed.py"}


def test_a_real_kernel_has_what_cuobjdump_counts() -> None:
    gemms = [counts for name, counts in markers.kernels_of(cubin("121f")).items() if "GemmUniversal" in name]
    assert gemms == [Counter(QMMA=32, UTMALDG=2, STL=13, LDL=10)] * 2  # bf16 and fp16
    assert not markers.missing(markers.kernels_of(cubin("121f")), GEMM)


def test_the_stub_of_a_plain_arch_is_told() -> None:
    wrong = markers.missing(markers.kernels_of(cubin("plain-121")), GEMM)
    assert len(wrong) == 2
    assert all("no QMMA, UTMALDG: a stub, compiled for the wrong arch" in line for line in wrong)


def test_a_kernel_that_is_not_there_is_told() -> None:
    assert markers.missing(markers.kernels_of(cubin("121f")), {"Conv": ["QMMA"]}) == ["no kernel is named Conv"]


def test_a_kernel_that_works_and_traps_is_told() -> None:
    (wrong,) = markers.missing({"GemmUniversal": Counter(QMMA=1, UTMALDG=1, BPT=2)}, GEMM)
    assert wrong == "GemmUniversal: 2 traps"


def test_compressed_code_is_not_taken_for_no_code() -> None:
    entry = (2).to_bytes(2, "little") + (0x101).to_bytes(2, "little") + (64).to_bytes(4, "little")
    entry += (16).to_bytes(8, "little") + bytes(48) + b"\x28\xb5\x2f\xfd" + bytes(12)
    with pytest.raises(markers.CompressedError, match="--no-compress"):
        list(markers.cubins_in_fatbin(entry, 0, len(entry)))


def test_it_runs_where_a_compile_stage_lays_it(tmp_path: Path) -> None:
    """The scripts of a stage lie in /inside, as in the package; /inside is on Python's path."""
    own = SHIPPED.contents
    write_tree(tmp_path, stage_files({name: own[name] for name in UNKEYED}))
    (tmp_path / "k.cubin").write_bytes(cubin("121f"))
    argv = [sys.executable, "-P", "-m", "gb10.inside.compile.markers", str(tmp_path / "k.cubin")]
    told = capture(argv, cwd=tmp_path, env={"PYTHONPATH": str(tmp_path / "inside")})
    assert json.loads(told) == markers.kernels_of(cubin("121f"))


def fatbin(*cubins: bytes) -> bytes:
    """A fatbin as nvcc lays it into a library: a header, then an entry for each cubin."""
    body = b"".join(
        (2).to_bytes(2, "little")
        + (0x101).to_bytes(2, "little")
        + (64).to_bytes(4, "little")
        + len(one).to_bytes(8, "little")
        + bytes(48)
        + one
        for one in cubins
    )
    return (
        FATBIN_MAGIC + (1).to_bytes(2, "little") + (16).to_bytes(2, "little") + len(body).to_bytes(8, "little") + body
    )


def test_every_fatbin_of_a_library_is_read() -> None:
    one, other = cubin("121f"), cubin("plain-121")
    library = b"\x7fELF" + bytes(100) + fatbin(one) + bytes(40) + FATBIN_MAGIC + fatbin(other, one)
    assert list(markers.cubins_of(library)) == [one, other, one]
    assert list(markers.cubins_of(bytes(200))) == []
    assert list(markers.cubins_of(one)) == [one]
