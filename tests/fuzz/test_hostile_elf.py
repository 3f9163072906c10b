"""Files that were made to cost time or memory: each is read, or called damaged, within its own size."""

import resource
import struct
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest

from gb10.inside.scan import changed
from gb10.inside.scan.binary import Binary, scan_buffer
from gb10.inside.scan.fatbin import BROKEN, CODES
from gb10.inside.scan.scan import scan_tree
from tests.conftest import Deep
from tests.hang import PATIENCE, no_hang

SEGMENT, SECTION = struct.Struct("<IIQQQQQQ"), struct.Struct("<IIQQQQIIQQ")
DYNAMIC, WHOLE = 2, 1
MEBIBYTE, CUDA_13 = 1 << 20, 65
BYTES = 64 * MEBIBYTE
DEPTH = 1100


def elf(*segments: tuple[int, ...], body: bytes = b"", shoff: int = 0, shnum: int = 0, machine: int = 62) -> bytes:
    """An ELF of these segments (type, offset, address, size), and what follows them."""
    header = b"\x7fELF\x02\x01\x01" + bytes(9)
    header += struct.pack("<HHIQQQIHHHHHH", 3, machine, 1, 0, 64, shoff, 0, 64, 56, len(segments), 64, shnum, 0)
    return header + b"".join(SEGMENT.pack(kind, 4, at, at, at, size, size, 1) for kind, at, size in segments) + body


def fatbin(*entries: bytes) -> bytes:
    """A fatbin of these entries."""
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, sum(map(len, entries))) + b"".join(entries)


def entry(kind: int, arch: int) -> bytes:
    """An entry without a payload."""
    return struct.pack("<HHIQ12xI8xQ", kind, 0x101, 48, 0, arch, 0)


def overlapping_segments() -> bytes:
    """Thousands of segments that each map the whole file, full of fatbins."""
    body = fatbin(entry(1, 80)) * 4000
    return elf(*[(WHOLE, 0, len(body))] * 4000, body=body)


def names_of_a_mebibyte() -> bytes:
    """A cubin of 60,000 sections that share one name of a mebibyte."""
    count = 60_000
    table = SECTION.pack(0, 3, 0, 0, 64 + SECTION.size * count, MEBIBYTE, 0, 0, 1, 0) * count
    whole = bytearray(elf(body=table + b"A" * MEBIBYTE + b"\0", shoff=64, shnum=count, machine=190))
    whole[7] = CUDA_13
    return bytes(whole)


def cubin_headers() -> bytes:
    """Nothing but headers of cubins, each of which claims all that follows as its sections."""
    one = bytearray(elf(machine=190, shnum=60_000, shoff=64))
    one[7] = CUDA_13
    return elf((WHOLE, 0, MEBIBYTE), body=bytes(one) * (MEBIBYTE // len(one)))


def symbol_versions() -> bytes:
    """8 KB, in which hundreds of libraries want 65,535 versions each, all of them the same one."""
    tags = [(5, 0), (0x6FFFFFFE, 512), (0x6FFFFFFF, 400), (0, 0)]
    table = b"".join(struct.pack("<QQ", *tag) for tag in tags)
    wanted = b"".join(struct.pack("<HHIII", 1, 65535, 1, 7400 - at, 16) for at in range(512, 512 + 16 * 400, 16))
    body = (table.ljust(512 - 176, b"\0") + wanted).ljust(8000, b"\0")
    return elf((WHOLE, 0, 8000), (DYNAMIC, 176, 64), body=body)


def dynamic_entries() -> bytes:
    """A dynamic section of a million libraries that are needed."""
    return elf((WHOLE, 0, MEBIBYTE), (DYNAMIC, 176, MEBIBYTE), body=struct.pack("<QQ", 1, 0) * (MEBIBYTE // 16 + 12))


def kinds_of_code() -> bytes:
    """A fatbin in which every entry is for another GPU."""
    return fatbin(*(entry(1, arch) for arch in range(20_000)))


@pytest.mark.parametrize(
    ("made", "error"),
    [
        (overlapping_segments, ""),
        (names_of_a_mebibyte, ""),
        (cubin_headers, f"more than {BROKEN} cubins"),
        (symbol_versions, "symbol versions"),
        (dynamic_entries, "dynamic section"),
        (kinds_of_code, f"more than {CODES} different kinds"),
        (lambda: elf(shoff=64, shnum=0, body=bytes(32) + struct.pack("<Q", 1 << 60) + bytes(64)), "the limit is"),
        (lambda: elf(shoff=64, shnum=60_000, body=bytes(640)), "end after the file"),
    ],
)
def test_a_hostile_file_costs_no_more_than_its_size(made, error: str) -> None:  # type: ignore[no-untyped-def] # noqa: ANN001
    whole = made()
    tracemalloc.start()
    with no_hang():
        found = scan_buffer(whole, "k")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert error in found.error
    assert bool(found.error) == bool(error)
    assert peak < BYTES


def test_a_fatbin_in_overlapping_segments_counts_once() -> None:
    body = fatbin(entry(1, 80))
    start = 64 + 3 * 56
    whole = elf((WHOLE, 0, start + len(body)), (WHOLE, 0, 100), (WHOLE, start, len(body)), body=body)
    assert scan_buffer(whole, "k").codes == {"compute_80": 1}


def test_a_small_segment_within_a_large_one_hides_nothing() -> None:
    body = bytes(64) + fatbin(entry(1, 80))
    whole = elf((WHOLE, 0, 64 + 2 * 56 + len(body)), (WHOLE, 64, 8), body=body)
    assert scan_buffer(whole, "k").codes == {"compute_80": 1}


def test_nested_folders_are_walked_without_recursion(deep: Deep, tmp_path: Path) -> None:
    assert sys.getrecursionlimit() < DEPTH
    folder = deep(DEPTH, "d", elf())
    (found,) = scan_tree(folder).binaries
    assert (found.kind, found.path.count("/")) == ("elf", DEPTH)
    scanner, gone = changed.changes(tmp_path, folder)
    assert len(scanner.scanned(gone).binaries) == 1


def test_a_path_that_is_too_long_is_reported(deep: Deep) -> None:
    found: tuple[Binary, ...] = scan_tree(deep(40, "d" * 200, elf())).binaries
    assert [binary.kind for binary in found] == ["unreadable"]
    assert "File name too long" in found[0].error


@pytest.mark.parametrize("made", [overlapping_segments, cubin_headers, names_of_a_mebibyte])
def test_a_process_with_little_memory_reads_it(made, tmp_path: Path) -> None:  # type: ignore[no-untyped-def] # noqa: ANN001
    (tmp_path / "k.so").write_bytes(made())
    code = f"from gb10.inside.scan.binary import scan_file; print(scan_file({str(tmp_path / 'k.so')!r}, 'k').path)"
    limit = 512 * MEBIBYTE
    done = subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
    )
    assert done.stdout == "k\n"
