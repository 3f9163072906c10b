"""The store: entries whole or absent, nothing left behind, an unusable place told at once."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gb10.errors import UsageError
from gb10.host.store import FOREIGN_AGE, Store, open_store, store_root


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
from gb10.host.store import Store
(Store(pathlib.Path(sys.argv[1])).scratch("work") / "half").touch()
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_scratch_of_a_killed_run_is_removed_and_of_a_living_one_kept(store: Store) -> None:
    subprocess.run([sys.executable, "-c", KILLED, str(store.root)], check=False, cwd=Path(__file__).parents[2])
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
