"""Mods as values: what is read, what is refused before anything is written, for which releases one is."""

import stat
import zipfile
from pathlib import Path

import pytest

from gb10.core.folder_files import LARGEST, ModFile, files_digest, write_files
from gb10.errors import UsageError
from gb10.image.mods.declaration import ModRecord, parse_record, problems_of, remarks_of, require_fit, unfit
from gb10.image.mods.read import find_mod, load_mod, mod_names, read_files
from gb10.image.plan.catalog import ROOT

SCRIPT = b"#!/usr/bin/env bash\ntrue\n"
RECORD = """\
what: Does what a test needs.
why: Because the test asks.
engines: {vllm: ">=0.24,<0.34"}
fixed: {vllm: "0.30.0"}
delete-when: the test is gone
"""


def a_mod(folder: Path, **files: bytes) -> Path:
    folder.mkdir(parents=True)
    for name, content in {"run.sh": SCRIPT, **files}.items():
        (folder / name).write_bytes(content)
    return folder


def a_zip(path: Path, *members: tuple[str, bytes, int]) -> Path:
    path.parent.mkdir(exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for name, content, mode in members:
            info = zipfile.ZipInfo(name)
            info.external_attr = mode << 16
            archive.writestr(info, content)
    return path


def record() -> ModRecord:
    return parse_record(RECORD, "x/mod.yaml")


def test_a_folder_and_a_zip_of_it_are_the_same_mod(tmp_path: Path) -> None:
    folder = a_mod(tmp_path / "one" / "m")
    (folder / ".hidden").write_bytes(b"dot")
    (folder / "empty").mkdir()
    regular = stat.S_IFREG | 0o644
    packed = a_zip(tmp_path / "m.zip", ("run.sh", SCRIPT, regular), (".hidden", b"dot", regular), ("empty/", b"", 0))
    found = [load_mod(folder), load_mod(packed)]
    assert [mod.name for mod in found] == ["m", "m"]
    assert found[0].digest == found[1].digest
    assert set(found[0].files) == {"run.sh", ".hidden", "empty"}


def test_the_one_folder_on_top_of_a_zip_is_the_mod(tmp_path: Path) -> None:
    regular = stat.S_IFREG | 0o644
    packed = a_zip(tmp_path / "m.zip", ("top/run.sh", SCRIPT, regular), ("top/sub/x", b"x", regular))
    assert set(load_mod(packed).files) == {"run.sh", "sub", "sub/x"}
    two = a_zip(tmp_path / "n.zip", ("top/run.sh", SCRIPT, regular), ("run.sh", SCRIPT, regular))
    assert set(load_mod(two).files) == {"run.sh", "top", "top/run.sh"}


def test_what_is_read_is_what_is_written(tmp_path: Path) -> None:
    folder = a_mod(tmp_path / "m")
    (folder / "sub").mkdir()
    (folder / "sub/tool").write_bytes(b"x")
    (folder / "sub/tool").chmod(0o700)
    (folder / "link").symlink_to("sub/tool")
    files = read_files(folder)
    assert read_files(write_files(files, tmp_path / "out")) == files


@pytest.mark.parametrize("change", ["content", "mode", "name", "new"])
def test_every_change_of_a_mod_changes_its_digest(tmp_path: Path, change: str) -> None:
    folder = a_mod(tmp_path / "m", data=b"1")
    before = files_digest(read_files(folder))
    if change == "content":
        (folder / "data").write_bytes(b"2")
    elif change == "mode":
        (folder / "data").chmod(0o755)
    elif change == "name":
        (folder / "data").rename(folder / "data2")
    else:
        (folder / "empty").mkdir()
    assert files_digest(read_files(folder)) != before


@pytest.mark.parametrize("name", ["../evil", "/etc/evil", "a/../../evil", "a\\..\\evil", "C:/evil", "./C:/evil", ""])
def test_a_zip_that_leaves_its_folder_is_refused(tmp_path: Path, name: str) -> None:
    bad = a_zip(tmp_path / "m.zip", ("run.sh", SCRIPT, 0), (name, b"x", 0))
    with pytest.raises(UsageError, match="outside of its folder"):
        load_mod(bad)


def test_a_zip_with_the_folder_itself_in_it_is_the_same_mod(tmp_path: Path) -> None:
    plain = a_zip(tmp_path / "plain/m.zip", ("run.sh", SCRIPT, 0), ("a/b", b"x", 0))
    dotted = a_zip(
        tmp_path / "dotted/m.zip", ("./", b"", 0), ("./run.sh", SCRIPT, 0), ("./a/", b"", 0), ("./a/b", b"x", 0)
    )
    assert load_mod(dotted).digest == load_mod(plain).digest


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize(
    "names", [("a", "a/b"), ("a/b", "a"), ("a", "a/"), ("a/", "a"), ("a", "a"), ("a/b", "a/b/c/d"), ("a", "./a/b")]
)
def test_a_zip_with_two_things_of_one_name_is_refused(tmp_path: Path, names: tuple[str, str]) -> None:
    bad = a_zip(tmp_path / "m.zip", ("run.sh", SCRIPT, 0), *((name, b"", 0) for name in names))
    with pytest.raises(UsageError, match=r"m\.zip holds (a|a/b) twice") as caught:
        load_mod(bad)
    assert "hint:" in str(caught.value)


@pytest.mark.parametrize(
    ("method", "place"), [(zipfile.ZIP_STORED, 36), (zipfile.ZIP_DEFLATED, 36), (zipfile.ZIP_STORED, -74)]
)
def test_a_damaged_zip_is_told(tmp_path: Path, method: int, place: int) -> None:
    with zipfile.ZipFile(tmp_path / "m.zip", "w", method) as archive:
        archive.writestr("run.sh", SCRIPT)
    content = bytearray((tmp_path / "m.zip").read_bytes())
    content[place] ^= 0xFF
    (tmp_path / "m.zip").write_bytes(content)
    with pytest.raises(UsageError, match=r"m\.zip cannot be unpacked"):
        load_mod(tmp_path / "m.zip")


def test_a_zip_bomb_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "m.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("run.sh", SCRIPT)
        archive.writestr("large", b"\0" * (LARGEST + 1))
    with pytest.raises(UsageError, match="too large"):
        load_mod(tmp_path / "m.zip")


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        ({}, "run.sh is missing"),
        ({"a/run.sh": ModFile("file", SCRIPT)}, "a/run.sh is not at the top"),
        ({"run.sh": ModFile("folder")}, "run.sh is a folder"),
        ({"run.sh": ModFile("file", b"#!/bin/bash\r\ntrue\r\n")}, "Windows line ends"),
        ({"run.sh": ModFile("file", SCRIPT), "l": ModFile("link", b"/etc/passwd")}, "leads out of the mod"),
        ({"run.sh": ModFile("file", SCRIPT), "a/l": ModFile("link", b"../../x")}, "leads out of the mod"),
        ({"run.sh": ModFile("file", SCRIPT), "l": ModFile("link", b"."), "l/x": ModFile("file")}, "below a link"),
    ],
)
def test_what_breaks_the_contract(files: dict[str, ModFile], problem: str) -> None:
    assert any(problem in found for found in problems_of("m", files))


