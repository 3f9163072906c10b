"""``lock`` for real on a small recipe: the same twice, kept until let go, and clear when nothing fits."""

import os
from pathlib import Path

import pytest

from gb10.core.store import Store
from gb10.errors import UsageError
from gb10.image.lock.lockfile import lock_path, write_lock
from gb10.image.lock.relock import lock_recipe, locked_wheels
from gb10.image.recipe.locked import Lock
from tests.recipes import small_recipe

pytestmark = [pytest.mark.integration, pytest.mark.slow]

RECIPE = small_recipe(
    "constraints: [markupsafe<3.0.3]\ntools: [markupsafe]\nsources: {idna: {sdist: idna==3.10}}\n",
    requirements="[jinja2==3.1.5]",
)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory, store: Store) -> tuple[Path, Lock]:
    """The recipe's path, with its first lock beside it."""
    path = tmp_path_factory.mktemp("a b") / "small.yaml"
    path.write_text(RECIPE, encoding="utf-8")
    lock = lock_recipe(path, store=store, env=os.environ)
    write_lock(lock_path(path), lock)
    return path, lock


def versions(lock: Lock) -> dict[str, str]:
    return {wheel.name: wheel.version for wheel in locked_wheels(lock)}


def test_a_lock_holds_every_set(locked: tuple[Path, Lock]) -> None:
    lock = locked[1]
    assert versions(lock) == {"jinja2": "3.1.5", "markupsafe": "3.0.2"}
    assert {wheel.filename.rsplit("_", 1)[1] for wheel in lock.wheels.tools["arm64"]} == {"aarch64.whl"}
    assert lock.sdists["idna"].filename == "idna-3.10.tar.gz"
    assert {deb.architecture for deb in lock.debs.image["arm64"]} == {"all", "arm64"}
    assert min(wheel.size for wheel in locked_wheels(lock)) > 0


def test_locked_versions_stay_until_they_are_let_go(locked: tuple[Path, Lock], store: Store) -> None:
    path, lock = locked
    path.write_text(RECIPE.replace("jinja2==3.1.5", "jinja2").replace("constraints: [markupsafe<3.0.3]\n", ""), "utf-8")
    kept = lock_recipe(path, store=store, env=os.environ)
    assert versions(kept) == versions(lock)
    assert kept.debs == lock.debs
    upgraded = lock_recipe(path, store=store, env=os.environ, upgrade=("MarkupSafe",))
    assert upgraded.wheels.tools["arm64"][0].version not in {"3.0.2", ""}
    assert versions(upgraded)["jinja2"] == "3.1.5"
    path.write_text(RECIPE, encoding="utf-8")


def test_the_same_again_is_the_same(locked: tuple[Path, Lock], store: Store) -> None:
    path, lock = locked
    assert lock_recipe(path, store=store, env=os.environ) == lock


def test_settings_of_one_machine_do_not_reach_a_lock(
    locked: tuple[Path, Lock], store: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path, lock = locked
    for name in ("PIP_EXTRA_INDEX_URL", "UV_INDEX", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS", "PIP_FIND_LINKS"):
        monkeypatch.setenv(name, tmp_path.as_uri())
    monkeypatch.setenv("UV_EXCLUDE_NEWER", "2020-01-01")
    assert lock_recipe(path, store=store, env=os.environ) == lock


def test_an_unknown_name_to_upgrade(locked: tuple[Path, Lock], store: Store) -> None:
    with pytest.raises(UsageError, match="the lock has no 'jinja'") as caught:
        lock_recipe(locked[0], store=store, env=os.environ, upgrade=("jinja",))
    assert caught.value.hint == "did you mean 'jinja2'?"


@pytest.mark.parametrize(
    ("right", "wrong", "words"),
    [
        ("jinja2==3.1.5", "jinja2==99", "do not fit together on aarch64-manylinux_2_39"),
        ("idna==3.10", "idna==99", "no source archive idna==99"),
        ("suite: trixie", "suite: potato", "potato"),
    ],
)
def test_what_does_not_fit_is_named(tmp_path: Path, store: Store, right: str, wrong: str, words: str) -> None:
    path = tmp_path / "small.yaml"
    path.write_text(RECIPE.replace(right, wrong), encoding="utf-8")
    with pytest.raises(UsageError, match=words):
        lock_recipe(path, store=store, env=os.environ)
