"""What runs in a mod's layer: the environment, the bytecode of changed sources, what changed between two roots."""

import importlib
import importlib.util
import json
import os
import py_compile
import subprocess
import sys
from pathlib import Path
from py_compile import PycInvalidationMode

import pytest

from gb10.image.proof.scans import merge_layers
from gb10.inside.install import mod
from gb10.inside.scan import changed
from gb10.inside.scan.scan import Scan, scan_tree

EPOCH = 1_000_000_000


def site(root: Path) -> Path:
    """A package whose bytecode has a hash of its source, as install.py leaves it."""
    package = root / "site/pkg"
    package.mkdir(parents=True)
    for name in ("one", "two"):
        source = package / f"{name}.py"
        source.write_text("X = 1\n", encoding="utf-8")
        py_compile.compile(str(source), invalidation_mode=PycInvalidationMode.CHECKED_HASH)
    return package


def value(package: Path, name: str) -> str:
    """X of a module, by an interpreter that writes no bytecode."""
    code = f"import sys; sys.path.insert(0, {str(package.parent)!r}); from pkg import {name}; print({name}.X)"
    argv = [sys.executable, "-I", "-B", "-c", code]
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()


def scan_changed(before: Path, after: Path) -> Scan:
    scanner, gone = changed.changes(before, after)
    return scanner.scanned(gone)


@pytest.fixture
def roots(tmp_path: Path) -> tuple[Path, Path, Path]:
    before, root = tmp_path / "before", tmp_path / "root"
    site(before)
    return before, root, site(root)


def cached(package: Path, name: str) -> Path:
    return Path(importlib.util.cache_from_source(str(package / f"{name}.py")))


def test_a_changed_source_has_an_effect_at_once_and_then_bytecode_of_its_own(roots: tuple[Path, Path, Path]) -> None:
    before, root, package = roots
    marker = mod.create_marker(root)
    (package / "one.py").write_text("X = 2\n", encoding="utf-8")
    untouched = cached(package, "two").stat().st_mtime_ns
    stale = cached(package, "one").read_bytes()
    assert value(package, "one") == "2"  # Python compares the hash
    mod.finish(root, before, marker, EPOCH)
    assert (value(package, "one"), value(package, "two")) == ("2", "1")
    assert cached(package, "two").stat().st_mtime_ns == untouched
    assert cached(package, "one").read_bytes()[4:8] == b"\x03\0\0\0"  # hash-based, checked
    assert cached(package, "one").read_bytes() != stale


def test_a_change_is_seen_whatever_its_times_say(roots: tuple[Path, Path, Path]) -> None:
    before, root, package = roots
    marker = mod.create_marker(root)
    (package / "one.py").write_text("X = 3\n", encoding="utf-8")
    os.utime(package / "one.py", (1, 1))
    mod.finish(root, before, marker, EPOCH)
    assert value(package, "one") == "3"


def test_a_source_that_does_not_parse_loses_its_bytecode(roots: tuple[Path, Path, Path]) -> None:
    before, root, package = roots
    marker = mod.create_marker(root)
    (package / "one.py").write_text("X = = 1\n", encoding="utf-8")
    mod.finish(root, before, marker, EPOCH)
    assert not cached(package, "one").exists()


def test_a_source_that_is_a_link_now_is_read_through_it(roots: tuple[Path, Path, Path]) -> None:
    before, root, package = roots
    marker = mod.create_marker(root)
    (root / "mm.py").write_text("X = 6\n", encoding="utf-8")
    (package / "one.py").unlink()
    (package / "one.py").symlink_to(root / "mm.py")
    assert value(package, "one") == "6"
    mod.finish(root, before, marker, EPOCH)
    assert (value(package, "one"), value(package, "two")) == ("6", "1")
    (root / "mm.py").write_text("X = 7\n", encoding="utf-8")  # by a later mod
    assert value(package, "one") == "7"


def test_a_link_to_the_bytes_that_the_source_had_keeps_no_bytecode(roots: tuple[Path, Path, Path]) -> None:
    before, root, package = roots
    marker = mod.create_marker(root)
    (package / "one.py").rename(root / "mm.py")
    (package / "one.py").symlink_to(root / "mm.py")
    mod.finish(root, before, marker, EPOCH)
    assert not cached(package, "one").exists()
    assert value(package, "one") == "1"


def test_a_source_that_is_no_link_any_more_gets_its_bytecode(roots: tuple[Path, Path, Path]) -> None:
    before, root, package = roots
    (root / "mm.py").write_text("X = 8\n", encoding="utf-8")
    (before / "site/pkg/one.py").unlink()
    (before / "site/pkg/one.py").symlink_to(root / "mm.py")
    marker = mod.create_marker(root)
    (package / "one.py").write_text("X = 8\n", encoding="utf-8")
    mod.finish(root, before, marker, EPOCH)
    assert value(package, "one") == "8"


def test_a_link_to_nowhere_leaves_no_module(roots: tuple[Path, Path, Path]) -> None:
    before, root, package = roots
    marker = mod.create_marker(root)
    (package / "one.py").unlink()
    (package / "one.py").symlink_to("nowhere.py")
    mod.finish(root, before, marker, EPOCH)
    assert not cached(package, "one").exists()
    with pytest.raises(subprocess.CalledProcessError):
        value(package, "one")