@pytest.mark.parametrize("name", ["", "-x", "a b", "a/b", "$(id)", "x" * 65])
def test_a_name_that_is_no_folder_name(name: str) -> None:
    assert "cannot be a folder's name" in problems_of(name, {"run.sh": ModFile("file", SCRIPT)})[0]


def test_the_executable_bit_and_the_first_line_are_not_needed() -> None:
    files = {"run.sh": ModFile("file", b"echo hello\n")}
    assert problems_of("fix-Qwen3.5_x+1", files) == []
    assert "names no interpreter" in remarks_of(files)[0]


@pytest.mark.parametrize(
    ("engine", "version", "reason"),
    [
        ("vllm", "0.24.0", None),
        ("vllm", "0.29.0+gb10.12345678", None),
        ("vllm", "0.29.0rc1", None),
        ("vllm", "0.23.9", "it is for vllm >=0.24,<0.34, the image has vllm 0.23.9"),
        ("vllm", "0.33.0", "already upstream: vllm 0.33.0 does not need it (fixed in vllm 0.30.0)"),
        ("sglang", "0.5.23", "it is for vllm >=0.24,<0.34, not for sglang"),
    ],
)
def test_for_which_releases_a_mod_is(engine: str, version: str, reason: str | None) -> None:
    assert unfit(record(), engine, version) == reason


