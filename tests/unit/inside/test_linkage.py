"""The dynamic symbols of one ELF, against what readelf prints of it; and the look-up over the files of an image."""

import gzip
import json
import struct
from dataclasses import replace
from pathlib import Path

import pytest

from gb10.inside.scan.elf import DamagedError
from gb10.inside.scan.ld_so import Loader
from gb10.inside.scan.ld_so_cache import read_cache
from gb10.inside.scan.linkage import NAME, Linkage, read_linkage
from gb10.inside.scan.linked import Absent, Elsewhere, Unresolved, link
from gb10.inside.scan.symbol_file import Symbols, merge_layers, read_symbols
from tests.hang import no_hang

MADE = Path(__file__).parents[1] / "data" / "scan"
LIBRARY = (MADE / "libk.so").read_bytes()
AARCH64, X86 = 183, 62
DYNAMIC = 0x4DD8
"""Where the dynamic section of that library is in the file."""
DT_SYMTAB, DT_STRSZ, DT_GNU_HASH, DT_VERSYM, DT_RELASZ, DT_PLTRELSZ = 6, 10, 0x6FFFFEF5, 0x6FFFFFF0, 8, 2


def library(path: str, *offers: str, wants: str = "", later: str = "", **fields: object) -> Linkage:
    """A library of a GB10's machine; each word of ``wants`` must be there when it is loaded."""
    made = Linkage(
        path=path,
        machine=AARCH64,
        soname=path.rpartition("/")[2],
        offers="\n".join(offers),
        at_load="\n".join(wants.split()),
        at_call="\n".join(later.split()),
    )
    return replace(made, **fields)  # type: ignore[arg-type]


def test_what_readelf_prints_of_a_library() -> None:
    found = read_linkage(LIBRARY, "libk.so")
    assert found is not None
    assert (found.soname, found.machine, found.program) == ("libk.so.1", X86, False)
    assert found.needed == ("libstdc++.so.6", "libgcc_s.so.1", "libc.so.6")
    assert (found.search, found.versioned, found.offers) == ("", False, "_Z4copyPKvm")
    assert found.at_load == "__gxx_personality_v0@CXXABI_1.3"  # R_X86_64_64
    calls = found.at_call.splitlines()  # R_X86_64_JUMP_SLOT
    assert len(calls) == 15
    assert {"memcpy@GLIBC_2.14", "_Znwm@GLIBCXX_3.4", "__cudaLaunchKernel", "_Unwind_Resume@GCC_3.0"} <= {*calls}


def tag_at(whole: bytes, tag: int) -> int:
    """Where the value of a tag of the dynamic section stands."""
    rows = range(DYNAMIC, len(whole), 16)
    return next(at + 8 for at in rows if struct.unpack_from("<Q", whole, at) == (tag,))


@pytest.mark.parametrize(
    ("tag", "value"),
    [
        (DT_SYMTAB, 1 << 40),
        (DT_STRSZ, 1),
        (DT_GNU_HASH, 0x5DB8),
        (DT_VERSYM, 1 << 40),
        (DT_RELASZ, 1 << 40),
        (DT_PLTRELSZ, 1 << 40),
    ],
)
def test_a_table_that_leads_out_of_the_file_is_damage(tag: int, value: int) -> None:
    whole = bytearray(LIBRARY)
    struct.pack_into("<Q", whole, tag_at(LIBRARY, tag), value)
    with pytest.raises((DamagedError, struct.error)):
        read_linkage(bytes(whole), "k")


