"""The check ``damaged``, on cubins whose fatbin names another arch than they do: real ones, a few bytes changed."""

import struct
from pathlib import Path

import pytest

from gb10.image.proof.check import Subject
from gb10.image.proof.checks.damaged import CHECK
from gb10.inside.scan.binary import scan_buffer
from gb10.inside.scan.scan import Scan

MADE = Path(__file__).parents[1] / "data" / "scan"
FATBIN = (MADE / "sm_121f.fatbin").read_bytes()
LIBRARY = (MADE / "libk.so").read_bytes()
MAGIC = b"\x50\xed\x55\xba"
A, F = 0x100000, 0x200000


def relabelled(whole: bytes, number: int, suffix: int) -> bytes:
    """The first fatbin entry says another arch; the cubin behind it stays."""
    at = whole.index(MAGIC) + 16
    flags = struct.unpack_from("<Q", whole, at + 40)[0] & ~(A | F) | suffix
    changed = bytearray(whole)
    struct.pack_into("<I", changed, at + 28, number)
    struct.pack_into("<Q", changed, at + 40, flags)
    return bytes(changed)


@pytest.mark.parametrize("whole", [FATBIN, LIBRARY], ids=["fatbin", "library"])
@pytest.mark.parametrize(
    ("number", "suffix", "says"),
    [(120, 0, "sm_120"), (121, 0, "sm_121"), (121, A, "sm_121a"), (120, F, "sm_120f"), (90, A, "sm_90a")],
)
def test_an_entry_and_its_cubin_that_disagree_are_damage(whole: bytes, number: int, suffix: int, says: str) -> None:
    found = scan_buffer(relabelled(whole, number, suffix), "k.so")
    [problem] = CHECK.judge(Subject(scan=Scan(root="root", binaries=(found,))))
    assert problem.found.endswith(f"is for {says}, its cubin for sm_121f")
    assert found.codes == {}


def test_the_same_label_is_no_damage() -> None:
    found = scan_buffer(relabelled(LIBRARY, 121, F), "k.so")
    assert CHECK.judge(Subject(scan=Scan(root="root", binaries=(found,)))) == []


def test_a_compressed_entry_repeats_the_a_of_its_cubin() -> None:
    """An entry of 112 bytes: at 64 the place and size of a copy of .nv.compat, whose attribute 9 is the ``a``."""
    copy = bytes([0, 2, 9, 1, 0])
    header = struct.pack("<HHIQ12xI8xQ16xII", 2, 0x101, 112, 8, 121, 0x8011 | F, 0x48, len(copy)) + copy
    fatbin = struct.pack("<IHHQ", 0xBA55ED50, 1, 16, 120) + header.ljust(112, b"\0") + b"\x28\xb5\x2f\xfd" + bytes(4)
    assert scan_buffer(fatbin, "k").error.endswith("is for sm_121f, its cubin for sm_121a")
    assert scan_buffer(relabelled(fatbin, 121, A), "k").codes == {"sm_121a": 1}


def test_a_file_that_cannot_be_read_is_damage() -> None:
    found = scan_buffer(LIBRARY[:1000], "k.so")
    [problem] = CHECK.judge(Subject(scan=Scan(root="root", binaries=(found,))))
    assert (problem.file, problem.expected) == ("k.so", "a whole file")
