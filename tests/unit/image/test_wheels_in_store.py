"""Wheels in the store: made once, made again when damaged or asked for, and locked only while they are missing."""

from collections.abc import Mapping
from pathlib import Path
from zipfile import ZipFile

import pytest

from gb10.core.fetch import store_paths
from gb10.core.files import Artifact
from gb10.core.host import Host
from gb10.core.reporter import Reporter
from gb10.core.store import Store, seal
from gb10.image.build.wheels import WheelCache, graft_files
from gb10.image.plan.values import Step

STEPS = [Step(name=name, kind="wheel", key=name * 64) for name in "ba"]


@pytest.fixture
def cache(tmp_path: Path) -> WheelCache:
    return WheelCache(Host(env={}, store=Store(tmp_path / "store"), reporter=Reporter({})))


def make(work: Path) -> None:
    wheel = work / "a-1-py3-none-any.whl"
    wheel.write_bytes(b"wheel")
    seal(wheel)


def refuse(_: Path) -> None:
    pytest.fail("it was made again")


def test_a_wheel_is_made_once_and_again_only_when_asked_for(cache: WheelCache) -> None:
    step = STEPS[0]
    assert cache.get(step.key) is None
    first, second = cache.get_or_build(step, make), cache.get_or_build(step, refuse)
    assert (first.hit, second.hit) == (False, True)
    assert first.path == second.path == cache.get(step.key)
    assert not cache.get_or_build(step, make, rebuild=True).hit


def test_a_damaged_wheel_is_told_and_made_again(cache: WheelCache, capfd: pytest.CaptureFixture[str]) -> None:
    path = cache.get_or_build(STEPS[0], make).path
    path.chmod(0o644)
    path.write_bytes(b"other")
    assert cache.get(STEPS[0].key) is None
    assert not cache.get_or_build(STEPS[0], make).hit
    assert "b is damaged in the store: making it again" in capfd.readouterr().err


def test_a_graft_is_the_files_that_upstreams_wheel_lacks_and_its_metadata(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    step = Step(name="graft-a", kind="graft", key="c" * 64, files=(Artifact("a-1-py3-none-any.whl", "1" * 64, 9),))
    common = {"a/same.py": "1", "a-1.dist-info/RECORD": "old", "a-1.dist-info/WHEEL": "Tag: py3-none-any"}
    (upstream,) = store_paths(store, step.files)
    write_wheel(upstream, {**common, "a/changed.py": "1", "a-1.dist-info/METADATA": "Version: 1"})
    own = {
        "a/changed.py": "2",
        "a/new.so": "3",
        "a-1.dist-info/METADATA": "Version: 1+gb10",
        "a-1.dist-info/RECORD": "new",
    }
    write_wheel(store.entry("wheels", step.key) / "a-1+gb10-py3-none-any.whl", {**common, **own})
    changed = {"a/changed.py": b"2", "a/new.so": b"3", "a-1.dist-info/METADATA": b"Version: 1+gb10"}
    assert graft_files(store, step) == changed


def write_wheel(path: Path, files: Mapping[str, str]) -> None:
    path.parent.mkdir(parents=True)
    with ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)


def test_only_what_is_missing_stays_locked(cache: WheelCache) -> None:
    there, missing = STEPS
    cache.get_or_build(there, make)
    store = cache.host.store
    with cache.lock_all(STEPS) as held:
        assert held.found.keys() == {there.name}
        with store.tried(f"wheel-{there.key}") as free, store.tried(f"wheel-{missing.key}") as other:
            assert (free, other) == (True, False)
        assert not held.build(missing, make).hit
    with store.tried(f"wheel-{missing.key}") as free:
        assert free
    with cache.lock_all(STEPS, [there.name]) as held:
        assert held.found.keys() == {missing.name}
