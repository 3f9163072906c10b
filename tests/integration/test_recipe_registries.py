"""Registries of recipes in real git repositories: pinned by commit, moved by an update, hostile trees bounded."""

import hashlib
import os
import shutil
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from gb10.core.host import Host
from gb10.core.proc import capture
from gb10.core.reporter import Reporter
from gb10.core.store import Store
from gb10.errors import EmptySelectionError, FetchError, UsageError
from gb10.models.registries import content
from gb10.models.registries.content import root_of
from gb10.models.registries.origin import Origin, origin_of
from gb10.models.registries.recipe_file import recipe_files
from gb10.models.registries.registry import read_registries
from gb10.models.registries.updating import UpdateOptions, add_registries, remove_registry, update_registries
from gb10.sources.git.archive import Limits
from tests.integration.debian_git import env as env  # noqa: PLC0414 - fixtures, these three
from tests.integration.debian_git import root as root  # noqa: PLC0414
from tests.integration.debian_git import store as store  # noqa: PLC0414
from tests.integration.git_server import git_host

pytestmark = pytest.mark.integration

RECIPE = "model: org/m\ncontainer: vllm/vllm-openai:v0.33.0\ncommand: vllm serve org/m\n"
MANIFEST = "registries:\n- {name: first, recipes: one, mods: mods}\n- {name: second, recipes: two, visible: false}\n"
Git = Callable[..., str]
Commit = Callable[[Mapping[str, str]], str]


@pytest.fixture
def git(root: Path) -> Git:
    def run(*words: str) -> str:
        identity = ("-c", "user.name=a", "-c", "user.email=a@b.invalid")
        argv = ["chroot", str(root), "git", "-C", "/theirs", *identity, *words]
        return capture(argv, env={"PATH": "/usr/sbin:/usr/bin", "HOME": "/"}).strip()

    return run


@pytest.fixture
def commit(root: Path, git: Git) -> Commit:
    """Write files into a fresh repository and commit them: the commit's name. Call again for the next one."""
    shutil.rmtree(root / "theirs", ignore_errors=True)
    (root / "theirs").mkdir()
    git("init", "--quiet", "--initial-branch=main")

    def make(files: Mapping[str, str]) -> str:
        for name, text in files.items():
            path = root / "theirs" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        git("add", "--all")
        git("commit", "--quiet", "--message", "x")
        return git("rev-parse", "HEAD")

    return make


@pytest.fixture
def host(store: Store, env: dict[str, str], tmp_path: Path) -> Host:
    settings = {**env, "XDG_CONFIG_HOME": str(tmp_path / "config")}
    return Host(env=settings, store=store, reporter=Reporter(settings))


def origin(url: str = "file:///theirs") -> Origin:
    return origin_of(url)


def test_a_repository_is_pinned_and_moves_by_an_update(commit: Commit, host: Host) -> None:
    first = commit({"a.yaml": RECIPE})
    (made,), _ = add_registries(host, origin(), UpdateOptions(trust=True))
    assert (made.name, made.pin, made.trusted) == ("theirs", first, True)
    second = commit({"b.yaml": f"{RECIPE}pre_exec: [id]\n"})
    assert list(recipe_files(root_of(host, made), made)) == ["a"]
    (moved,) = update_registries(host, read_registries(host.env), UpdateOptions())
    assert (moved.old, moved.registry.pin, moved.registry.trusted) == (first, second, False)
    assert [(change.kind, change.what) for change in moved.changes] == [("added", "recipe b.yaml")]
    (kept,) = read_registries(host.env)
    assert list(recipe_files(root_of(host, kept), kept)) == ["a", "b"]
    assert [path.name for path in (host.store.root / "registries").iterdir()] == [second]
    remove_registry(host, kept)
    assert not list((host.store.root / "registries").iterdir())


def test_a_commit_that_the_store_lost_is_fetched_again_though_the_branch_moved(
    commit: Commit, git: Git, host: Host
) -> None:
    git("config", "uploadpack.allowAnySHA1InWant", "true")
    first = commit({"a.yaml": RECIPE})
    (made,), _ = add_registries(host, origin(), UpdateOptions())
    commit({"a.yaml": f"{RECIPE}env: {{A: 1}}\n"})
    shutil.rmtree(host.store.root / "registries")
    assert "env" not in (root_of(host, made) / "a.yaml").read_text(encoding="utf-8")
    assert made.pin == first


def test_the_parts_of_a_manifest_move_together(commit: Commit, host: Host) -> None:
    commit({".sparkrun/registry.yaml": MANIFEST, "one/a.yaml": RECIPE, "two/b.yaml": RECIPE, "mods/m/run.sh": "x"})
    made, _ = add_registries(host, origin(), UpdateOptions())
    assert [(one.name, one.visible) for one in made] == [("first", True), ("second", False)]
    assert list(recipe_files(root_of(host, made[0]), made[0])) == ["a"]
    newest = commit({"two/b.yaml": f"{RECIPE}env: {{A: 1}}\n"})
    moved = update_registries(host, made[:1], UpdateOptions())
    assert [(one.registry.name, one.registry.pin, len(one.changes)) for one in moved] == [
        ("first", newest, 0),
        ("second", newest, 1),
    ]
    (whole,), _ = add_registries(host, origin(), UpdateOptions(name="whole"))
    assert sorted(recipe_files(root_of(host, whole), whole)) == ["one/a", "two/b"]


