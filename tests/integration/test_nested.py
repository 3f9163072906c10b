"""A commit from git with its submodules: one tar, locked once, made anew to the same bytes; by Debian's git."""

import datetime
import hashlib
import re
import tarfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from gb10.core.fetch import stored
from gb10.core.files import Artifact, Checkout
from gb10.core.proc import capture
from gb10.core.store import Store
from gb10.errors import FetchError, LockStaleError
from gb10.image.lock.lockfile import check_lock, load_recipe
from gb10.image.lock.relock import lock_checkouts
from gb10.image.recipe.image_recipe import Recipe
from gb10.sources.git.archive import fetch_checkout, resolve
from tests.integration.debian_git import env as env  # noqa: PLC0414 - fixtures, these three
from tests.integration.debian_git import root as root  # noqa: PLC0414
from tests.integration.debian_git import store as store  # noqa: PLC0414
from tests.recipes import empty_lock, small_recipe

pytestmark = pytest.mark.integration

DATE = "2026-01-02T03:04:05Z"
WHO = {"PATH": "/usr/sbin:/usr/bin", "HOME": "/", "GIT_COMMITTER_DATE": DATE, "GIT_AUTHOR_DATE": DATE}
NAME = "project-0+g0123456789ab.tar"


def git(root: Path, place: str, *words: str) -> str:
    argv = ["chroot", str(root), "git", "-c", "user.name=a", "-c", "user.email=a@b.invalid", "-C", place, *words]
    return capture(argv, env=WHO).strip()


def commit(root: Path, place: str, files: Mapping[str, str], links: Mapping[str, tuple[str, str]]) -> str:
    """Commit files, and submodules (path: URL and commit) by names with a blank in .gitmodules; the commit."""
    for name, text in files.items():
        (root / place.lstrip("/") / name).parent.mkdir(parents=True, exist_ok=True)
        (root / place.lstrip("/") / name).write_text(text, encoding="utf-8")
    git(root, place, "init", "--quiet")
    for path, (url, found) in links.items():
        git(root, place, "config", "--file", ".gitmodules", f"submodule.my {path}.path", path)
        git(root, place, "config", "--file", ".gitmodules", f"submodule.my {path}.url", url)
        git(root, place, "update-index", "--add", "--cacheinfo", f"160000,{found},{path}")
    git(root, place, "add", "--", *files, *([".gitmodules"] if links else []))
    git(root, place, "commit", "--quiet", "--message", "one")
    return git(root, place, "rev-parse", "HEAD")


@pytest.fixture(scope="module")
def project(root: Path) -> str:
    """A project's commit that is no branch's tip: with a submodule by a relative URL, that has one of its own."""
    deep = commit(root, "/hub/deep.git", {"deep.h": "deep"}, {})
    cutlass = commit(
        root, "/hub/cutlass.git", {"include/cutlass.h": "4", "docs/a": ""}, {"lib/deep": ("../deep.git", deep)}
    )
    links = {
        "third/cutlass": ("../cutlass.git", cutlass),
        "third/gone": ("../gone.git", "3" * 40),
        "third/lost": ("../deep.git", "4" * 40),
        "third/odd": ("ext::sh -c true", deep),
    }
    wanted = commit(root, "/hub/project.git", {"csrc/a.cu": "a", "README.md": ""}, links)
    commit(root, "/hub/project.git", {"csrc/a.cu": "newer"}, {})
    return wanted


@pytest.fixture
def wanted(project: str) -> Checkout:
    return Checkout("file:///hub/project.git", project, submodules=("third/cutlass",))


def names(store: Store, found: Artifact) -> set[str]:
    with tarfile.open(stored(store, found)) as tar:
        return {member.name.partition("/")[2] for member in tar if member.isfile()}


def test_a_commit_and_the_submodules_that_are_named_are_one_tree(
    wanted: Checkout, store: Store, env: dict[str, str]
) -> None:
    alone = resolve(store, env, NAME, replace(wanted, submodules=()))
    assert names(store, alone) == {"csrc/a.cu", "README.md", ".gitmodules"}
    assert alone.checkout
    assert alone.checkout.commit == wanted.pin
    one = {
        "csrc/a.cu",
        "README.md",
        ".gitmodules",
        "third/cutlass/include/cutlass.h",
        "third/cutlass/docs/a",
        "third/cutlass/.gitmodules",
    }
    assert names(store, resolve(store, env, NAME, wanted)) == one
    both = replace(wanted, submodules=("third/cutlass/lib/deep", "third/cutlass"))
    assert names(store, resolve(store, env, NAME, both)) == {*one, "third/cutlass/lib/deep/deep.h"}
    some = replace(wanted, paths=("csrc", "third/cutlass/include"))
    assert names(store, resolve(store, env, NAME, some)) == {"csrc/a.cu", "third/cutlass/include/cutlass.h"}
    assert not list((store.root / "tmp").iterdir())


