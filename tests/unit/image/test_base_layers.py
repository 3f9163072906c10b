"""Layers of others: how they are packed, what they lay on each other, and what is refused."""

import gzip
import hashlib
import io
import tarfile
from collections.abc import Iterator

import pytest

from gb10.errors import VerifyError
from gb10.image.base import layer_index, layer_stream
from gb10.image.base.file_tree import File, FileTree
from gb10.image.base.layer_index import packed_index, read_layer, unpacked_index
from gb10.image.base.layer_stream import zstd
from tests.unit.made_up_bases import File as Given
from tests.unit.made_up_bases import base, package, packed, python, read

SITE = "usr/lib/python3.12/site-packages"
PLAIN = packed(*package(SITE, "vllm", "0.33.0"), ("a/link", "/usr", "l"))
ESTARGZ = b"".join(gzip.compress(PLAIN[at : at + 512]) for at in range(0, len(PLAIN), 512))
FRAMES = b"\x50\x2a\x4d\x18\x04\x00\x00\x00skip" + b"".join(
    zstd.compress(PLAIN[at : at + 700]) for at in range(0, len(PLAIN), 700)
)


def pieces(content: bytes, size: int) -> Iterator[bytes]:
    return (content[at : at + size] for at in range(0, len(content), size))


@pytest.mark.parametrize(
    "content",
    [PLAIN, gzip.compress(PLAIN), ESTARGZ, gzip.compress(PLAIN) + bytes(512), zstd.compress(PLAIN), FRAMES],
    ids=["tar", "gzip", "members", "padded", "zstd", "frames"],
)
@pytest.mark.parametrize("size", [1, 7, 1 << 20])
def test_every_packing_in_any_pieces_gives_the_same(content: bytes, size: int) -> None:
    found = read_layer(pieces(content, size))
    assert found.diff_id == f"sha256:{hashlib.sha256(PLAIN).hexdigest()}"
    assert found.digest == f"sha256:{hashlib.sha256(content).hexdigest()}"
    assert (found.size, found.unpacked) == (len(content), len(PLAIN))
    tree = FileTree([found])
    assert tree.fact(f"/{SITE}/vllm-0.33.0.dist-info/METADATA") == "vllm\n0.33.0"
    assert tree.is_folder("/a/link/lib")


@pytest.mark.parametrize("size", [100, 1300])
def test_what_is_cut_or_no_layer_is_refused(size: int) -> None:
    for content in (PLAIN, gzip.compress(PLAIN), zstd.compress(PLAIN)):
        with pytest.raises(VerifyError):
            read_layer(iter([content[: min(size, len(content) - 9)]]))
    for content in (b"BZh91AY" + bytes(600), b"\x1f\x8b" + bytes(600), b"\x28\xb5\x2f\xfd" + bytes(600), b"x" * size):
        with pytest.raises(VerifyError):
            read_layer(iter([content]))


def test_an_index_is_the_same_after_it_was_kept() -> None:
    found = read_layer(iter([PLAIN]))
    assert unpacked_index(packed_index(found)) == found
    assert unpacked_index(packed_index(found)[:-9]) is None
    assert unpacked_index(gzip.compress(b'{"format": 0}')) is None
    assert unpacked_index(gzip.compress(b"[]")) is None


@pytest.mark.parametrize("kind", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_long_names_are_whole_in_every_form(kind: int) -> None:
    out, path = io.BytesIO(), "/".join(["x" * 100] * 9)
    with tarfile.open(fileobj=out, mode="w", format=kind) as tar:
        info = tarfile.TarInfo(path)
        info.type, info.linkname = tarfile.SYMTYPE, "y" * 900
        tar.addfile(info)
    found = read_layer(iter([out.getvalue()]))
    assert (found.paths, found.targets) == ((path,), {0: "y" * 900})


def test_a_link_has_a_path_of_bounded_length() -> None:
    longest = "y" * layer_stream.LONGEST
    assert read(("x", longest, "l")).targets == {0: longest}
    with pytest.raises(VerifyError, match="a link to a path of"):
        read(("x", f"{longest}y", "l"))


def test_metadata_of_any_size_is_read_by_its_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = list[int]()
    whole = layer_stream.LayerStream.read

    def noted(stream: layer_stream.LayerStream, count: int) -> bytes:
        taken.append(count)
        return whole(stream, count)

    monkeypatch.setattr(layer_stream.LayerStream, "read", noted)
    path = f"{SITE}/x-1.dist-info/METADATA"
    found = read((path, b"Name: x\nVersion: 1\n\n" + bytes(3_000_000), "f"))
    assert found.facts == {0: "x\n1"}
    assert max(taken) == layer_index.HEAD
    weights = read((f"{SITE}/weights.pth", bytes(layer_index.ENDINGS[".pth"] + 1), "f"))
    assert weights.facts == {}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/etc/x", "etc/x"),
        ("./etc//x", "etc/x"),
        ("etc/./x", "etc/x"),
        ("../etc/x", None),
        ("etc/../../x", None),
        ("a" * 256, None),
        ("a/" * 2100, None),
    ],
)
def test_a_path_is_inside_or_refused(path: str, expected: str | None) -> None:
    if expected:
        assert read((path, "", "f")).paths == (expected,)
    else:
        with pytest.raises(VerifyError):
            read((path, "", "f"))


