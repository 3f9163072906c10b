"""Sizes of large folders are counted once, and again when the folder is another one."""

import os
import shutil
from pathlib import Path

import pytest

from gb10.core import store_gc
from gb10.core.kept_sizes import FILE, LARGE, KeptSizes
from gb10.core.store import Store
from gb10.core.store_gc import count, entries

KEY = "k" * 64


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A large entry, whose files lie below a folder, and a small one."""
    store = Store(tmp_path)
    fill(store, LARGE)
    store.entry("wheels", KEY).mkdir(parents=True)
    (store.entry("wheels", KEY) / "it").write_text("content", encoding="ascii")
    return store


def fill(store: Store, number: int) -> None:
    folder = store.entry("explain", KEY) / "below"
    folder.mkdir(parents=True)
    for name in range(number):
        (folder / str(name)).write_bytes(b"x" * 5000)
    (folder.parent / "top").write_text("it", encoding="ascii")


class Counts:
    """Counts the folders that are counted."""

    def __init__(self) -> None:
        self.paths: list[str] = []

    def __call__(self, path: Path) -> tuple[int, int, float]:
        self.paths.append(path.parent.name)
        return count(path)


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> Counts:
    found = Counts()
    monkeypatch.setattr(store_gc, "count", found)
    return found


def listed(store: Store) -> dict[str, int]:
    sizes = KeptSizes(store)
    found = entries(store, {}, sizes)
    sizes.save()
    return {entry.section: entry.size for entry in found}


def test_a_large_one_is_counted_once(store: Store, counts: Counts) -> None:
    first = listed(store)
    assert (first, listed(store)) == ({entry.section: entry.size for entry in entries(store, {})}, first)
    assert counts.paths == ["explain", "wheels", "wheels", "explain", "wheels"]


def test_one_that_was_made_anew_is_counted_again(store: Store) -> None:
    before = listed(store)
    shutil.rmtree(store.entry("explain", KEY))
    fill(store, 2 * LARGE)
    assert listed(store)["explain"] > before["explain"]
    shutil.rmtree(store.entry("explain", KEY))
    assert list(listed(store)) == ["wheels"]
    assert (store.root / FILE).read_text(encoding="utf-8") == "{}"


def test_a_use_that_is_noted_counts(store: Store) -> None:
    for path in store.entry("explain", KEY).rglob("*"):
        os.utime(path, (1e9, 1e9))
    listed(store)
    os.utime(store.entry("explain", KEY) / "top", (1.5e9, 1e9))
    (found,) = [entry for entry in entries(store, {}, KeptSizes(store)) if entry.section == "explain"]
    assert found.used == 1.5e9


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "[" * 5000, '{"explain/K": 1}', '{"explain/K": ["a", 1, 2, 3, 4]}', "{}" + " " * (1 << 20)]
)
def test_a_damaged_file_is_made_anew(store: Store, text: str) -> None:
    before = listed(store)
    (store.root / FILE).write_text(text.replace("K", KEY), encoding="utf-8")
    assert listed(store) == before
    assert f"explain/{KEY}" in (store.root / FILE).read_text(encoding="utf-8")


def test_what_goes_is_counted_anew(store: Store, counts: Counts) -> None:
    listed(store)
    counts.paths.clear()
    entries(store, {})
    assert counts.paths == ["explain", "wheels"]


def test_a_full_disk_only_costs_time(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Store, "write_text", full)
    assert listed(store) == listed(store)
