"""scan.py on real output of nvcc (data/scan), whole and damaged."""

import json
import os
import random
import re
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gb10.image.proof.reading import read_scan
from gb10.inside.scan.binary import Binary, scan_buffer, scan_file
from gb10.inside.scan.fatbin import units_in
from gb10.inside.scan.scan import scan_tree

MADE = Path(__file__).parents[1] / "data" / "scan"
SEVERAL = (MADE / "several.o").read_bytes()
LIBRARY = (MADE / "libk.so").read_bytes()
HEADERS = 0x200


def scanned(name: str) -> Binary:
    """One of the files made by nvcc."""
    return scan_file(MADE / name, name)


@pytest.mark.parametrize("path", sorted(MADE.glob("*.cubin")), ids=lambda path: path.stem)
def test_a_cubin_says_its_arch(path: Path) -> None:
    found = scanned(path.name)
    assert (found.kind, found.codes) == ("cubin", {path.stem.split(".")[1]: 1})


@pytest.mark.parametrize(
    ("name", "codes"),
    [
        ("sm_121f.fatbin", {"sm_121f": 1}),
        ("several.o", {"compute_121a": 1, "sm_120": 1, "sm_120a": 1, "sm_121a": 1, "sm_80": 1}),
        ("compressed.o", {"compute_120f": 1, "sm_120f": 1}),
        ("relocatable.o", {"sm_121f": 1}),
        ("lto.o", {"lto_121f": 1}),
        ("ptx.o", {"compute_121": 1}),
        ("libk.so", {"sm_121f": 2}),
    ],
)
def test_codes(name: str, codes: dict[str, int]) -> None:
    assert scanned(name).codes == codes


def test_a_library_says_what_it_needs() -> None:
    found = scanned("libk.so")
    assert (found.soname, found.machine) == ("libk.so.1", "x86_64")
    assert "libc.so.6" in found.needed
    assert found.versions == {"GLIBC": "2.14", "GLIBCXX": "3.4"}
    assert [unit.count for unit in found.units] == [2]


def test_a_fatbin_outside_the_fatbin_sections_is_found() -> None:
    fatbin = (MADE / "sm_121f.fatbin").read_bytes()
    at = LIBRARY.index(b"\x50\xed\x55\xba")
    moved = LIBRARY.replace(b".nv_fatbin", b".data_here")
    assert moved != LIBRARY
    assert scan_buffer(moved, "k").codes == {"sm_121f": 2}
    assert scan_buffer(LIBRARY[:at] + fatbin + LIBRARY[at + len(fatbin) :], "k").codes["sm_121f"] >= 1


def test_a_bare_cubin_inside_a_library_counts_as_a_unit() -> None:
    cubin = (MADE / "cuda13.sm_120a.cubin").read_bytes()
    at = LIBRARY.index(b"\x50\xed\x55\xba")
    assert scan_buffer(LIBRARY[:at] + cubin + LIBRARY[at + len(cubin) :], "k").codes["sm_120a"] == 1


def test_the_magic_number_in_code_is_no_fatbin() -> None:
    at = LIBRARY.index(b"\x50\xed\x55\xba")
    code = b"\x50\xed\x55\xba\x01\x00\x10\x00" + b"\xff" * 40
    found = scan_buffer(LIBRARY[:at] + code + LIBRARY[at + len(code) :], "k")
    assert not found.error


@pytest.mark.parametrize(
    ("offset", "value", "error"),
    [
        (8, struct.pack("<Q", 1 << 40), "has 1099511627776 bytes"),
        (16 + 8, struct.pack("<Q", 1 << 40), "does not fit"),
        (16 + 4, struct.pack("<I", 8), "does not fit"),
    ],
)
def test_a_damaged_fatbin_is_reported(offset: int, value: bytes, error: str) -> None:
    at = SEVERAL.index(b"\x50\xed\x55\xba") + offset
    found = scan_buffer(SEVERAL[:at] + value + SEVERAL[at + len(value) :], "several.o")
    assert found.kind == "damaged"
    assert error in found.error


@pytest.mark.parametrize("whole", [SEVERAL, LIBRARY])
@pytest.mark.parametrize("share", [0.002, 0.1, 0.5, 0.9])
def test_a_file_cut_short_is_reported(whole: bytes, share: float) -> None:
    assert scan_buffer(whole[: int(len(whole) * share)], "k").kind == "damaged"


@given(st.lists(st.tuples(st.integers(4, HEADERS), st.integers(0, 255)), min_size=1, max_size=8))
def test_no_byte_makes_it_fall(changes: list[tuple[int, int]]) -> None:
    for whole in (SEVERAL, LIBRARY, (MADE / "cuda13.sm_121a.cubin").read_bytes()):
        damaged = bytearray(whole)
        for at, byte in changes:
            damaged[at] = byte
        assert scan_buffer(bytes(damaged), "k").path == "k"


def test_a_tree(tmp_path: Path) -> None:
    (tmp_path / "a b").mkdir()
    (tmp_path / "a b" / "k.so").write_bytes(LIBRARY)
    (tmp_path / "link.so").symlink_to("a b/k.so")
    (tmp_path / "loop").symlink_to(".")
    (tmp_path / "text.py").write_text("print()")
    (tmp_path / "empty").touch()
    os.mkfifo(tmp_path / "pipe")
    scan = scan_tree(tmp_path)
    assert [binary.path for binary in scan.binaries] == ["a b/k.so"]
    assert scan.sizes == {"/": 7, "a b": len(LIBRARY)}


def test_the_document_reads_back() -> None:
    scan = scan_tree(MADE)
    assert read_scan(scan.to_json(), "here") == scan
    assert json.loads(scan.to_json())["schema"] == "gb10/scan/v2"


def test_a_header_in_x86_code_is_no_fatbin() -> None:
    """Libraries that write fatbins hold magic number, version and size as one constant; code follows, no entry."""
    constant = struct.pack("<IHHQ", 0xBA55ED50, 1, 16, 40) + bytes.fromhex("488b45f84889c7e8") * 8
    assert list(units_in(constant, [(0, len(constant))])) == []


@pytest.mark.parametrize("path", sorted(path for path in MADE.iterdir() if path.suffix != ".md"), ids=lambda p: p.name)
def test_mutants_are_read_or_damaged(path: Path) -> None:
    """Bytes of the headers, the fatbin entries and anywhere else, changed at random; some files are cut."""
    whole, chance = path.read_bytes(), random.Random(path.name)  # noqa: S311 - the same mutants every time
    starts = [0, *(match.start() for match in re.finditer(rb"\x50\xed\x55\xba|\x7fELF", whole))]
    for _ in range(500):
        mutant = bytearray(whole)
        for _ in range(chance.randint(1, 8)):
            near = chance.choice(starts) + chance.randrange(160)
            at = min(chance.choice((near, chance.randrange(len(whole)))), len(whole) - 1)
            mutant[at] = chance.choice((0, 1, 0xFF, chance.randrange(256)))
        found = scan_buffer(bytes(mutant[: chance.choice((len(whole), chance.randrange(len(whole))))]), "k")
        assert bool(found.error) == (found.kind == "damaged")
