"""The store of the tests: not the user's, one for each worker, and what is kept between runs is what its name says."""

import hashlib
import os
from pathlib import Path

import pytest

from gb10.core.proc import capture
from gb10.core.store import open_store
from tests.integration import own_store

pytestmark = pytest.mark.integration


@pytest.fixture
def user(tmp_path: Path) -> dict[str, str]:
    """A user's environment, with one good and one spoiled download."""
    env = {"GB10_CACHE_DIR": str(tmp_path / "mine"), "GB10_TEST_STORE": str(tmp_path / "tests")}
    for name, content in ((hashlib.sha256(b"good").hexdigest(), b"good"), ("0" * 64, b"spoiled")):
        folder = tmp_path / "mine/downloads" / name
        folder.mkdir(parents=True)
        (folder / "a.whl").write_bytes(content)
    return env


def test_this_run_has_a_store_of_its_own() -> None:
    store = open_store(os.environ)
    assert store.root.name.startswith(f"run-{os.getpid()}-")
    assert store.root.parent == own_store.base({**os.environ})


def test_good_downloads_are_shared_and_nothing_of_the_users_is_written(user: dict[str, str]) -> None:
    mine = Path(user["GB10_CACHE_DIR"])
    before = sorted(mine.rglob("*"))
    store = own_store.claim(user, "gw0")
    assert [path.read_bytes() for path in store.root.glob("downloads/*/*")] == [b"good"]
    own_store.release(user, store)
    assert sorted(mine.rglob("*")) == before


def test_what_has_a_hash_for_a_name_outlives_the_run_and_all_else_goes(user: dict[str, str]) -> None:
    store = own_store.claim(user, "gw0")
    for name in ("trees/abc/tree.zip", "wheels/def/a.whl", "downloads/" + "1" * 64 + "/spoiled.whl"):
        (store.root / name).parent.mkdir(parents=True)
        (store.root / name).write_text("content")
    own_store.release(user, store)
    assert not store.root.exists()
    later = own_store.claim(user, "gw1")
    found = {path.relative_to(later.root).parts[0] for path in later.root.rglob("*") if path.is_file()}
    assert found == {"downloads", "trees", "CACHEDIR.TAG"}
    assert len(list(later.root.glob("downloads/*"))) == 1
    own_store.release(user, later)


def test_a_folder_of_many_files_is_kept_once_and_read_by_all(user: dict[str, str]) -> None:
    store = own_store.claim(user, "gw0")
    (store.root / "explain/abc/site").mkdir(parents=True)
    (store.root / "explain/abc/site/a.py").write_text("content")
    own_store.release(user, store)
    others = [own_store.claim(user, worker) for worker in ("gw1", "gw2")]
    found = {(other.root / "explain/abc/site/a.py").resolve() for other in others}
    for other in others:
        own_store.release(user, other)
    assert [path.read_text() for path in found] == ["content"]


def test_what_no_run_used_for_a_month_is_no_longer_kept(user: dict[str, str]) -> None:
    now, names = (
        100 * 86_400.0,
        ("trees/written/tree.zip", "trees/read/tree.zip", "cmake/old/bin/cmake", "cmake/.half/a"),
    )
    with own_store.alone(own_store.base(user)) as kept:
        for name, times in zip(names, ((0, now), (now, 0), (0, 0), (0, 0)), strict=True):
            (kept.root / name).parent.mkdir(parents=True)
            (kept.root / name).write_text("content")
            os.utime(kept.root / name, times)
        own_store.prune(kept, now)
    assert {path.name for path in kept.root.glob("*/*")} == {"written", "read"}


def test_what_a_killed_run_left_is_cleared(user: dict[str, str]) -> None:
    left = own_store.base(user) / "run-999999999-gw0"
    for inner in (left / "disk", left / "disk/data"):
        inner.mkdir(parents=True)
        capture(["mount", "-t", "tmpfs", "gb10", str(inner)])
    own_store.release(user, own_store.claim(user, "gw0"))
    assert not left.exists()


def test_a_test_that_spoils_a_download_does_not_spoil_the_users(user: dict[str, str]) -> None:
    store = own_store.claim(user, "gw0")
    own_store.spoil(next(store.root.glob("downloads/*/*")), b"damaged")
    assert [path.read_bytes() for path in Path(user["GB10_CACHE_DIR"]).glob("downloads/[!0]*/*")] == [b"good"]
    own_store.release(user, store)
