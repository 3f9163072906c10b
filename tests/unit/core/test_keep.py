"""What the store lets go of, and what it finds damaged."""

import os
import re
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import chain
from pathlib import Path
from typing import cast

import pytest

from gb10.cli.machine import cache
from gb10.cli.machine.cache import KINDS
from gb10.containers.connection import Engine
from gb10.core.store import Store, file_sha256, is_sealed, seal
from gb10.core.store_gc import (
    ALSO,
    IN_USE,
    KEPT,
    LOOSE,
    SECTIONS,
    Entry,
    check_clock,
    choose,
    damaged,
    disk,
    drop,
    entries,
    last_used,
)
from gb10.errors import UsageError
from gb10.image.plan.catalog import ROOT

DAY = 86_400.0
OTHERS = {
    "base",
    "emulators",
    "engine",
    "engine-packages",
    "load",
    "lock",
    "moe",
    "skopeo",
    "tools",
    "trial",
    "triton",
    "weights",
}
"""Locks under which no entry is made that `cache gc` removes: a new lock belongs here, or in SECTIONS or ALSO."""


def entry(used: float, size: int = 10) -> Entry:
    return Entry(section="wheels", key=f"{used}", path=Path("/nowhere"), size=size, used=used, why="")


@pytest.mark.parametrize(
    ("keep", "age", "gone"),
    [
        (None, 14 * DAY, [1]),
        (25, None, [1]),
        (15, None, [1, 2]),
        (0, None, [1, 2]),
        (100, None, []),
        (15, 99 * DAY, [1, 2]),
    ],
)
def test_the_longest_unused_goes_first_and_what_is_in_use_stays(
    keep: int | None, age: float | None, gone: list[int]
) -> None:
    now = 100 * DAY
    found = (entry(now - 20 * DAY), entry(now - 3 * DAY), entry(now - 60))
    chosen = choose(found, 30, keep=keep, age=age, now=now)
    assert chosen == [found[number - 1] for number in gone]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Two downloads, the second damaged; a sealed wheel; a scan, which has no hash."""
    store, texts = Store(tmp_path / "store"), ("one", "two")
    for text in texts:
        (tmp_path / "file").write_text(text, encoding="ascii")
        folder = store.entry("downloads", file_sha256(tmp_path / "file"))
        folder.mkdir(parents=True)
        (folder / "file").write_text(text if text == "one" else "other", encoding="ascii")
    for section in ("wheels", "scans"):
        store.entry(section, "k").mkdir(parents=True)
        (store.entry(section, "k") / "it").write_text("content", encoding="ascii")
    seal(store.entry("wheels", "k") / "it")
    return store


def states(store: Store) -> dict[str, list[bool | None]]:
    found = entries(store, {})
    return {
        section: sorted((damaged(one) for one in found if one.section == section), key=str)
        for section in ("downloads", "wheels", "scans")
    }


def test_damage_is_found_by_name_and_by_seal(store: Store) -> None:
    assert states(store) == {"downloads": [False, True], "wheels": [False], "scans": [None]}
    (store.entry("wheels", "k") / "it").write_text("Content", encoding="ascii")
    assert states(store)["wheels"] == [True]


def test_what_nothing_needs_goes_before_what_is_older(store: Store) -> None:
    for section, age in (("wheels", 3), ("scans", 2)):
        os.utime(store.entry(section, "k") / "it", (1e9 - age * DAY, 1e9 - age * DAY))
    (store.entry("wheels", "k") / "sha256").unlink()
    order = [one.section for one in entries(store, {("wheels", "k"): "why"}) if one.section != "downloads"]
    assert order == ["scans", "wheels"]
    assert [one.section for one in entries(store, {}) if one.section != "downloads"] == ["wheels", "scans"]


def test_an_entry_goes_whole_unless_another_run_has_its_lock(store: Store) -> None:
    (wheel,) = (one for one in entries(store, {("wheels", "k"): "why"}) if one.section == "wheels")
    assert (wheel.why, wheel.what) == ("why", "it")
    with store.locked("wheel-k"):
        assert not drop(store, wheel)
    assert not drop(store, wheel, lambda _: False)
    assert wheel.path.exists()
    assert drop(store, wheel)
    assert drop(store, wheel)  # gone already: another run was faster
    assert not wheel.path.exists()
    assert not list((store.root / "tmp").iterdir())


def test_the_locks_are_those_that_the_makers_take() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "gb10").rglob("*.py") if path.name != "keep.py")
    taken = set(re.findall(r'(?:locked\(\s*f?|ensure\()"([a-z0-9-]*[a-z0-9])-?(?=["{])', text))
    known = set(SECTIONS.values()) | set(chain.from_iterable(ALSO.values()))
    assert known <= taken
    assert taken - known <= OTHERS


@pytest.mark.parametrize("lock", ["image", "image-scan"])
def test_a_scan_stays_while_a_build_or_verify_makes_scans(store: Store, lock: str) -> None:
    (scan,) = (one for one in entries(store, {}) if one.section == "scans")
    with store.locked(lock):
        assert not drop(store, scan)
    assert drop(store, scan)


def test_a_file_that_was_used_is_noted_and_keeps_its_time_of_change(store: Store) -> None:
    wheel = store.entry("wheels", "k") / "it"
    os.utime(wheel, (1e9, 1e9))
    assert is_sealed(wheel)
    assert wheel.stat().st_mtime == 1e9
    assert wheel.stat().st_atime > 1.7e9


def test_an_empty_entry_and_a_broken_seal(store: Store) -> None:
    store.entry("downloads", "0" * 64).mkdir()
    (store.entry("wheels", "k") / "sha256").write_bytes(b"\xff" * 64)
    assert states(store) == {"downloads": [False, None, True], "wheels": [True], "scans": [None]}


def test_what_a_full_disk_and_old_runs_left_is_listed_and_collected(store: Store) -> None:
    sha256, half, whole = "0" * 64, "a" * 64 + ".0123abcd", "b" * 64 + ".0123abcd"
    left = {
        f"tmp/{sha256}.part": ("tmp", f"download-{sha256}"),
        "rates/1.json": ("rates", "rates"),
        "plans/1.json": ("plans", "plans"),
        "receipts/1": ("receipts", "receipts"),
        "logs/vllm.log": ("logs", "logs"),
        "built/engine-1/key": ("built", "built"),
        "builds/1.json": ("builds", "builds"),
        "locks/image": ("locks", "image"),
        f"environments/{half}/bin/python": ("environments", f"environment-{'a' * 64}"),
    }
    for name in (*left, f"environments/{whole}/complete", "tmp/scratch-1-0000000000000000/file"):
        (store.root / name).parent.mkdir(parents=True, exist_ok=True)
        (store.root / name).write_text("some bytes", encoding="ascii")
        os.utime(store.root / name, (1e9, 1e9))
    (store.root / "environments" / ("b" * 64)).symlink_to(whole)
    found = {entry.section: entry for entry in entries(store, {}) if entry.section in LOOSE}
    assert sorted(found) == sorted(LOOSE)
    for section, lock in left.values():
        entry = found[section]
        assert entry.size > 0
        assert entry.used == 1e9
        with store.locked(lock):
            assert not drop(store, entry)
        assert drop(store, entry)
        assert not entry.path.exists()
    assert (store.root / "environments" / ("b" * 64) / "complete").exists()


def test_a_lock_file_that_was_removed_holds_nobody_off_and_lets_nobody_in_twice(store: Store) -> None:
    path = store.root / "locks" / "image"

    @contextmanager
    def waiting(_: str) -> Iterator[None]:
        """The holder removes the file, and ends; a third run takes the new one before we wake up."""
        path.unlink()
        first.close()
        yield

    first = ExitStack()
    first.enter_context(store.locked("image"))
    with store.locked("image", waiting):
        assert path.exists()
        with store.tried("image") as free:
            assert not free


def test_a_clock_that_jumped_removes_nothing_of_a_running_build(store: Store) -> None:
    now = 100 * DAY
    check_clock(store, [entry(now - 2 * DAY)], now)
    with store.locked("image"):
        check_clock(store, [entry(now - 2 * DAY), entry(now - 60)], now)
        with pytest.raises(UsageError, match="the clock seems wrong"):
            check_clock(store, [entry(now - 2 * DAY)], now)


def test_a_hard_link_counts_once(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x" * 10_000)
    before = disk(tmp_path)
    os.link(tmp_path / "a", tmp_path / "b")
    assert disk(tmp_path) == before >= 10_000


def test_every_room_of_the_store_has_a_name_for_people() -> None:
    assert set(KINDS) == {*SECTIONS, *LOOSE}


def test_what_is_at_a_limit_of_time_or_size() -> None:
    now = 100 * DAY
    at_limit, older, in_use = entry(now - DAY), entry(now - DAY - 1), entry(now - IN_USE + 1)
    assert choose((at_limit, older), 20, keep=None, age=DAY, now=now) == [older]
    assert choose((entry(now - IN_USE), in_use), 20, keep=0, age=0.0, now=now) == [entry(now - IN_USE)]
    assert choose((at_limit, older), 20, keep=20, age=None, now=now) == []
    assert choose((at_limit, older), 20, keep=19, age=None, now=now) == [at_limit]


def test_a_day_without_use_while_a_build_runs_is_a_wrong_clock(store: Store) -> None:
    now = 100 * DAY
    check_clock(store, [entry(now - 9 * DAY)], now)
    with store.locked("image"):
        check_clock(store, [entry(now - DAY), entry(now - 9 * DAY)], now)
        with pytest.raises(UsageError, match="but the entry used last is 2 days old"):
            check_clock(store, [entry(now - 2 * DAY)], now)
        with pytest.raises(UsageError, match="is 100 days old"):
            check_clock(store, [], now)


def test_an_entry_counts_each_file_once_and_its_last_use(store: Store) -> None:
    folder = store.entry("wheels", "two")
    folder.mkdir()
    (folder / "a").write_bytes(os.urandom(100_000))
    os.link(folder / "a", folder / "b")
    os.utime(folder / "a", (5000, 3000))
    found = next(one for one in entries(store, {("wheels", "two"): "mine"}) if one.key == "two")
    assert (found.used, found.why, found.what) == (5000, "mine", "b")
    assert found.size == (folder / "a").stat().st_blocks * 512 == disk(folder)
    assert [one.key for one in entries(store, {("wheels", "two"): "mine"})][-1] == "two"  # what has a reason goes last
    assert last_used(store.root / "none") == 0


def test_a_changed_file_of_a_sealed_entry_is_damaged(store: Store) -> None:
    wheel = next(one for one in entries(store, {}) if one.section == "wheels")
    assert damaged(wheel) is False
    (wheel.path / "it").write_text("other", encoding="ascii")
    assert damaged(wheel) is True


def test_a_download_with_a_note_that_its_index_forgets_is_never_chosen(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for key in ("a" * 64, "b" * 64):
        path = store.entry("downloads", key) / "x.whl"
        path.parent.mkdir(parents=True)
        path.write_bytes(b"x")
    store.entry(KEPT, "a" * 64).mkdir(parents=True)
    found = entries(store, {})
    assert {(one.section, one.key[0]) for one in found if one.lasting} == {("downloads", "a"), (KEPT, "a")}
    later = time.time() + 2 * IN_USE
    assert [one.key for one in choose(found, 1 << 20, keep=0, age=0.0, now=later)] == ["b" * 64]


@pytest.mark.parametrize(
    ("text", "units", "number"),
    [("50GB", {"GB": 10**9}, 50 * 10**9), ("1.5 d", {"d": 86400}, 129_600), ("0d", {"d": 1}, 0), (None, {}, None)],
)
def test_a_limit_is_a_number_and_a_unit(text: str | None, units: dict[str, int], number: int | None) -> None:
    assert cache._number(text, units, "--keep") == number


@pytest.mark.parametrize("text", ["50", "GB", "50 TB", "-1GB", "1,5GB", "1.GB", "50GB ", "1" * 13 + "GB", ""])
def test_what_is_no_limit_is_refused_with_the_units(text: str) -> None:
    with pytest.raises(UsageError, match="--keep needs a number with a unit, not") as caught:
        cache._number(text, {"GB": 1, "MB": 1}, "--keep")
    assert caught.value.hint == "units: GB, MB"


@pytest.mark.parametrize(
    ("keep", "age", "entries", "asked", "freed"),
    [
        (None, None, 0, [], 0),
        (None, 9.0, 0, [(None, 9.0)], 10),
        (100, None, 60, [], 0),
        (99, None, 60, [(39, None)], 10),
        (50, None, 60, [(0, None)], 10),
        (50, 9.0, 60, [(None, 9.0), (0, None)], 20),
        (90, 9.0, 60, [(None, 9.0)], 10),
    ],
)
def test_the_build_cache_gets_what_the_store_leaves_of_the_limit(  # noqa: PLR0917 - a row
    keep: int | None,
    age: float | None,
    entries: int,
    asked: list[tuple[int | None, float | None]],
    freed: int,
    store: Store,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The cache has 40 bytes, and each pruning frees 10."""
    calls: list[tuple[int | None, float | None]] = []

    def prune(_: object, *, keep: int | None, age: float | None) -> int:
        calls.append((keep, age))
        return 10

    monkeypatch.setattr("gb10.containers.buildx.build_cache.prune", prune)
    monkeypatch.setattr("gb10.containers.buildx.build_cache.build_cache", lambda _: 40 - 10 * len(calls))
    monkeypatch.setattr("gb10.image.build.bases.drop_unknown", lambda *_: None)
    assert cache._prune(store, cast("Engine", None), keep, age, entries) == freed
    assert calls == asked