def shared_name(count: int, length: int) -> bytes:
    """A library of ``count`` symbols that share one long name."""
    start = 64 + 2 * 56
    tags = [(5, 0), (DT_SYMTAB, 0), (DT_STRSZ, length + 2), (4, 0), (0, 0)]
    symbols, strings = start + 16 * len(tags) + 16, start + 16 * len(tags) + 16 + 24 * count
    places = {5: strings, DT_SYMTAB: symbols, 4: start + 16 * len(tags)}
    dynamic = b"".join(struct.pack("<QQ", tag, places.get(tag, value)) for tag, value in tags)
    hashes = struct.pack("<IIII", 1, count, 0, 0)
    body = dynamic + hashes + struct.pack("<IBBHQQ", 1, 0x10, 0, 1, 0, 0) * count + b"\0" + b"n" * length + b"\0"
    header = b"\x7fELF\x02\x01\x01" + bytes(9)
    header += struct.pack("<HHIQQQIHHHHHH", 3, AARCH64, 1, 0, 64, 0, 0, 64, 56, 2, 64, 0, 0)
    whole = start + len(body)
    segments = ((1, 0, whole), (2, start, len(dynamic)))
    return header + b"".join(struct.pack("<IIQQQQQQ", k, 4, at, at, at, n, n, 1) for k, at, n in segments) + body


def test_names_cost_no_more_than_a_few_times_the_file() -> None:
    assert read_linkage(shared_name(10, 20), "k") is not None
    with no_hang(), pytest.raises(DamagedError, match="larger than 8 such files"):
        read_linkage(shared_name(200_000, NAME - 10), "k")


C = library("usr/lib/libc.so.6", "puts@GLIBC_2.17", "new@GLIBC_2.41", versioned=True)
PYTHON = library("usr/bin/python3", "PyLong", wants="puts@GLIBC_2.17", needed=("libc.so.6",), soname="", program=True)
SITE = "usr/local/lib/python3.13/dist-packages"


def linked(
    *libraries: Linkage, links: dict[str, str] | None = None
) -> tuple[list[Absent], list[Unresolved], list[Elsewhere]]:
    """Absent libraries, unresolved symbols, those of other libraries."""
    found = link(Symbols(libraries=[C, PYTHON, *libraries], links=links or {}))
    return [*found.absent], [*found.unresolved], [*found.elsewhere]


def test_an_extension_finds_libc_by_default_folders_and_python_in_its_host() -> None:
    extension = library(f"{SITE}/x.so", wants="PyLong puts@GLIBC_2.17", needed=("libc.so.6",))
    assert linked(extension) == ([], [], [])


def test_a_library_of_its_own_origin_through_links() -> None:
    one = library(f"{SITE}/one/x.so", wants="two", needed=("libtwo.so.2",), search="$ORIGIN/../libs:/nowhere")
    two = library(f"{SITE}/real/libtwo.so.2.0", "two", soname="libtwo.so.2")
    links = {f"{SITE}/libs": "real", f"{SITE}/real/libtwo.so.2": "libtwo.so.2.0"}
    assert linked(one, two, links=links) == ([], [], [])
    hidden = library("opt/other/libtwo.so.2.0", "two", soname="other")
    assert linked(one, hidden)[0] == [Absent(path=f"{SITE}/one/x.so", library="libtwo.so.2")]


def test_an_rpath_serves_what_is_needed_and_a_runpath_does_not() -> None:
    deep = library("opt/deep/libdeep.so", "deep", soname="other")
    middle = library("opt/middle/libmiddle.so", wants="deep", needed=("libdeep.so",))
    top = library("opt/top.so", needed=("libmiddle.so",), search="/opt/middle:/opt/deep", inherited=True)
    loader = Loader(Symbols(libraries=[deep, middle, top]))
    loader.by_name.clear()  # nothing was loaded before
    assert loader.scope("/opt/top.so") == (["/opt/top.so", "/opt/middle/libmiddle.so", "/opt/deep/libdeep.so"], [])
    own = Loader(Symbols(libraries=[deep, middle, replace(top, inherited=False)]))
    own.by_name.clear()
    assert own.scope("/opt/top.so")[0] == ["/opt/top.so", "/opt/middle/libmiddle.so"]


