"""Any commit of an engine, from local repositories: the way from its releases, the nearest wheel, what is grafted."""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from packaging.version import Version

from gb10.core.proc import capture
from gb10.core.store import Store, file_sha256
from gb10.core.store_gc import IN_USE, choose, drop, entries
from gb10.errors import FetchError, UsageError
from gb10.image.context import Context
from gb10.image.locked_files import fetch_locked
from gb10.image.plan.values import Plan
from gb10.image.request.planning import Request, make_plan
from gb10.sources.git.history import history
from tests.integration.commit_index import PLATFORMS, commit_index
from tests.integration.debian_git import put_on_path, unpack_git
from tests.integration.patches.releases import ctx, opened

pytestmark = pytest.mark.integration
Git = Callable[..., str]
RELEASES = [Version(text) for text in ("0.5.16", "0.5.17", "0.5.20")]
CHANGED = "python/sglang/version.py"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack_git(ctx().store, tmp_path_factory.mktemp("git"))


@pytest.fixture(scope="module")
def machine(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Context:
    """The context whose git is Debian's, with a store that this git sees; downloads are those of all tests."""
    path, store = put_on_path(root, tmp_path_factory.mktemp("bin")), Store(root / "store")
    store.root.mkdir()
    for name in ("downloads", "trees"):
        (ctx().store.root / name).mkdir(exist_ok=True)
        (store.root / name).symlink_to(ctx().store.root / name)
    loud = type(ctx().reporter)(ctx().env, verbosity=0)
    return replace(ctx(), env={**ctx().env, "PATH": path, "HOME": "/"}, reporter=loud, store=store)


@pytest.fixture(scope="module")
def git(machine: Context) -> Git:
    def run(folder: Path, *words: str) -> str:
        name = ["-c", "user.name=a", "-c", "user.email=a@b.invalid", "-c", "core.compression=0"]
        return capture(["git", "-C", str(folder), *name, *words], env=machine.env).strip()

    return run


def commit(git: Git, folder: Path, files: dict[str, str], *, tag: str = "") -> str:
    """A commit with these files beside those that are there."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    git(folder, "add", "--force", ".")
    git(folder, "commit", "--quiet", "--allow-empty", "--message", "x")
    if tag:
        git(folder, "tag", tag)
    return git(folder, "rev-parse", "HEAD")


def fresh(git: Git, root: Path, name: str) -> Path:
    folder = root / name
    folder.mkdir()
    git(folder, "init", "--quiet", "--initial-branch=main")
    git(folder, "config", "uploadpack.allowAnySHA1InWant", "true")
    git(folder, "config", "uploadpack.allowFilter", "true")
    return folder


def test_the_way_from_each_tagged_release(root: Path, git: Git, machine: Context) -> None:
    folder = fresh(git, root, "way")
    first = commit(git, folder, {"a": "1"}, tag="v0.5.16")
    commit(git, folder, {"a": "2"})
    git(folder, "checkout", "--quiet", "-b", "release", first)
    commit(git, folder, {"b": "1"})
    commit(git, folder, {"b": "2"}, tag="v0.5.17")
    commit(git, folder, {"b": "3"}, tag="v0.5.99")  # of no index
    git(folder, "tag", "gateway-v0.5.20")
    git(folder, "checkout", "--quiet", "main")
    tip = commit(git, folder, {"a": "3"})
    found = history(machine.store, machine.env, f"file:///{folder.name}", tip, RELEASES)
    assert [(str(one.release), one.ahead, one.behind) for one in found.distances] == [
        ("0.5.16", 2, 0),
        ("0.5.17", 2, 2),
    ]
    assert found.why_none == ""


def test_a_repository_without_tags_and_one_without_a_common_commit(root: Path, git: Git, machine: Context) -> None:
    folder = fresh(git, root, "flat")
    tip = commit(git, folder, {"a": "1"})
    found = history(machine.store, machine.env, f"file:///{folder.name}", tip, RELEASES)
    assert (found.distances, "has no tag of a release" in found.why_none) == ((), True)
    git(folder, "checkout", "--quiet", "--orphan", "other")
    commit(git, folder, {"a": "2"}, tag="v0.5.17")
    found = history(machine.store, machine.env, f"file:///{folder.name}", tip, RELEASES)
    assert (found.distances, found.why_none) == ((), "it shares no commit with a release")
    lost = history(machine.store, machine.env, f"file:///{folder.name}", "a" * 40, RELEASES)
    assert lost.why_none.startswith("git cannot read its history: ")


@pytest.fixture(scope="module")
def fork(root: Path, git: Git) -> Path:
    """SGLang 0.5.17 as its repository has it, and a commit on top that changes one Python file."""
    folder, tree = fresh(git, root, "fork"), opened("sglang", "0.5.17").tree
    names = [name for name in tree.paths() if name.startswith("sglang/") and name.endswith(".py")]
    metadata = next(tree.read(name) or b"" for name in tree.paths() if name.endswith(".dist-info/METADATA"))
    required = [line[15:] for line in metadata.decode().splitlines() if line.startswith("Requires-Dist: ")]
    plain = [line.replace("'", '"') for line in required if "extra ==" not in line]
    project = '[project]\nname = "sglang"\ndependencies = [\n' + "".join(f"  '{line}',\n" for line in plain) + "]\n"
    files = {f"python/{name}": (tree.read(name) or b"").decode() for name in names}
    commit(git, folder, {**files, "python/pyproject.toml": project}, tag="v0.5.17")
    commit(git, folder, {CHANGED: files[CHANGED] + "FORKED = 1\n"})
    return folder


def planned(machine: Context, place: str) -> Plan:
    return make_plan(machine, Request(engine="sglang", arch="12.1f", refs={"sglang": f"git:{place}"}))


@pytest.mark.slow
def test_python_alone_is_a_graft_on_the_nearest_release(
    fork: Path, git: Git, machine: Context, capfd: pytest.CaptureFixture[str]
) -> None:
    """With tags by its history, without them by its requirements: the same release, the same plan."""
    place = f"file:///{fork.name}@{git(fork, 'rev-parse', 'HEAD')}"
    plan = planned(machine, place)
    said = capfd.readouterr().err
    assert plan.recipe.version == "0.5.17"
    assert "is built on the wheel of sglang 0.5.17: 1 commits after its merge base with v0.5.17, 0 only there" in said
    assert "only installed files differ: a graft" in said
    (use,) = [use for use in plan.options.patches if use.taken]
    assert plan.options.patches[0] == use  # before ours, which are for what it leaves
    assert (use.installable, use.taken and use.taken.commit) == (True, place.partition("@")[2])
    assert plan.step("graft-sglang").about.startswith("checkout, ")
    assert len(plan.tags) == 1
    git(fork, "tag", "--delete", "v0.5.17")
    other = commit(git, fork, {CHANGED: (fork / CHANGED).read_text(encoding="utf-8")})
    again = planned(machine, f"file:///{fork.name}@{other}")
    assert "the releases with the same requirements are compared" in capfd.readouterr().err
    assert again.key == plan.key


def test_a_commit_that_does_not_exist_or_requires_nothing(root: Path, git: Git, machine: Context) -> None:
    folder = fresh(git, root, "nothing")
    tip = commit(git, folder, {"README": "nothing"})
    with pytest.raises(FetchError, match=f"cannot take the commit {'a' * 40} from git") as caught:
        planned(machine, f"file:///nothing@{'a' * 40}")
    assert "the repository does not have it" in (caught.value.hint or "")
    with pytest.raises(UsageError, match="says nowhere what it requires"):
        planned(machine, f"file:///nothing@{tip}")
    with pytest.raises(UsageError, match="a commit has 40 digits"):
        planned(machine, "file:///nothing@main")


def recipe_with(folder: Path, template: str) -> str:
    """SGLang's own recipe and lock in a folder, with the index of commits."""
    folder.mkdir()
    for name in ("sglang.yaml", "sglang.lock.json"):
        text = (ctx().catalog.root / "recipes/images" / name).read_text(encoding="utf-8")
        head = f"commit-wheels: {template}\n" if name.endswith(".yaml") else ""
        (folder / name).write_text(head + text, encoding="utf-8")
    return str(folder / "sglang.yaml")


def planned_with(machine: Context, engine: str, place: str) -> Plan:
    return make_plan(machine, Request(engine=engine, arch="12.1f", refs={"sglang": f"git:{place}"}))


@pytest.mark.slow
def test_the_wheel_of_a_commit_is_kept_when_its_index_forgets(
    fork: Path, git: Git, machine: Context, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """SGLang's real wheel of 0.5.17 as that of a commit: nearer than the release, fetched once, never collected."""
    git(fork, "tag", "--force", "v0.5.17", git(fork, "rev-list", "--max-parents=0", "HEAD"))
    of_wheel = commit(git, fork, {CHANGED: (fork / CHANGED).read_text(encoding="utf-8") + "MORE = 1\n"})
    tip = commit(git, fork, {"python/sglang/utils.py": "WHOLE = 1\n", "README.md": "x"})
    version = f"0.5.18.dev2+g{of_wheel[:9]}"
    (tmp_path / "served").mkdir()
    with commit_index(tmp_path / "served") as index:
        index.add("sglang", of_wheel, version, "cp311", opened("sglang", "0.5.17").tree)
        engine = recipe_with(tmp_path / "mine", f"{index.url}/{{commit}}")
        plan = planned_with(machine, engine, f"file:///{fork.name}@{tip}")
        said = capfd.readouterr().err
        assert f"is built on the wheel of sglang {version}: of file:///{fork.name}@{of_wheel[:12]}, 1 commits" in said
        assert "0 compiled and 1 installed files differ" in said
        assert len(index.downloads) == len(PLATFORMS)
        (wheel,) = [wheel for wheel in plan.lock.wheels.image["arm64"] if wheel.name == "sglang"]
        served = next((tmp_path / "served").glob("*/sglang/*aarch64.whl"))
        assert (wheel.version, wheel.filename, wheel.sha256) == (version, served.name, file_sha256(served))
        fetch_locked(machine, plan.step("graft-sglang").files)
        index.forgets = True
        found = entries(machine.store, {})
        gone = choose(found, 0, keep=0, age=0.0, now=time.time() + 2 * IN_USE)
        answers = [entry for entry in gone if entry.section in ("nearest", "resolved")]
        assert {entry.section for entry in answers} == {"nearest", "resolved"}
        assert all(drop(machine.store, entry) for entry in answers)
        assert wheel.sha256 not in {one.key for one in gone}
        again = planned_with(machine, engine, f"file:///{fork.name}@{tip}")
    assert again.key == plan.key
    assert len(index.downloads) == len(PLATFORMS)
    offline = planned_with(machine, engine, f"file:///{fork.name}@{tip}")  # the server is gone, too
    assert offline.key == plan.key
    for one in entries(machine.store, {}):
        if one.lasting:
            machine.store.discard(one.path)


@pytest.mark.slow
def test_an_index_of_commits_that_cannot_be_asked(
    fork: Path, git: Git, machine: Context, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A release is taken, with a line that says why, and the next plan asks again."""
    tip = commit(git, fork, {CHANGED: (fork / CHANGED).read_text(encoding="utf-8") + "OTHER = 1\n"})
    engine = recipe_with(tmp_path / "mine", "http://127.0.0.1:9/{commit}")
    for _ in range(2):
        plan = planned_with(machine, engine, f"file:///{fork.name}@{tip}")
        said = capfd.readouterr().err
        assert plan.recipe.version == "0.5.17"
        assert "wheels of commits are not known: cannot read the package index at 127.0.0.1" in said
