"""Images of others as a hostile author makes them: layers with any paths, links, whiteouts, headers and packings."""

import gzip
import io
import random
import struct
from pathlib import Path
from typing import Final

from gb10.image.base.described import Wanted, describe
from gb10.image.base.file_tree import FileTree
from gb10.image.base.layer_index import packed_index, read_layer, unpacked_index
from gb10.image.base.layer_stream import zstd
from tests.fuzz import mutate
from tests.unit.made_up_bases import REFERENCE, config, elf, package, packed, python

DIST: Final = "usr/local/lib/python3.12/dist-packages"
CHECKOUT: Final = '{"url": "file:///sgl/python", "dir_info": {"editable": true}}'
FIRST: Final = [*python(site="dist-packages"), ("etc/os-release", "../usr/lib/os-release", "l")]
SECOND: Final = [
    *package(DIST, "vllm", "0.34.0.dev12+gabc"),
    *package(DIST, "sglang", "0.5.9", direct_url__json=CHECKOUT),
    (f"{DIST}/__editable___sglang_0_5_9_finder.py", "MAPPING: dict = {'sglang': '/sgl/python/sglang'}\n", "f"),
    (f"{DIST}/__editable__.sglang-0.5.9.pth", "/sgl/python\nimport x\n", "f"),
    ("sgl/python/sglang/__init__.py", "", "f"),
    ("opt/venv/pyvenv.cfg", "home = /usr/bin\nversion = 3.12.1\n", "f"),
    ("opt/venv/bin/python3", "/usr/bin/python3", "l"),
]
PATHS: Final = (
    *(path for path, _, _ in (*FIRST, *SECOND)),
    *("usr", "usr/bin", "opt/venv", ".wh.usr", "usr/.wh..wh..opq", ".wh..wh..opq", "usr/bin/.wh.python3", ".wh.", "."),
    *(f"{DIST}/x.egg-info", f"{DIST}/~x-1.dist-info/METADATA", f"{DIST}/vllm-0.dist-info/METADATA", "usr/bin/python"),
)
TEXTS: Final = (
    *(
        "Name: vllm\nVersion: 1\n\n",
        "Name: \x1b[31m\nVersion: " + "9" * 300,
        "home = /\n",
        "MAPPING = {" + "[" * 900,
        "",
    ),
    *("MAPPING = {'a': " + "(" * 5000 + "}", '{"dir_info": {"editable": true}, "url": "file:///../.."}', "/\n" * 3000),
    *(
        '{"url": 1, "dir_info": {"editable": true}}',
        "version = 3.13\n",
        "#!" + "x" * 900,
        "root:x:0:0::/../..:/bin/sh\n",
    ),
)


def _layer(rng: random.Random, files: list[tuple[str, str | bytes, str]]) -> bytes:
    """A layer with some of its files changed, added, doubled; packed in any way."""
    chosen = [one for one in files if rng.random() < 0.95]
    for _ in range(rng.randrange(6)):
        kind = rng.choice("ffxxdlllhs")
        names = mutate.NAMES if rng.random() < 0.03 else PATHS
        target = (
            rng.choice([path for path, _, of in chosen if of in "fx"] or PATHS) if kind == "h" else rng.choice(names)
        )
        content: str | bytes = target if kind in "lh" else rng.choice((*TEXTS, elf()))
        place = len(chosen) if kind == "h" else rng.randrange(len(chosen) + 1)
        chosen.insert(place, (rng.choice(names), content, kind))
    made = packed(*chosen)
    if rng.random() < 0.07:
        made = mutate.of_bytes(rng, (made,), (b"\xff" * 12, b"\0" * 512, b"x", b"L", b"77777777777\0", b"ustar  \0"))
    packing = rng.randrange(4)
    made = gzip.compress(made, 1) if packing == 1 else zstd.compress(made, 1) if packing == 2 else made
    return mutate.of_bytes(rng, (made,), (b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\0" * 9)) if rng.random() < 0.04 else made


def some_base(rng: random.Random) -> bytes:
    """One to four layers, each behind its length."""
    layers = [_layer(rng, rng.choice((FIRST, SECOND))) for _ in range(rng.randrange(3))]
    layers = [_layer(rng, FIRST), *layers, _layer(rng, SECOND)]
    return b"".join(struct.pack("<I", len(one)) + one for one in layers)


def read_base(data: bytes, _: Path) -> None:
    """Each layer is indexed, kept and read again; then all of them are judged."""
    indexes, stream = [], io.BytesIO(data)
    while head := stream.read(4):
        content = stream.read(struct.unpack("<I", head.ljust(4, b"\0"))[0])
        found = read_layer(iter([content]))
        assert unpacked_index(packed_index(found)) == found
        assert not any(part in ("..", ".", "") for path in found.paths if path != "/" for part in path.split("/"))
        indexes.append(found)
    one = describe(FileTree(indexes), REFERENCE, (), config(Cmd=["vllm"]), Wanted(platform="linux/arm64"))
    assert one.interpreter.startswith("/")
    assert all(found.folder.startswith("/") and found.version.isprintable() for found in one.installed.values())