def test_the_cache_and_the_images_own_search_path() -> None:
    hidden = library("opt/a/libhidden.so.1", "hidden", soname="")
    wanting = library("opt/x.so", needed=("libhidden.so.1",))
    assert [*link(Symbols(libraries=[C, hidden, wanting])).absent] == []  # as one that was loaded before
    mute = replace(hidden, offers="")
    assert [one.library for one in link(Symbols(libraries=[C, mute, wanting])).absent] == ["libhidden.so.1"]
    cached = Symbols(libraries=[C, mute, wanting], cache={"libhidden.so.1": ("/opt/a/libhidden.so.1",)})
    assert [*link(cached).absent] == []
    assert [*link(Symbols(libraries=[C, mute, wanting]), ["/opt/a"]).absent] == []


def test_what_another_package_loads_before_serves_by_its_name() -> None:
    torch = library(f"{SITE}/torch/lib/libtorch.so", "at", soname="libtorch.so")
    extension = library(f"{SITE}/vllm/_C.abi3.so", wants="at", needed=("libtorch.so",))
    assert linked(torch, extension) == ([], [], [])


def test_an_abi_that_does_not_fit() -> None:
    torch = library(f"{SITE}/torch/lib/libtorch.so", "at", soname="libtorch.so")
    extension = library(f"{SITE}/vllm/_C.abi3.so", wants="at at_old", later="gone", needed=("libtorch.so",))
    path = f"{SITE}/vllm/_C.abi3.so"
    assert linked(torch, extension)[1] == [
        Unresolved(path=path, symbol="at_old", when="load"),
        Unresolved(path=path, symbol="gone", when="call"),
    ]


def test_a_version_that_the_library_does_not_give() -> None:
    newer = library(f"{SITE}/x.so", wants="puts@GLIBC_2.99 new@GLIBC_2.41 puts", needed=("libc.so.6",))
    assert [one.symbol for one in link(Symbols(libraries=[C, newer])).unresolved] == ["puts@GLIBC_2.99"]
    plain = library("usr/lib/libc.so.6", "puts")
    assert [one.symbol for one in link(Symbols(libraries=[plain, newer])).unresolved] == ["new@GLIBC_2.41"]


def test_a_symbol_of_a_library_that_nobody_needs_is_named() -> None:
    other = library("usr/lib/libother.so", "far")
    wanting = library("usr/lib/x.so", wants="far")
    assert linked(other, wanting)[2] == [Elsewhere(path="usr/lib/x.so", by="usr/lib/libother.so", count=1)]


def test_a_version_ties_a_symbol_to_the_library_that_it_was_linked_with() -> None:
    other = library("opt/libc.so.6", "gone@GLIBC_2.99", soname="other", versioned=True)
    wanting = library("usr/lib/x.so", wants="gone@GLIBC_2.99", needed=("libc.so.6",))
    assert [one.symbol for one in linked(other, wanting)[1]] == ["gone@GLIBC_2.99"]


def test_a_program_takes_nothing_of_another_program() -> None:
    program = library("usr/bin/tool", wants="PyLong", soname="", program=True)
    assert [one.by for one in link(Symbols(libraries=[C, PYTHON, program])).elsewhere] == ["usr/bin/python3"]


def test_libraries_for_another_machine_are_left_alone() -> None:
    foreign = library("opt/x86.so", wants="nothing", machine=X86)
    assert linked(foreign) == ([], [], [])


def test_links_in_a_circle_lead_nowhere() -> None:
    loader = Loader(Symbols(libraries=[C], links={"a": "b", "b": "/a"}))
    assert loader.real("/a/x") == ""
    assert loader.real("/usr/bin/../lib/./libc.so.6") == "/usr/lib/libc.so.6"


def test_a_link_may_lead_through_several_folders() -> None:
    loader = Loader(Symbols(libraries=[C], links={"usr/lib/a": "../share/deep/b", "usr/share/deep/b": "/opt/c/d"}))
    assert loader.real("/usr/lib/a/x") == "/opt/c/d/x"


