"""Files laid over an image of others: modes and owners stay, bytecode of changed sources goes, links are no way out."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gb10.image.plan.catalog import ROOT
from gb10.inside.install.placed import bytecode_of

PACKAGE = "usr/lib/python3.12/site-packages/one"
EPOCH = 1_700_000_000


@pytest.fixture
def below(tmp_path: Path) -> Path:
    root = tmp_path / "below"
    (root / PACKAGE / "__pycache__").mkdir(parents=True)
    (root / PACKAGE / "a.py").write_text("old", encoding="utf-8")
    (root / PACKAGE / "a.py").chmod(0o750)
    (root / "tmp").mkdir()
    (root / "tmp").chmod(0o1777)
    (root / "lib").symlink_to("usr/lib")
    for name in ("a.cpython-312.pyc", "a.cpython-312.opt-1.pyc", "ab.cpython-312.pyc"):
        (root / PACKAGE / "__pycache__" / name).write_bytes(b"code")
    return root


def placed(tmp_path: Path, below: Path, files: dict[str, str]) -> subprocess.CompletedProcess[str]:
    for name, text in files.items():
        (tmp_path / "files" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "files" / name).write_text(text, encoding="utf-8")
    argv = [sys.executable, str(ROOT / "gb10/inside/install/placed.py"), "--epoch", str(EPOCH)]
    argv += ["--below", str(below), "--files", str(tmp_path / "files"), "--out", str(tmp_path / "out")]
    return subprocess.run(argv, check=False, capture_output=True, text=True)


def listed(root: Path) -> dict[str, int]:
    return {path.relative_to(root).as_posix(): path.lstat().st_mode & 0o7777 for path in root.rglob("*")}


def test_a_file_keeps_its_mode_and_its_stale_bytecode_is_emptied(tmp_path: Path, below: Path) -> None:
    assert placed(tmp_path, below, {f"{PACKAGE}/a.py": "new", "tmp/b": "b"}).returncode == 0
    out, cache = tmp_path / "out", f"{PACKAGE}/__pycache__"
    found = listed(out)
    assert {name: found[name] for name in (f"{PACKAGE}/a.py", "tmp", "tmp/b")} == {
        f"{PACKAGE}/a.py": 0o750,
        "tmp": 0o1777,
        "tmp/b": 0o644,
    }
    names = ("a.cpython-312.opt-1.pyc", "a.cpython-312.pyc")
    assert sorted(path.name for path in (out / cache).iterdir()) == list(names)
    assert [(out / cache / name).read_bytes() for name in names] == [b"", b""]
    assert {path.lstat().st_mtime for path in (out, *out.rglob("*"))} == {EPOCH}


def test_a_new_folder_may_be_entered_and_written_by_its_owner_alone(tmp_path: Path, below: Path) -> None:
    assert placed(tmp_path, below, {f"{PACKAGE}/new/b.py": "b"}).returncode == 0
    found = listed(tmp_path / "out")
    assert (found[f"{PACKAGE}/new"], found[f"{PACKAGE}/new/b.py"]) == (0o755, 0o644)


def test_python_reads_the_source_where_the_bytecode_is_empty(tmp_path: Path) -> None:
    package = tmp_path / "one"
    package.mkdir()
    (package / "a.py").write_text("print('new')", encoding="utf-8")
    tag = sys.implementation.cache_tag
    (package / "__pycache__").mkdir()
    (package / "__pycache__" / f"a.{tag}.pyc").write_bytes(b"")
    ran = subprocess.run(
        [sys.executable, "-B", "-c", "import one.a"], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    assert ran.stdout == "new\n"


def test_a_set_uid_bit_does_not_come_back(tmp_path: Path, below: Path) -> None:
    (below / PACKAGE / "a.py").chmod(0o4755)
    placed(tmp_path, below, {f"{PACKAGE}/a.py": "new"})
    assert listed(tmp_path / "out")[f"{PACKAGE}/a.py"] == 0o755


@pytest.mark.parametrize("name", ["lib/x", "lib/python3.12/x"])
def test_a_link_of_the_image_is_not_followed(tmp_path: Path, below: Path, name: str) -> None:
    ran = placed(tmp_path, below, {name: "x"})
    assert ran.returncode == 1
    assert "/lib is a link in the image" in ran.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_file_keeps_its_owner(tmp_path: Path, below: Path) -> None:
    os.chown(below / PACKAGE / "a.py", 1000, 1000)
    os.chown(below / PACKAGE, 2000, 2000)
    placed(tmp_path, below, {f"{PACKAGE}/a.py": "new", f"{PACKAGE}/b.py": "b"})
    owners = {name: (tmp_path / "out" / PACKAGE / name).stat().st_uid for name in (".", "a.py", "b.py")}
    assert owners == {".": 2000, "a.py": 1000, "b.py": 0}


def test_only_the_source_s_own_bytecode_is_meant(below: Path) -> None:
    names = [path.name for path in bytecode_of(below / PACKAGE / "a.py")]
    assert names == ["a.cpython-312.opt-1.pyc", "a.cpython-312.pyc"]
    assert bytecode_of(below / PACKAGE / "a.txt") == []