def tree(*layers: list[Given]) -> FileTree:
    return FileTree([read(*files) for files in layers])


def test_whiteouts_remove_of_the_layers_below_alone() -> None:
    below: list[Given] = [("a/one", "", "f"), ("a/two/x", "", "f"), ("b/x", "", "f"), ("c", "", "f")]
    above: list[Given] = [
        ("a/one", "", "f"),
        ("a/.wh.two", "", "f"),
        ("b/y", "", "f"),
        ("b/.wh..wh..opq", "", "f"),
        (".wh.c", "", "f"),
        (".wh..wh.plnk", "", "f"),
        (".wh.never", "", "f"),
    ]
    found = tree(below, above)
    assert sorted(path for path, _ in found.walk()) == ["/a", "/a/one", "/b", "/b/y"]
    assert sorted(path for path, _ in tree(below, [(".wh..wh..opq", "", "f")]).walk()) == []


def test_a_link_of_a_layer_below_is_followed_and_a_folder_above_replaces_it() -> None:
    merged: list[Given] = [("lib", "usr/lib", "l"), ("usr/lib/x", "", "f")]
    found = tree(merged, [("lib/y", "", "f"), ("lib/.wh.x", "", "f")])
    assert found.names("/usr/lib") == ("y",)
    replaced = tree(merged, [("lib", "", "d"), ("lib/y", "", "f")])
    assert (replaced.names("/usr/lib"), replaced.names("/lib")) == (("x",), ("y",))
    hidden = tree(merged, [("usr", "", "f")])
    assert hidden.find("/lib/x") is None


def test_links_stay_inside_and_end() -> None:
    found = tree(
        [("a/up", "../../../../etc", "l"), ("etc/x", "", "x"), ("l", "m", "l"), ("m", "l", "l"), ("d", "none", "l")]
    )
    assert found.find("/a/up/x") == File(program=True, fact=None, layer=0, number=1)
    assert found.real("/a/up/x") == "/etc/x"
    assert [found.find(path) for path in ("/l", "/d", "/l/x")] == [None, None, None]
    with pytest.raises(VerifyError, match="loop"):
        tree([("l", "m", "l"), ("m", "l", "l"), ("l/x", "", "f")])


def test_a_file_that_replaces_the_link_to_its_folder_counts_at_once() -> None:
    with pytest.raises(VerifyError, match="a file below a file: 'l'"):
        tree([("l", ".", "l"), ("l/l", "", "f"), ("l/x", "", "f")])


def test_hard_links_are_the_same_file_and_never_a_folder() -> None:
    path = f"{SITE}/x-1.dist-info/METADATA"
    found = tree(
        [("cache/x-1.dist-info/METADATA", "Name: x\nVersion: 1\n", "f"), (path, "cache/x-1.dist-info/METADATA", "h")]
    )
    assert found.fact(f"/{path}") == "x\n1"
    for target in ("none", "usr", "../x"):
        with pytest.raises(VerifyError):
            tree([("usr/x", "", "f"), ("y", target, "h")])


def test_the_last_of_two_files_of_one_path_counts() -> None:
    path = f"{SITE}/x-1.dist-info/METADATA"
    found = tree([(path, "Name: x\nVersion: 1\n", "f"), (path, "Name: x\nVersion: 2\n", "f")])
    assert found.fact(f"/{path}") == "x\n2"
    assert tree([(path, "Name: x\nVersion: 1\n", "f"), (path, "", "s")]).fact(f"/{path}") is None


def header(**changes: bytes) -> bytes:
    """A header with other bytes, and the right checksum."""
    block = bytearray(packed(("x", "", "f"))[:512])
    places = {"size": slice(124, 136), "flag": slice(156, 157), "mode": slice(100, 108)}
    places["path"] = slice(0, 100)
    for name, content in changes.items():
        block[places[name]] = content.ljust(100, b"\0") if name == "path" else content
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


@pytest.mark.parametrize(
    "content",
    [
        header(size=b"\xff" * 12),
        header(size=b"\x80" + b"\xff" * 11),
        header(size=b"zzzzzzzzzzz\0"),
        header(size=b"77777777777\0"),
        header(flag=b"x", size=b"77777777777\0"),
        header(flag=b"L", size=b"00010000000\0"),
        header(flag=b"V"),
        header(flag=b"x", size=b"00000000012\0") + b"99999 a=bc".ljust(512, b"\0"),
        header(flag=b"x", size=b"00000000020\0") + b"16 path=a\0b/../\n".ljust(512, b"\0"),
        header(flag=b"x", size=b"00000000015\0") + b"13 size=-100\n".ljust(512, b"\0"),
        header()[:300],
        header() + bytes(512) + header(),
    ],
)
def test_a_header_that_lies_is_refused(content: bytes) -> None:
    with pytest.raises(VerifyError):
        read_layer(iter([content]))