def test_a_later_layer_hides_and_removes(tmp_path: Path) -> None:
    below = Symbols(libraries=[library("a.so", "one"), library("b.so"), library("c.so")], links={"l": "a.so"})
    above = Symbols(libraries=[library("a.so", "two")], links={"c.so": "a.so"}, gone=("b.so",))
    (tmp_path / "above").mkdir()
    above.write(tmp_path / "symbols.json.gz")
    merged = merge_layers([below, read_symbols(tmp_path / "symbols.json.gz")])
    assert [(one.path, one.offers) for one in merged.libraries] == [("a.so", "two")]
    assert merged.links == {"l": "a.so", "c.so": "a.so"}


def test_the_file_of_symbols_is_the_same_each_time(tmp_path: Path) -> None:
    made = Symbols(libraries=[library("b.so"), library("a.so")], links={"y": "1", "x": "2"})
    for name in ("one", "two"):
        made.write(tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    (tmp_path / "other").write_bytes(gzip.compress(json.dumps({"schema": "x"}).encode()))
    with pytest.raises(ValueError, match="is no gb10/symbols/v1 document"):
        read_symbols(tmp_path / "other")


def cache_of(*entries: tuple[str, str], count: int | None = None) -> bytes:
    """What ldconfig would write."""
    table, strings = b"", b""
    start = 48 + 24 * len(entries)
    for name, path in entries:
        key = start + len(strings)
        strings += name.encode() + b"\0"
        table += struct.pack("<iIIIQ", 0xA03, key, start + len(strings), 0, 0)
        strings += path.encode() + b"\0"
    number = len(entries) if count is None else count
    return b"glibc-ld.so.cache1.1" + struct.pack("<II", number, len(strings)) + bytes(20) + table + strings


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (cache_of(("a", "/x/a"), ("b", "/x/b"), ("a", "/y/a")), {"a": ("/x/a", "/y/a"), "b": ("/x/b",)}),
        (b"no cache", {}),
        (cache_of(("a", "/x/a"))[:30], {}),
        (cache_of(("a", "/x/a"), count=1 << 31)[:70], {}),
    ],
)
def test_the_loaders_cache(tmp_path: Path, content: bytes, found: dict[str, tuple[str, ...]]) -> None:
    (tmp_path / "cache").write_bytes(content)
    assert read_cache(tmp_path / "cache") == found


@pytest.mark.parametrize(
    ("tag", "value", "at_once"),
    [(24, 0, True), (30, 8, True), (30, 4, False), (0x6FFFFFFB, 1, True), (0x6FFFFFFB, 2, False)],
    ids=["BIND_NOW", "FLAGS NOW", "FLAGS TEXTREL", "FLAGS_1 NOW", "FLAGS_1 GLOBAL"],
)
def test_a_library_that_is_bound_at_once_wants_all_when_it_is_loaded(tag: int, value: int, at_once: bool) -> None:
    """DT_RELACOUNT, which nothing here reads, becomes the tag: elf.h of glibc has their values."""
    whole = bytearray(LIBRARY)
    at = tag_at(LIBRARY, 0x6FFFFFF9)
    struct.pack_into("<QQ", whole, at - 8, tag, value)
    found = read_linkage(bytes(whole), "libk.so")
    assert found is not None
    assert bool(found.at_call) is not at_once
    assert ("memcpy@GLIBC_2.14" in found.at_load.splitlines()) is at_once


def test_a_library_without_calls_has_none_at_the_call() -> None:
    """The size of the procedure table is nothing: then no symbol waits for its first call."""
    whole = bytearray(LIBRARY)
    struct.pack_into("<Q", whole, tag_at(LIBRARY, DT_PLTRELSZ), 0)
    found = read_linkage(bytes(whole), "libk.so")
    assert found is not None
    assert found.at_call == ""
    assert found.at_load == "__gxx_personality_v0@CXXABI_1.3"
