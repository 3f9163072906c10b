"""GPU code that a chip never loads leaves a library: what stays, as the loader of this machine maps it."""

import ctypes
import itertools
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from gb10.inside.scan.code_fit import chosen
from gb10.inside.scan.elf import DamagedError, Elf
from gb10.inside.scan.fatbin import FATBIN_HEADER, entries
from gb10.inside.slim import gpu_code, references
from gb10.inside.slim.gpu_code import loaded_code, thinned
from gb10.inside.slim.references import made_pages

PAGE = 1 << 16
FLAGS = {"": 0, "a": 0x100000, "f": 0x200000}
KIND = {"compute": 1, "sm": 2, "lto": 8}
SOURCE = """
struct wrapper { int magic, version; const void *data, *more; };
asm(".section .nv_fatbin,\\"a\\"\\n.balign 256\\n.globl fatbins\\n.hidden fatbins\\n"
    "fatbins: .incbin \\"%s\\"\\n.previous");
extern const char fatbins[];
__attribute__((section(".nvFatBinSegment"))) struct wrapper wrappers[] = { %s };
const void *fatbin(int n) { return wrappers[n].data; }
const char *plain(void) { return "as it was"; }
%s
"""


def entry(code: str, size: int) -> bytes:
    """An entry with a payload that is told apart by its code; not an ELF, as a compressed one is not."""
    kind, _, arch = code.partition("_")
    payload = (code.encode() * size)[:size]
    head = struct.pack("<HHIQ", KIND[kind], 0x101, 64, len(payload)).ljust(28, b"\0")
    head += struct.pack("<I8xQ", int(arch.rstrip("af")), FLAGS[arch.lstrip("0123456789")])
    return head.ljust(64, b"\0") + payload


def fatbin(*codes: str, size: int = 3 * PAGE) -> bytes:
    body = b"".join(entry(code, size + 8 * number) for number, code in enumerate(codes))
    return b"\x50\xed\x55\xba" + struct.pack("<HHQ", 1, FATBIN_HEADER, len(body)) + body


FATBINS = {
    "native": fatbin("sm_90", "sm_120", "sm_121", "compute_121"),
    "family": fatbin("sm_120a", "sm_120f", "sm_100f", "compute_120"),
    "older": fatbin("sm_80", "sm_120", "compute_80"),
    "ptx": fatbin("compute_80", "sm_80", "compute_90a"),
    "nothing": fatbin("sm_100f", "sm_90a"),
    "lto": fatbin("sm_80", "lto_75", "compute_75"),
    "small": fatbin("sm_120", "sm_100", size=64),
}
KEPT = {
    "native": ["sm_121"],
    "family": ["sm_120f"],
    "older": ["sm_120"],
    "ptx": ["compute_80"],
    "nothing": ["sm_100f"],
    "lto": ["sm_80", "lto_75", "compute_75"],
    "small": ["sm_120"],
}


def built(folder: Path, more: str = "") -> Path:
    """A shared library with these fatbins, by the machine's compiler and linker."""
    if shutil.which("gcc") is None:
        pytest.skip("needs gcc")
    blob, starts = b"", []
    for content in FATBINS.values():
        blob += bytes(-len(blob) % 256)
        starts.append(len(blob))
        blob += content
    (folder / "blob").write_bytes(blob)
    wrappers = ", ".join(f"{{0x466243b1, 1, fatbins + {start}, 0}}" for start in starts)
    (folder / "a.c").write_text(SOURCE % (folder / "blob", wrappers, more))
    subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-o", folder / "a.so", folder / "a.c"], check=True)
    return folder / "a.so"


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("library"))


@pytest.fixture(autouse=True)
def any_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Code of the test's own machine: its library makes no address of a fatbin but through the wrappers."""
    monkeypatch.setattr(references, "code_pages", lambda elf, ranges: iter(()))


def mapped(path: Path, count: int) -> list[bytes]:
    """The fatbins as the loader of this machine maps them, read through the wrappers."""
    found = ctypes.CDLL(str(path))
    found.fatbin.restype, found.plain.restype = ctypes.c_void_p, ctypes.c_char_p
    assert found.plain() == b"as it was"
    contents = []
    for number in range(count):
        address = found.fatbin(number)
        (size,) = struct.unpack("<Q", ctypes.string_at(address + 8, 8))
        contents.append(ctypes.string_at(address, FATBIN_HEADER + size))
    return contents