def test_a_mod_that_is_not_for_the_release_is_exit_2_and_names_the_range() -> None:
    with pytest.raises(UsageError, match=r"the mod x is not for vllm 0\.20\.0") as caught:
        require_fit(record(), "x", "vllm", "0.20.0")
    assert caught.value.code == 2
    assert ">=0.24,<0.34" in str(caught.value)
    with pytest.raises(UsageError, match="not for") as caught:
        require_fit(record(), "x", "vllm", "0.33.0")
    assert "leave out --mod x: nothing was changed" in str(caught.value)


@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        ("engines:", "enginse:", "unknown key 'enginse'; did you mean 'engines'?"),
        ('">=0.24,<0.34"', "newest", "'newest' is not a range of releases"),
        ('"0.30.0"', "soon", "'soon' is not a release"),
        ("delete-when:", "network: maybe\ndelete-when:", "'network' must be true or false"),
    ],
)
def test_a_mistake_in_a_record_is_told_with_its_place(right: str, wrong: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_record(RECORD.replace(right, wrong), "x/mod.yaml")
    assert said in str(caught.value)
    assert "x/mod.yaml:" in str(caught.value)


def test_a_bare_name_is_one_of_the_checkout_and_a_path_is_a_path(tmp_path: Path) -> None:
    a_mod(tmp_path / "mods" / "one")
    assert find_mod(tmp_path / "mods", "one").name == "one"
    assert find_mod(tmp_path / "other", f"{tmp_path}/mods/one").name == "one"
    with pytest.raises(UsageError, match="no mod 'oen'") as caught:
        find_mod(tmp_path / "mods", "oen")
    assert "did you mean 'one'?" in str(caught.value)


@pytest.mark.parametrize("name", mod_names(ROOT / "mods"))
def test_our_own_mods_keep_the_contract_and_say_what_they_are(name: str) -> None:
    mod = find_mod(ROOT / "mods", name)
    assert mod.record
    assert not mod.network
    assert remarks_of(mod.files) == []


def test_a_mod_of_numbers_that_nobody_measured_says_so() -> None:
    mod = find_mod(ROOT / "mods", "moe-configs")
    assert mod.record
    assert mod.record.untuned


@pytest.mark.parametrize(("mod", "source"), [("sglang-0.5.10", "sglang"), ("flashinfer-0.6.7", "flashinfer")])
def test_a_mod_that_brings_our_fixes_has_the_very_diffs(mod: str, source: str) -> None:
    """Copies, since a launcher takes the folder alone. Renew: cp patches/SOURCE/NUMBER-*.patch mods/MOD/."""
    folder = ROOT / "mods" / mod
    diffs = sorted(folder.glob("*.patch"))
    for diff in diffs:
        assert diff.read_bytes() == (ROOT / "patches" / source / diff.name).read_bytes()
    record = load_mod(folder).record
    assert record is not None
    assert record.mends == tuple(f"{source}/{diff.name[:4]}" for diff in diffs)
    assert (folder / "apply.py").read_bytes() == (ROOT / "mods/sglang-0.5.10/apply.py").read_bytes()


def test_a_patch_that_a_mod_mends_has_its_name() -> None:
    with pytest.raises(UsageError, match="mends"):
        parse_record(RECORD + "mends: [sglang-0005]\n", "x/mod.yaml")


def test_mods_that_apply_diffs_do_it_by_the_same_program() -> None:
    """A mod is a whole folder, which is copied alone; so each has the program, and no copy may drift."""
    folders = {diff.parent for diff in (ROOT / "mods").glob("*/*.patch")}
    programs = [folder / "apply.py" for folder in folders]
    assert len(programs) >= 2
    assert len({program.read_bytes() for program in programs}) == 1