def test_what_was_locked_is_made_anew_to_the_same_bytes_whatever_the_day_and_the_users_settings(
    wanted: Checkout, store: Store, env: dict[str, str], root: Path
) -> None:
    found = resolve(store, env, NAME, wanted)
    stored(store, found).unlink()
    (root / "home").mkdir(exist_ok=True)
    (root / "home/.gitconfig").write_text("[core]\n autocrlf = true\n[tar]\n umask = 0077\n", encoding="utf-8")
    assert found.checkout
    fetch_checkout(store, env | {"HOME": "/home", "GIT_COMMITTER_DATE": "2001-01-01T00:00:00Z"}, found, found.checkout)
    assert hashlib.sha256(stored(store, found).read_bytes()).hexdigest() == found.sha256
    with tarfile.open(stored(store, found)) as tar:
        assert {member.mtime for member in tar} == {datetime.datetime.fromisoformat(DATE).timestamp()}


def test_other_bytes_than_the_locked_are_refused(wanted: Checkout, store: Store, env: dict[str, str]) -> None:
    found = resolve(store, env, NAME, wanted)
    other = Artifact(NAME, "0" * 64, found.size, found.checkout)
    assert found.checkout
    with pytest.raises(FetchError, match="is not the file that was locked"):
        fetch_checkout(store, env, other, found.checkout)
    assert not stored(store, other).exists()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"url": "https://git.invalid/project.git"}, "cannot take the commit [0-9a-f]{40} from git: project"),
        ({"pin": "5" * 40}, "not our ref 5{40}"),
        ({"submodules": ("csrc",)}, "csrc is no submodule at the commit .*\n.*\n  submodules: third/cutlass, "),
        ({"submodules": ("third/cutlass/lib/deep",)}, "lib/deep is no submodule at"),
        (
            {"submodules": ("third/gone",)},
            r"^error: cannot take the submodule third/gone from git, the commit 3{40}\n"
            r"  file:///hub/gone\.git\n  of file:///hub/project\.git\n"
            "(  .*\n)*.*gone.git' does not appear to be a git repository",
        ),
        (
            {"submodules": ("third/lost",)},
            r"^error: cannot take the submodule third/lost from git, the commit 4{40}\n"
            r"  file:///hub/deep\.git\n(  .*\n)*.*not our ref 4{40}",
        ),
        ({"submodules": ("third/odd",)}, "third/odd has no URL that gb10 reads: ext::sh -c true"),
    ],
)
def test_what_cannot_be_had_is_told(
    wanted: Checkout, store: Store, env: dict[str, str], change: dict[str, str], said: str
) -> None:
    with pytest.raises(FetchError) as caught:
        resolve(store, env, NAME, replace(wanted, **change))  # type: ignore[arg-type]
    assert re.search(said, str(caught.value))
    assert not list((store.root / "tmp").iterdir())


def recipe_of(tmp_path: Path, commit: str, submodules: str = "[third/cutlass]") -> Recipe:
    git = f'git: "file:///hub/project.git", commit: {commit}, submodules: {submodules}'
    (tmp_path / "small.yaml").write_text(small_recipe(f"sources: {{project: {{{git}}}}}\n"), encoding="utf-8")
    return load_recipe(tmp_path / "small.yaml")


def test_a_commit_that_is_locked_is_not_asked_for_again(
    project: str, store: Store, env: dict[str, str], tmp_path: Path
) -> None:
    recipe = recipe_of(tmp_path, project)
    lock = empty_lock(recipe, lock_checkouts(recipe, None, store, env))
    check_lock(recipe, lock, tmp_path / "r.yaml")
    nobody = env | {"PATH": "/nonexistent"}
    assert lock_checkouts(recipe, lock, store, nobody) == lock.sdists
    for other in (recipe_of(tmp_path, "1a" * 20), recipe_of(tmp_path, project, "[]")):
        with pytest.raises(
            LockStaleError, match=r"git sources of the recipe r\.yaml changed since they were locked\n  project"
        ):
            check_lock(other, lock, tmp_path / "r.yaml")
        with pytest.raises(FetchError, match="git is not installed"):
            lock_checkouts(other, lock, store, nobody)
