"""Images of others that are made to cost memory or time: each is read, or refused, within the limits of the gauge."""

import gzip
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gb10.image.base.described import Wanted, describe
from gb10.image.base.file_tree import FileTree
from gb10.image.base.layer_index import packed_index, read_layer, unpacked_index
from gb10.image.base.layer_stream import zstd
from tests.fuzz.gauge import run
from tests.unit.made_up_bases import REFERENCE, File, config, packed, python

pytestmark = pytest.mark.gauged

SITE = "usr/lib/python3.12/site-packages"


def header(path: str, *, size: int = 0, flag: bytes = b"0", target: str = "") -> bytes:
    """A header of a tar."""
    block = bytearray(512)
    block[: len(path)] = path.encode()
    block[100:107], block[124:135], block[156:157] = b"0000644", b"%011o" % size, flag
    block[157 : 157 + len(target)] = target.encode()
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


def zipped(parts: Iterator[bytes]) -> bytes:
    """The parts by zstd."""
    engine = zstd.ZstdCompressor(level=1)
    return b"".join((*map(engine.compress, parts), engine.flush()))


def files() -> bytes:
    """300,000 files in a thousand folders, each in another than the one before. A million take 12 s of CPU time."""
    return zipped(header(f"d{number % 1000}/file{number}") for number in range(300_000))


def metadata() -> bytes:
    """A METADATA of 1 GB."""
    head = b"Name: vllm\nVersion: 1\n\n".ljust(1 << 20, b"\0")
    parts = [header(f"{SITE}/vllm-1.dist-info/METADATA", size=1 << 30), head, *[bytes(1 << 20)] * 1023, bytes(1024)]
    return zipped(iter(parts))


def members() -> bytes:
    """200,000 empty members of gzip behind a layer."""
    return gzip.compress(packed(("x", "", "f"))) + gzip.compress(b"") * 200_000


def ladder() -> bytes:
    """Each link leads through all before it, and each file through the last ones."""
    rungs = [header(f"l{number}", flag=b"2", target="/".join([f"l{number - 1}/.."] * 20)) for number in range(1, 40)]
    files = [header(f"l{number % 40}/f{number}") for number in range(20_000)]
    return zipped(iter([header("l0", flag=b"5"), *rungs, *files, bytes(1024)]))


def deep() -> bytes:
    """Folders in folders, as deep as paths go, many times."""
    return packed(*((f"{number}/" + "d/" * 2000 + "x", "", "f") for number in range(300)))


def removed() -> bytes:
    """Whiteouts of what is not there, and of everything."""
    return packed(*((f"d{number}/.wh.x", "", "f") for number in range(20_000)), (".wh..wh..opq", "", "f"))


def distributions() -> bytes:
    """More packages than any image has."""
    rows = (f"{SITE}/p{number}-1.dist-info/METADATA" for number in range(60_000))
    text = b"Name: p\nVersion: 1\n\n".ljust(512, b"\0")
    return zipped(part for path in rows for part in (header(path, size=19), text))


def bomb() -> bytes:
    """Zeros of 512 MiB behind the end of a tar: hashed, and nothing else."""
    return gzip.compress(packed(("x", "", "f")), 1) + gzip.compress(bytes(1 << 24), 9) * 32


def rungs() -> list[File]:
    """A ladder of links: each of ``/l0`` takes 80,000 steps to follow."""
    return [("d/x", "", "f"), *((f"l{at}", "./" * 2040 + f"l{at + 1}", "l") for at in range(39)), ("l39", "d", "l")]


def hard_links() -> bytes:
    """Hard links in one folder, each through the ladder."""
    return packed(*rungs(), *((f"a{number}", "l0/x", "h") for number in range(2000)))


def lines() -> bytes:
    """A .pth file whose lines each lead through the ladder."""
    return packed(*python(), *rungs(), (f"{SITE}/x.pth", "/l0/x\n" * 9000, "f"))


def extended() -> bytes:
    """1 GB of extended headers with as many records as each may have, in a layer of few bytes."""
    block = header("x", size=1 << 17, flag=b"x") + b"32 a=".ljust(31, b"b") + b"\n"
    return zipped(block[:512] + block[512:] * (1 << 12) for _ in range(1 << 13))


def read(data: bytes, _: Path) -> None:
    """As an image is read: a layer, kept and read again, laid on itself."""
    found = read_layer(iter([data]))
    assert unpacked_index(packed_index(found)) == found
    tree = FileTree([found, found] if len(found.paths) < 100_000 else [found])
    describe(tree, REFERENCE, (), config(), Wanted(platform="linux/arm64"))


@pytest.mark.parametrize(
    "make", [files, metadata, members, ladder, deep, removed, distributions, bomb, hard_links, lines, extended]
)
def test_an_image_that_wants_memory_or_time_gets_little(make: Callable[[], bytes], tmp_path: Path) -> None:
    finding = run([make()], read, tmp_path)
    assert finding is None, finding