def test_bytecode_without_its_source_is_no_module(roots: tuple[Path, Path, Path]) -> None:
    """Python takes bytecode from __pycache__ for a source that is there, and for nothing else."""
    before, root, package = roots
    marker = mod.create_marker(root)
    (package / "one.py").unlink()
    mod.finish(root, before, marker, EPOCH)
    assert cached(package, "one").exists()
    with pytest.raises(subprocess.CalledProcessError) as caught:
        value(package, "one")
    assert "cannot import name 'one'" in caught.value.stderr


def test_a_folder_in_the_place_of_a_source_is_what_is_imported(roots: tuple[Path, Path, Path]) -> None:
    before, root, package = roots
    marker = mod.create_marker(root)
    (package / "one.py").unlink()
    (package / "one").mkdir()
    (package / "one/__init__.py").write_text("X = 9\n", encoding="utf-8")
    mod.finish(root, before, marker, EPOCH)
    assert value(package, "one") == "9"


def test_a_source_written_again_as_it_was_keeps_its_bytecode(roots: tuple[Path, Path, Path]) -> None:
    before, root, package = roots
    inode = cached(package, "one").stat().st_ino
    marker = mod.create_marker(root)
    (package / "one.py").write_text("X = 1\n", encoding="utf-8")
    mod.finish(root, before, marker, EPOCH)
    assert cached(package, "one").stat().st_ino == inode


def test_a_new_source_is_compiled_beside_compiled_ones_only(roots: tuple[Path, Path, Path]) -> None:
    before, root, package = roots
    marker = mod.create_marker(root)
    (package / "new.py").write_text("X = 4\n", encoding="utf-8")
    (root / "lone.py").write_text("X = 5\n", encoding="utf-8")
    mod.finish(root, before, marker, EPOCH)
    assert cached(package, "new").exists()
    assert not (root / "__pycache__").exists()


def test_times_say_nothing_and_no_marker_stays(roots: tuple[Path, Path, Path]) -> None:
    before, root, package = roots
    marker = mod.create_marker(root)
    (package / "one.py").write_text("X = 2\n", encoding="utf-8")
    (root / "link").symlink_to("nowhere")
    mod.finish(root, before, marker, EPOCH)
    found = (package / "one.py", cached(package, "one"), cached(package, "one").parent, root / "link", root)
    assert {path.lstat().st_mtime for path in found} == {EPOCH}
    assert (package / "two.py").stat().st_mtime != EPOCH
    assert not list(root.glob(".gb10-*"))


def test_the_environment_is_the_images_and_the_contracts(tmp_path: Path) -> None:
    found = mod.mod_environment({"A": "b", "PYTHONHASHSEED": "0"}, "/w", tmp_path)
    assert (found["A"], found["WORKSPACE_DIR"], found["PYTHONDONTWRITEBYTECODE"]) == ("b", "/w", "1")
    assert "PYTHONHASHSEED" not in found
    assert "SSL_CERT_FILE" not in found


def test_with_a_network_the_hosts_cas_and_index_are_named(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("", encoding="ascii")
    (tmp_path / "index.json").write_text(json.dumps({"PIP_INDEX_URL": "https://i.invalid"}), encoding="ascii")
    found = mod.mod_environment({"SSL_CERT_FILE": "/image/ca"}, "/w", tmp_path)
    names = ("PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")
    assert {found[name] for name in names} == {str(tmp_path / "ca.pem")}
    assert found["PIP_INDEX_URL"] == "https://i.invalid"


def test_only_what_changed_is_scanned_and_what_is_gone_is_said(tmp_path: Path) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    before.mkdir()
    elf = Path(sys.executable).resolve().read_bytes()[:4096]
    for name in ("same", "changed", "gone", "texted"):
        (before / name).write_bytes(elf)
    after.mkdir()
    os.link(before / "same", after / "same")
    (after / "changed").write_bytes(elf + b"x")
    (after / "texted").write_text("no program", encoding="utf-8")
    (after / "new").write_bytes(elf)
    (after / "text").write_text("no program", encoding="utf-8")
    scan = scan_changed(before, after)
    assert [binary.path for binary in scan.binaries] == ["changed", "new"]
    assert scan.gone == ("changed", "gone", "texted")
    assert set(scan.contents) == {"changed", "new", "text", "texted"}


@pytest.mark.parametrize("first", ["of this run", "of another run"])
def test_scans_of_mods_are_right_together_whichever_run_the_first_one_is_of(tmp_path: Path, first: str) -> None:
    """An imported cache may hold the first mod of one run below the last mod of another run."""
    elf = Path(sys.executable).resolve().read_bytes()[:4096]
    roots = {name: tmp_path / name for name in ("base", "of this run", "of another run", "last")}
    below = {"base": ("kept", "removed"), "of this run": ("kept", "a"), "of another run": ("kept", "b", "removed")}
    for name, files in {**below, "last": ("kept", "a", "of the second mod")}.items():
        for file in files:
            roots[name].mkdir(exist_ok=True)
            (roots[name] / file).write_bytes(elf)
    scans = [scan_changed(roots[old], roots[new]) for old, new in (("base", first), (first, "last"))]
    merged = merge_layers("image", [scan_tree(roots["base"]), *scans])
    assert [binary.path for binary in merged.binaries] == sorted(("kept", "a", "of the second mod"))
