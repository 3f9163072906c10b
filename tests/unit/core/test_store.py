"""The store: entries whole or absent, nothing left behind, an unusable place told at once."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gb10.core import reporter
from gb10.core.config import store_root
from gb10.core.store import FOREIGN_AGE, Store, open_store
from gb10.errors import UsageError
from tests.hang import PATIENCE, until


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store({"GB10_CACHE_DIR": str(tmp_path)})


def left(store: Store) -> list[str]:
    """What lies in the scratch room."""
    return sorted(path.name for path in (store.root / "tmp").iterdir())


def writes(text: str) -> Callable[[Path], None]:
    def make(work: Path) -> None:
        (work / "file").write_text(text, encoding="utf-8")

    return make


def fails(work: Path) -> None:
    (work / "half").touch()
    raise InterruptedError


def test_replacing_an_entry_leaves_only_the_new_one(store: Store) -> None:
    final = store.entry("room", "key")
    for text in ("one", "two"):
        store.replace(final, writes(text))
    assert (final / "file").read_text(encoding="utf-8") == "two"
    assert left(store) == []


def test_a_failed_replacement_keeps_the_old_entry(store: Store) -> None:
    final = store.ensure("room", "key", writes("old"))
    with pytest.raises(InterruptedError):
        store.replace(final, fails)
    assert (final / "file").read_text(encoding="utf-8") == "old"
    assert left(store) == []


def test_a_text_is_replaced_whole(store: Store) -> None:
    path = store.entry("room", "key") / "record.json"
    for text in ("one", "two"):
        store.write_text(path, text)
    assert path.read_text(encoding="utf-8") == "two"
    assert left(store) == []


KILLED = """
import os, pathlib, signal, sys
from gb10.core.store import Store
(Store(pathlib.Path(sys.argv[1])).scratch("work") / "half").touch()
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_scratch_of_a_killed_run_is_removed_and_of_a_living_one_kept(store: Store) -> None:
    subprocess.run([sys.executable, "-c", KILLED, str(store.root)], check=False, cwd=Path(__file__).parents[3])
    (store.root / "tmp" / f"{'0' * 64}.part").touch()
    mine = store.scratch("mine")
    assert len(left(store)) == 3
    open_store({"GB10_CACHE_DIR": str(store.root)})
    assert left(store) == sorted([f"{'0' * 64}.part", mine.name])


@pytest.mark.parametrize(("age", "stays"), [(FOREIGN_AGE - 3600, True), (FOREIGN_AGE + 3600, False)])
def test_scratch_of_another_machine_is_judged_by_its_age(store: Store, age: float, stays: bool) -> None:
    other = store.root / "tmp" / f"work-1-{'0' * 16}"
    other.mkdir()
    written = other.stat().st_mtime - age
    os.utime(other, (written, written))
    store.sweep()
    assert other.exists() is stays


@pytest.mark.parametrize("place", ["/dev/null/store", "/proc/store"])
def test_a_place_that_cannot_be_written_is_a_usage_error(place: str) -> None:
    with pytest.raises(UsageError, match=f"cannot write to the store {place}"):
        open_store({"GB10_CACHE_DIR": place})


@pytest.mark.parametrize(
    ("env", "root"),
    [
        ({"GB10_CACHE_DIR": "/a", "XDG_CACHE_HOME": "/b", "HOME": "/c"}, "/a"),
        ({"XDG_CACHE_HOME": "/b", "HOME": "/c"}, "/b/gb10"),
        ({"HOME": "/c"}, "/c/.cache/gb10"),
    ],
)
def test_where_the_store_lies(env: dict[str, str], root: str) -> None:
    assert store_root(env) == Path(root)


@pytest.mark.parametrize(
    "env",
    [{"HOME": ""}, {"HOME": "x"}, {"GB10_CACHE_DIR": "a"}],
)
def test_a_place_that_cannot_be_used_is_refused(env: dict[str, str]) -> None:
    with pytest.raises(UsageError) as caught:
        store_root(env)
    assert "GB10_CACHE_DIR" in str(caught.value)


HOLD = """\
import sys, time
from pathlib import Path
from gb10.core.store import Store
with Store(Path(sys.argv[1])).locked("image"):
    print("held", flush=True)
    time.sleep(60)
"""


@contextmanager
def another_run(store: Store) -> Iterator[int]:
    """A process that holds the lock of the image; its command line has a password."""
    words = [sys.executable, "-c", HOLD, str(store.root), "--push=https://me:secret@host/x", "--engine", "vllm"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout
        assert child.stdout.readline() == "held\n"
        yield child.pid
        child.kill()


def test_a_wait_for_another_thread_of_this_command_says_so(store: Store) -> None:
    found = list[str]()
    held, end = threading.Event(), threading.Event()

    @contextmanager
    def waiting(holder: str) -> Iterator[None]:
        found.append(holder)
        end.set()
        yield

    def hold() -> None:
        with store.locked("image"):
            held.set()
            end.wait(PATIENCE)

    thread = threading.Thread(target=hold)
    thread.start()
    assert held.wait(PATIENCE)
    with store.locked("image", waiting):
        pass
    thread.join()
    assert found == ["another step of this command"]


def test_a_wait_names_its_holder(tmp_path: Path) -> None:
    store, found = Store(tmp_path), list[str]()

    @contextmanager
    def waiting(holder: str) -> Iterator[None]:
        found.append(holder)
        os.kill(pid, signal.SIGKILL)
        yield

    with another_run(store) as pid, store.locked("image", waiting):
        assert "since" in (tmp_path / "locks" / "image").read_text(encoding="utf-8")
    assert re.match(rf"process {pid}, since \d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d: ", found[0])
    assert "--engine vllm" in found[0]
    assert "secret" not in found[0]
    assert not (tmp_path / "locks" / "image").read_text(encoding="utf-8")


def test_a_quiet_run_reports_only_a_long_wait(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reporter, "LONG_WAIT", 0.3)
    waiting = reporter.Reporter({}, verbosity=reporter.QUIET).waiting_for("image")
    with waiting("process 1"):
        pass
    time.sleep(0.4)
    said = capsys.readouterr().err
    assert said == ""
    told: list[str] = []

    def is_told() -> bool:
        told.append(capsys.readouterr().err)
        return told[-1].endswith("\n")

    with waiting("process 1"):
        until(is_told, "a word of the wait")
    assert "".join(told) == "image: waiting for process 1\n"
    with reporter.Reporter({}).waiting_for("image")("process 2"):
        pass
    assert capsys.readouterr().err == "image: waiting for process 2\n"