def test_a_bomb_is_given_up_at_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layer_index, "MOST_UNPACKED", 4 << 20)
    content = packed(("x", bytes(8 << 20), "f"))
    for bomb in (gzip.compress(content), zstd.compress(content)):
        with pytest.raises(VerifyError, match="unpacks to more than"):
            read_layer(iter([bomb]))


def test_files_paths_texts_and_steps_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    many: list[Given] = [(f"d{number}/x", "", "f") for number in range(200)]
    with monkeypatch.context() as patched:
        patched.setattr(layer_index, "MOST_FILES", 100)
        with pytest.raises(VerifyError, match="more than 100 files"):
            read(*many)
    with monkeypatch.context() as patched:
        patched.setattr(layer_index, "MOST_TEXT", 50)
        with pytest.raises(VerifyError, match="metadata"):
            read((f"{SITE}/x.pth", "x" * 60, "f"))
    index = read(*many)
    with monkeypatch.context() as patched:
        patched.setattr("gb10.image.base.file_tree.MOST_FILES", 300)
        with pytest.raises(VerifyError, match="more than 300 files"):
            FileTree([index, index])
    with monkeypatch.context() as patched:
        patched.setattr("gb10.image.base.file_tree.MOST_STEPS", 100)
        with pytest.raises(VerifyError, match="lead too far"):
            FileTree([index])


def rungs() -> list[Given]:
    """A ladder of links: to follow ``/l0`` takes 80,000 steps."""
    return [("d", "", "d"), *((f"l{at}", "./" * 2040 + f"l{at + 1}", "l") for at in range(39)), ("l39", "d", "l")]


def test_each_link_to_a_file_costs_steps_also_in_one_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gb10.image.base.file_tree.MOST_STEPS", 200_000)
    links: list[Given] = [(f"a{number}", "l0/x", "h") for number in range(4)]
    assert tree(rungs(), [("d/x", "", "f"), links[0]]).find("/a0") is not None
    with pytest.raises(VerifyError, match="lead too far"):
        tree(rungs(), [("d/x", "", "f"), *links])


def test_each_line_of_a_pth_file_costs_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gb10.image.base.file_tree.MOST_STEPS", 200_000)
    one: Given = (f"{SITE}/x.pth", "/l0/x\n", "f")
    assert base([*python(), *rungs(), one]).interpreter == "/usr/bin/python3"
    with pytest.raises(VerifyError, match="lead too far"):
        base([*python(), *rungs(), (f"{SITE}/x.pth", "/l0/x\n" * 4, "f")])


HEADERS = {
    "no file": header(path=b"."),
    "AUFS": header(path=b".wh..wh.x"),
    "extended": header(flag=b"x", size=b"00000000010\0") + b"8 a=bcd\n".ljust(512, b"\0"),
}


@pytest.mark.parametrize("block", HEADERS.values(), ids=HEADERS)
def test_headers_of_no_file_are_bounded_in_number(block: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layer_stream, "MOST_HEADERS", 50, raising=False)
    assert read_layer(iter([block * 40])).paths == ()
    with pytest.raises(VerifyError, match="more than 50 headers"):
        read_layer(iter([zstd.compress(block * 60)]))


def test_extended_headers_are_bounded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layer_stream, "MOST_SPECIAL", 1 << 20, raising=False)
    one = header(flag=b"x", size=b"%011o\0" % (1 << 19)) + b"524288 a=".ljust((1 << 19) - 1, b"x") + b"\n"
    assert read_layer(iter([one * 2])).paths == ()
    with pytest.raises(VerifyError, match="1 MiB of extended headers"):
        read_layer(iter([zstd.compress(one * 3)]))


def test_a_small_layer_that_is_a_large_one_can_be_stopped() -> None:
    asked = list[int]()
    content = gzip.compress(packed(("x", bytes(8 << 20), "f")))
    found = read_layer(iter([content]), check=lambda: asked.append(1))
    assert len(asked) >= found.unpacked >> 20

    def stop() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        read_layer(iter([content]), check=stop)


def test_a_record_that_is_not_read_may_be_no_text() -> None:
    record = b"47 SCHILY.xattr.security.capability=\1\0\0\2\0 \0\0\0\0\n"
    assert len(record) == 47
    one = header(flag=b"x", size=b"%011o\0" % len(record)) + record.ljust(512, b"\0") + header(path=b"ping")
    assert read_layer(iter([one])).paths == ("ping",)


def test_records_of_a_header_are_bounded() -> None:
    records = b"8 a=bcd\n" * 4096
    whole = header(flag=b"x", size=b"%011o\0" % len(records)) + records + header(path=b"ping")
    assert read_layer(iter([whole])).paths == ("ping",)
    with pytest.raises(VerifyError, match="more than 4,096 records"):
        read_layer(iter([header(flag=b"x", size=b"%011o\0" % (1 << 16)) + b"8 a=bcd\n" * (1 << 13)]))