def test_a_branch_and_a_tag_are_followed(commit: Commit, git: Git, host: Host) -> None:
    old = commit({"a.yaml": RECIPE})
    git("tag", "v1")
    git("branch", "old")
    commit({"a.yaml": f"{RECIPE}env: {{A: 1}}\n"})
    for ref in ("v1", "old"):
        (made,), _ = add_registries(host, origin(), UpdateOptions(name=ref, ref=ref))
        assert made.pin == old
    with pytest.raises(FetchError, match="the branch nope"):
        add_registries(host, origin(), UpdateOptions(name="x", ref="nope"))


def loose(tree: Path, kind: bytes, content: bytes) -> str:
    """Write an object that git itself would not make; its name."""
    whole = b"%s %d\0%s" % (kind, len(content), content)
    name = hashlib.sha1(whole).hexdigest()  # noqa: S324 - git's own names
    path = tree / ".git/objects" / name[:2] / name[2:]
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(zlib.compress(whole))
    return name


def test_a_hostile_tree_leaves_only_plain_files_of_recipes(commit: Commit, git: Git, root: Path, host: Host) -> None:
    tree = root / "theirs"
    tree.mkdir(exist_ok=True)
    (tree / "passwd.yaml").symlink_to("/etc/passwd")
    (tree / "mods").symlink_to("/etc")
    commit({"good.yaml": RECIPE, "huge.yaml": "x" * (2 << 20), "fix/run.sh": "x", "notes.txt": "y"})
    blob = bytes.fromhex(git("rev-parse", "HEAD:good.yaml"))
    up = loose(tree, b"tree", b"".join(b"100644 %s\0%s" % (name, blob) for name in (b"../up.yaml", b"good.yaml")))
    git("update-ref", "refs/heads/up", git("commit-tree", "-m", "x", up))
    (made,), taken = add_registries(host, origin(), UpdateOptions())
    assert sorted(taken.content.files) == ["fix/run.sh", "good.yaml"]
    assert taken.content.left_out == 2
    assert not [path for path in root_of(host, made).rglob("*") if path.is_symlink()]
    try:
        _, taken = add_registries(host, origin(), UpdateOptions(name="up", ref="up"))
        assert sorted(taken.content.files) == ["good.yaml"]
    except FetchError as error:
        assert "cannot take the branch up" in str(error)  # a git that refuses such a tree itself
    assert not list(host.store.root.rglob("up.yaml"))


def test_a_repository_without_recipes_and_one_that_is_too_large_are_refused(
    commit: Commit, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit({"README.md": "x"})
    with pytest.raises(EmptySelectionError, match="has no recipe"):
        add_registries(host, origin(), UpdateOptions())
    commit({"a.yaml": RECIPE, "large": os.urandom(1 << 20).hex()})
    monkeypatch.setattr(content, "LIMITS", Limits(pack=1 << 18, hint="check the URL"))
    with pytest.raises(FetchError, match="has more than 0 MiB, packed"):
        add_registries(host, origin(), UpdateOptions())
    monkeypatch.setattr(content, "LIMITS", Limits(files=1, hint="a registry has less"))
    with pytest.raises(FetchError, match="holds more than 1 files"):
        add_registries(host, origin(), UpdateOptions())
    assert read_registries(host.env) == ()
    assert not (host.store.root / "registries").exists()
    assert not list((host.store.root / "tmp").iterdir())


def test_a_host_behind_a_login_is_asked_by_the_users_own_git(commit: Commit, host: Host, root: Path) -> None:
    pin = commit({"a.yaml": RECIPE})
    with git_host(root, "me:secret") as server:
        url = f"http://{server.address.replace('127.0.0.1', 'localhost')}/theirs/.git"
        with pytest.raises(FetchError, match="cannot take the branch HEAD"):
            add_registries(host, origin(url), UpdateOptions())
        helper = {
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "credential.helper",
            "GIT_CONFIG_VALUE_0": "!f() { echo username=me; echo password=secret; }; f",
        }
        allowed = Host(env={**host.env, **helper}, store=host.store, reporter=host.reporter)
        (made,), _ = add_registries(allowed, origin(url), UpdateOptions())
    assert made.pin == pin
    assert not [line for line in server.lines if "password=secret" in line and "git fetch" in line]
    written = (Path(host.env["XDG_CONFIG_HOME"]) / "gb10/registries.json").read_text(encoding="utf-8")
    assert "secret" not in written


def test_a_broken_manifest_stops_and_leaves_nothing(commit: Commit, host: Host) -> None:
    commit({".sparkrun/registry.yaml": "registries: [{name: '../../x', recipes: y}]", "a.yaml": RECIPE})
    with pytest.raises(UsageError, match="cannot be read"):
        add_registries(host, origin(), UpdateOptions())
    assert read_registries(host.env) == ()
    (made,), _ = add_registries(host, origin(), UpdateOptions(name="mine"))
    assert made.name == "mine"