def codes(content: bytes) -> list[str]:
    return [found.code for found in entries(content, FATBIN_HEADER, len(content))]


def pieces(content: bytes) -> dict[str, bytes]:
    return {found.code: content[found.at : found.end] for found in entries(content, FATBIN_HEADER, len(content))}


@pytest.mark.parametrize("hollow", [False, True])
def test_the_loader_maps_what_the_driver_would_take(library: Path, hollow: bool, tmp_path: Path) -> None:
    data = library.read_bytes()
    made = tmp_path / "b.so"
    made.write_bytes(thinned(data, "12.1", hollow=hollow))
    wanted = {**KEPT, "nothing": []} if hollow else KEPT
    for name, content in zip(FATBINS, mapped(made, len(FATBINS)), strict=True):
        assert codes(content) == wanted[name], name
        assert pieces(content).items() <= pieces(FATBINS[name]).items()
    left = sum(len(FATBINS[name]) * len(wanted[name]) // len(codes(FATBINS[name])) for name in FATBINS)
    assert made.stat().st_size < len(data) - sum(map(len, FATBINS.values())) + left + 4 * PAGE


def test_another_gpu_keeps_other_code(library: Path, tmp_path: Path) -> None:
    made = tmp_path / "b.so"
    made.write_bytes(thinned(library.read_bytes(), "9.0", hollow=True))
    found = dict(zip(FATBINS, map(codes, mapped(made, len(FATBINS))), strict=True))
    assert (found["native"], found["ptx"], found["nothing"]) == (
        ["sm_90"],
        ["compute_80", "compute_90a"],
        ["sm_90a"],
    )


def test_a_second_time_nothing_changes(library: Path) -> None:
    once = thinned(library.read_bytes(), "12.1", hollow=True)
    assert thinned(once, "12.1", hollow=True) == once


def test_the_tools_of_the_machine_read_the_result(library: Path, tmp_path: Path) -> None:
    if shutil.which("readelf") is None:
        pytest.skip("needs readelf")
    made = tmp_path / "b.so"
    made.write_bytes(thinned(library.read_bytes(), "12.1", hollow=False))
    found = [
        subprocess.run(["readelf", "-W", option, path], check=True, capture_output=True, text=True)
        for option in ("-l", "-S", "--dyn-syms", "-r")
        for path in (library, made)
    ]
    assert not any(one.stderr for one in found)
    assert found[4].stdout == found[5].stdout
    assert found[6].stdout.count("RELATIVE") == found[7].stdout.count("RELATIVE") > 0


def test_a_fatbin_that_something_else_names_stays_where_it_is(tmp_path: Path) -> None:
    """A pointer to its start pins it; one into it keeps every byte of it."""
    starts = list(itertools.accumulate((len(one) + -len(one) % 256 for one in FATBINS.values()), initial=0))
    more = f"const char *also = fatbins + {starts[1]}; const char *into = fatbins + {starts[2] + 100};"
    data = built(tmp_path, more).read_bytes()
    made = tmp_path / "b.so"
    made.write_bytes(thinned(data, "12.1", hollow=False))
    found = dict(zip(FATBINS, mapped(made, len(FATBINS)), strict=True))
    assert codes(found["family"]) == KEPT["family"]
    assert found["older"] == FATBINS["older"]
    library = ctypes.CDLL(str(made))
    for name, start in (("also", "family"), ("into", "older")):
        address = ctypes.c_void_p.in_dll(library, name).value
        assert address
        assert ctypes.string_at(address, 100) == found[start][100 * (name == "into") :][:100]


def test_code_of_a_machine_that_is_not_read_moves_nothing(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    if Elf(library.read_bytes()).machine != references.EM_AARCH64:
        with pytest.raises(DamagedError, match="only the code of aarch64"):
            thinned(library.read_bytes(), "12.1", hollow=False)


@pytest.mark.parametrize("share", [0.001, 0.1, 0.5, 0.9, 0.9999])
def test_a_cut_library_is_an_error_of_one_kind(library: Path, share: float) -> None:
    data = library.read_bytes()
    with pytest.raises(DamagedError):
        thinned(data[: int(len(data) * share)], "12.1", hollow=False)


def test_a_lost_piece_of_code_is_found(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The proof reads the result again: it does not trust what was decided."""
    monkeypatch.setattr(gpu_code, "thin_fatbin", lambda elf, start, end, capability, hollow: fatbin("sm_80", size=64))
    with pytest.raises(DamagedError, match="the driver would not load the same code"):
        thinned(library.read_bytes(), "12.1", hollow=False)


def test_what_is_loaded_is_told_by_wrapper(library: Path) -> None:
    found = loaded_code(library.read_bytes(), "12.1")
    assert sorted(len(pieces) for pieces in found.values()) == sorted(
        len(kept) if name != "nothing" else 0 for name, kept in KEPT.items()
    )


@pytest.mark.parametrize(
    ("held", "capability", "expected"),
    [
        ("sm_120 sm_120f sm_121a", "12.1", "sm_121a"),
        ("sm_120 sm_120f sm_120a", "12.1", "sm_120 sm_120f"),
        ("sm_100 compute_100 compute_120 compute_90a", "12.1", "compute_100 compute_120"),
        ("sm_90 sm_90a sm_80 compute_90", "9.0", "sm_90 sm_90a"),
        ("sm_86 sm_89", "8.9", "sm_89"),
        ("sm_121 sm_100f", "12.0", ""),
        ("lto_50 sm_50", "12.1", "lto_50 sm_50"),
    ],
)
def test_what_the_driver_may_take(held: str, capability: str, expected: str) -> None:
    assert [
        code for code, taken in zip(held.split(), chosen(held.split(), capability), strict=True) if taken
    ] == expected.split()


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        (0x90000000, 0x40000),  # adrp x0, 0
        (0xB0000001, 0x41000),  # adrp x1, 0x1000
        (0xF0FFFFE2, 0x3F000),  # adrp x2, -0x1000
        (0x10FFFFE3, 0x3F000),  # adr x3, -4
        (0x50000004, 0x40000),  # adr x4, 10
        (0xD2800000, None),  # mov x0, 0
    ],
)
def test_addresses_that_code_makes(word: int, expected: int | None) -> None:
    assert made_pages(struct.pack("<I", word), 0x40000) == ({expected} if expected is not None else set())


def test_the_last_bits_of_a_place_count() -> None:
    """ADR x0, 3 bytes behind the end of a page, and one byte before it; ADRP of the next page and of the one before."""
    adr, adrp = 0x10000000, 0x90000000
    made = {
        0xFFC: {adr | 1 << 5: {0x1000}, adr: {0}, adr | 3 << 29: {0}, adr | (1 << 19) - 1 << 5: {0}},
        0x1000: {adr: {0x1000}, adr | 3 << 29 | 0x7FFFF << 5: {0}, adrp | 1 << 29: {0x2000}, adrp | 1 << 5: {0x5000}},
        0x9000: {adrp | 3 << 29 | 0x7FFFF << 5: {0x8000}, adrp: {0x9000}},
    }
    for address, words in made.items():
        for word, pages in words.items():
            assert made_pages(struct.pack("<I", word), address) == pages, (hex(address), hex(word))


def test_no_byte_outside_of_the_ranges_may_change() -> None:
    before = bytes(100)
    edited = bytearray(before)
    edited[10:20] = b"x" * 10
    gpu_code.check_rest(before, edited, [(10, 20)])
    gpu_code.check_rest(before, edited, [(15, 30), (10, 16)])
    gpu_code.check_rest(before, edited, [(0, 100), (5, 6)])
    for ranges in ([], [(11, 20)], [(10, 19)], [(30, 40)]):
        with pytest.raises(DamagedError, match="would change"):
            gpu_code.check_rest(before, edited, ranges)
    for place in (0, 99):
        edited = bytearray(before)
        edited[place] = 1
        with pytest.raises(DamagedError):
            gpu_code.check_rest(before, edited, [(10, 20)])
