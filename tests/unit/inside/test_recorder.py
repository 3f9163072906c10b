"""What the recorder of ``adopt --trust`` finds changed below a root; its bounds are shown by real stages."""

import contextlib
import hashlib
import os
import shutil
import subprocess
import sys
from collections import deque
from pathlib import Path
from typing import Any

import pytest

from gb10.inside.install import recorder as stage
from gb10.inside.install.recorder import LINES, LONGEST, Output, Recorder, crowd
from tests.hang import until

LIMITS = {"paths": 5, "file": 100, "kept": 150, "bytes": 1 << 20}


def recorder(tmp_path: Path) -> tuple[Recorder, Path]:
    """A recorder of a root with two files, and the root."""
    for name in ("before", "base", "root"):
        (tmp_path / name / "site/__pycache__").mkdir(parents=True)
        (tmp_path / name / "site/one.py").write_text("1\n")
        (tmp_path / name / "site/two.py").write_text("2\n")
    root = tmp_path / "root"
    return Recorder(root, tmp_path / "before", tmp_path / "base", LIMITS), root


def by_path(rows: list[dict[str, Any]]) -> dict[str, tuple[str, str]]:
    return {row["path"]: (row["before"]["kind"], row["after"]["kind"]) for row in rows}


def test_each_call_has_what_changed_since_the_last_one(tmp_path: Path) -> None:
    found, root = recorder(tmp_path)
    (root / "site/one.py").write_text("1 and more\n")
    (root / "site/two.py").write_text("2\n")  # the same again
    (root / "site/__pycache__/one.pyc").write_bytes(b"\0")
    (root / "site/link").symlink_to("/etc/passwd")
    rows: list[dict[str, Any]] = found.changes()
    assert by_path(rows) == {"/site/link": ("none", "link"), "/site/one.py": ("file", "file")}
    changed = next(row for row in rows if row["path"] == "/site/one.py")
    assert found.contents[str(changed["after"]["sha256"])] == b"1 and more\n"
    assert found.contents[hashlib.sha256(b"1\n").hexdigest()] == b"1\n"
    (root / "site/one.py").unlink()
    (root / "site/two.py").chmod(0o600)
    os.mkfifo(root / "site/pipe")
    rows = found.changes()
    assert by_path(rows) == {
        "/site/one.py": ("file", "none"),
        "/site/pipe": ("none", "other"),
        "/site/two.py": ("file", "file"),
    }
    assert rows[0]["before"] == changed["after"]
    assert rows[0]["in_base"] is True
    assert found.changes() == []


def test_bounds_of_what_is_kept(tmp_path: Path) -> None:
    found, root = recorder(tmp_path)
    (root / "large").write_bytes(bytes(101))
    assert by_path(found.changes()) == {"/large": ("none", "large")}
    for number in range(2):
        (root / f"{number}").write_bytes(bytes([number]) * 90)
    found.changes()
    assert "of more than 0 MiB together" in found.why
    found, root = recorder(tmp_path / "again")
    for number in range(6):
        (root / f"{number}").touch()
    assert found.changes() == []
    assert found.why == "it changed more than 5 paths"


def test_a_link_in_place_of_a_folder_hides_no_file_of_another_one(tmp_path: Path) -> None:
    """What lay in the folder is gone; the file of that name behind the link is another one. So the other way round."""
    found, root = recorder(tmp_path)
    (root / "other").mkdir()
    (root / "other/one.py").write_text("another\n")
    assert by_path(found.changes()) == {"/other": ("none", "folder"), "/other/one.py": ("none", "file")}
    shutil.rmtree(root / "site")
    (root / "site").symlink_to("other")
    assert by_path(found.changes()) == {
        "/site": ("folder", "link"),
        "/site/one.py": ("file", "none"),
        "/site/two.py": ("file", "none"),
    }
    (root / "site").unlink()
    (root / "site").mkdir()
    (root / "site/one.py").write_text("1\n")
    assert by_path(found.changes()) == {"/site": ("link", "folder"), "/site/one.py": ("none", "file")}


def test_an_attribute_is_a_change(tmp_path: Path) -> None:
    found, root = recorder(tmp_path)
    os.setxattr(root / "site/one.py", "user.mark", b"1")
    rows: list[dict[str, Any]] = found.changes()
    assert by_path(rows) == {"/site/one.py": ("file", "file")}
    assert rows[0]["after"]["attributes"]


def test_what_is_new_is_removed_whatever_its_depth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Paths that are longer than any program can name, below what is new and below what the recorder does not list."""
    monkeypatch.chdir(tmp_path)  # and back: the recorder ends at the root
    found, root = recorder(tmp_path)
    for start in (root, root / "site/__pycache__"):
        with contextlib.chdir(start):
            for _ in range(900):
                Path("d" * 9).mkdir()
                os.chdir("d" * 9)
            Path("file").touch()
    (root / "site/one.py").write_text("changed\n")
    (root / "site/link").symlink_to(tmp_path / "base")
    (tmp_path / "before/lib/inner").mkdir(parents=True)
    (root / "lib").symlink_to(tmp_path / "other")  # a link where the base has a folder
    (tmp_path / "other/inner").mkdir(parents=True)
    (tmp_path / "other/inner/kept").touch()
    found.clear()
    assert sorted(path.relative_to(root).as_posix() for path in root.rglob("*")) == [
        "lib",
        "site",
        "site/__pycache__",
        "site/one.py",
        "site/two.py",
    ]
    assert (tmp_path / "base/site/two.py").exists()
    assert (tmp_path / "other/inner/kept").exists()


def test_threads_count_as_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one real process with five threads: a bound of three is broken, one of fifty is not."""
    program = "import threading; [threading.Thread(target=input, daemon=True).start() for _ in range(4)]; input()"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE) as child:
        monkeypatch.setattr("gb10.inside.install.recorder.processes", lambda: iter([child.pid]))
        until(lambda: len(list(Path(f"/proc/{child.pid}/task").iterdir())) == 5, "the threads")
        limits = {"processes": 3, "memory": 1 << 40}
        assert crowd(limits) == "it started more than 3 processes"
        assert crowd(limits | {"processes": 50}) == ""
        assert crowd(limits | {"processes": 50, "memory": 1 << 20}) == "it took more than 1 MiB of memory"
        child.communicate(b"\n" * 5)


def test_the_end_of_what_commands_print_is_kept_and_the_beginning_is_shown(
    monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.setattr(stage, "SHOWN", 30)
    read, write = os.pipe()
    tail = deque[str](maxlen=LINES)
    output = Output(read, tail)
    assert not output.read(0), "nothing is there"
    text = b"".join(b"line %d\n" % number for number in range(LINES + 5)) + b"\xff" * (LONGEST + 9) + b"\nrest"
    os.write(write, text)
    assert output.read(0) and output.open
    os.write(write, b" of a line")
    os.close(write)
    output.drain()
    assert not output.open and not output.read(0)
    os.close(read)
    numbered = [f"line {number}" for number in range(7, LINES + 5)]
    assert list(tail) == [*numbered, "\ufffd" * LONGEST, "rest of a line"]
    assert capfdbinary.readouterr().err == text[:30]


def test_an_output_whose_last_line_ends_has_no_line_after_it(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    read, write = os.pipe()
    os.write(write, b"whole\n")
    os.close(write)
    output = Output(read, tail := deque[str]())
    output.drain()
    os.close(read)
    assert (list(tail), capfdbinary.readouterr().err) == (["whole"], b"whole\n")
