"""``--source`` on the real vLLM 0.33.0, as a checkout of Debian's git: what counts, the same key for the same bytes."""

import shutil
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from gb10.core.proc import capture
from gb10.core.store import Store
from gb10.errors import FetchError, PatchError, UsageError
from gb10.image.context import Context
from gb10.image.patches.patched import patched_files
from gb10.image.plan.options import Taken
from gb10.image.plan.plan_record import labels
from gb10.image.plan.values import Plan
from gb10.image.request.checkout_files import ignored, open_worktree
from gb10.image.request.planning import Request, make_plan
from tests.integration.debian_git import put_on_path, unpack_git
from tests.integration.git_server import git_host
from tests.integration.patches.releases import ctx, opened

pytestmark = [pytest.mark.integration, pytest.mark.slow]

WHEEL = "vllm-0.33.0-cp38-abi3-manylinux_2_28_aarch64.whl"
COUNTS = ("vllm/", "csrc/", "cmake/", "CMakeLists.txt", "setup.py", ".gitignore", "docs/README.md")
GATE = "vllm/model_executor/layers/fused_moe/experts/triton_cutlass_moe.py"
Git = Callable[..., str]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack_git(ctx().store, tmp_path_factory.mktemp("git"))


@pytest.fixture(scope="module")
def machine(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Context:
    """The context whose git is Debian's."""
    path = put_on_path(root, tmp_path_factory.mktemp("bin"))
    return replace(ctx(), env={**ctx().env, "PATH": path, "HOME": "/"})


@pytest.fixture(scope="module")
def git(machine: Context) -> Git:
    def run(folder: Path, *words: str) -> str:
        name = ["-c", "user.name=a", "-c", "user.email=a@b.invalid", "-c", "core.compression=0"]
        return capture(["git", "-C", str(folder), *name, *words], env=machine.env)

    return run


@pytest.fixture(scope="module")
def upstream(root: Path, git: Git) -> Path:
    """The release in a repository, under its tag: what counts of it, but what its own build wrote."""
    folder = root / "vllm"
    tree = opened("vllm", "0.33.0").tree
    for name in tree.paths():
        if name.startswith(COUNTS) and name != "vllm/_version.py":
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(tree.read(name) or b"")
    git(folder, "init", "--quiet")
    git(folder, "add", "--force", ".")
    git(folder, "commit", "--quiet", "--message", "release")
    git(folder, "tag", "v0.33.0")
    return folder


@pytest.fixture
def checkout(upstream: Path, git: Git) -> Path:
    git(upstream, "reset", "--quiet", "--hard", "v0.33.0")
    git(upstream, "clean", "--quiet", "-fdx")
    return upstream


def planned(machine: Context, *sources: str, targets: tuple[str, ...] = ("_moe_C_stable_libtorch",)) -> Plan:
    return make_plan(machine, Request(engine="vllm", arch="12.1f", sources=sources, targets=targets))


def edit(checkout: Path) -> dict[str, bytes]:
    """What somebody changed, and left lying about; the files that count, by their new content."""
    changed = {
        "vllm/envs.py": (checkout / "vllm/envs.py").read_bytes() + b"EDITED = 1\n",
        "vllm/model_executor/own.py": b"NEW = 1\n",
        "csrc/topk.cu": b"// edited\n" + (checkout / "csrc/topk.cu").read_bytes(),
    }
    left = {"vllm/_C.abi3.so": b"\0", "docs/README.md": b"mine\n", "build/vllm/old.py": b"", "notes.txt": b"mine\n"}
    for name, content in {**changed, **left}.items():
        (checkout / name).parent.mkdir(parents=True, exist_ok=True)
        (checkout / name).write_bytes(content)
    return changed


def test_a_checkout_of_the_release_plans_nothing_and_says_so(
    machine: Context, checkout: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    loud = replace(machine, reporter=type(machine.reporter)(machine.env, verbosity=0))
    assert planned(loud, f"vllm={checkout}") == planned(machine)
    assert ", v0.33.0) has no changes that affect the build" in capfd.readouterr().err


def test_what_was_edited_is_what_is_grafted_and_compiled(machine: Context, checkout: Path, tmp_path: Path) -> None:
    changed = edit(checkout)
    plan = planned(machine, f"vllm={checkout}")
    uses = [use for use in plan.options.patches_of("vllm") if use.taken]
    assert [(use.name, use.installable, use.compiled) for use in uses] == [
        ("checkout.patch", True, False),
        ("checkout-compiled.patch", False, True),
    ]
    tree = opened("vllm", "0.33.0").tree
    with zipfile.ZipFile(tmp_path / WHEEL, "w") as wheel:
        for name in ("vllm/envs.py", "vllm/__init__.py"):
            wheel.writestr(name, tree.read(name) or b"")
    grafted = patched_files(machine.catalog.patches, tmp_path / WHEEL, uses[:1], machine.reporter.say)
    assert grafted == {name: content for name, content in changed.items() if name.startswith("vllm/")}
    archive = next(file for file in plan.step("vllm").files if file.filename == "vllm-0.33.0.tar.gz")
    path = machine.store.entry("downloads", archive.sha256) / archive.filename
    assert patched_files(machine.catalog.patches, path, uses[1:], machine.reporter.say) == {
        "csrc/topk.cu": changed["csrc/topk.cu"]
    }


def test_the_content_alone_is_in_the_key(machine: Context, checkout: Path, git: Git, tmp_path: Path) -> None:
    edit(checkout)
    first = planned(machine, f"vllm={checkout}")
    git(checkout, "add", ".")
    git(checkout, "commit", "--quiet", "--message", "mine")
    committed = planned(machine, f"vllm={checkout}")
    commit = git(checkout, "rev-parse", "HEAD").strip()
    taken = [use.taken for plan in (first, committed) for use in plan.options.patches if use.taken]
    assert [(one.commit == commit, one.dirty) for one in taken] == [(False, True)] * 2 + [(True, False)] * 2
    git(checkout, "clean", "--quiet", "-fdx")  # a plain folder has no list of what to ignore
    shutil.copytree(checkout, tmp_path / "copy", ignore=shutil.ignore_patterns(".git"))
    copied = planned(machine, f"vllm={tmp_path / 'copy'}")
    assert first.key == committed.key == copied.key != planned(machine).key
    (checkout / "vllm/envs.py").write_bytes(
        (checkout / "vllm/envs.py").read_bytes().replace(b"EDITED = 1", b"EDITED = 2")
    )
    other = planned(machine, f"vllm={checkout}")
    moved = {step.name for step, old in zip(other.steps, first.steps, strict=True) if step.key != old.key}
    assert moved == {"graft-vllm", "image", "proof"}  # what is only installed compiles nothing anew


def test_a_change_of_what_our_series_changes_names_the_checkout(
    machine: Context, checkout: Path, tmp_path: Path
) -> None:
    use = next(use for use in planned(machine).options.patches if use.name.startswith("0001-cutlass-moe"))
    with zipfile.ZipFile(tmp_path / WHEEL, "w") as wheel:
        wheel.write(checkout / GATE, GATE)
    ours = patched_files(machine.catalog.patches, tmp_path / WHEEL, [use], machine.reporter.say)[GATE]
    assert ours is not None
    (checkout / GATE).write_bytes(ours)  # our patch was taken over into the checkout
    uses = [use, *(one for one in planned(machine, f"vllm={checkout}").options.patches_of("vllm") if one.taken)]
    with pytest.raises(PatchError, match=r"changes lines that our patch vllm/0001-.* changes, too") as caught:
        patched_files(machine.catalog.patches, tmp_path / WHEEL, uses, machine.reporter.say)
    assert str(checkout) in str(caught.value)
    assert GATE in str(caught.value.where)


@pytest.fixture
def apart(machine: Context, root: Path) -> Context:
    """The same with a store that Debian's git sees, too; it holds the release."""
    folder = root / "store"
    shutil.rmtree(folder, ignore_errors=True)
    archive = next(file for file in planned(machine).step("vllm").files if file.filename == "vllm-0.33.0.tar.gz")
    for place in ("downloads", "trees"):
        shutil.copytree(machine.store.entry(place, archive.sha256), folder / place / archive.sha256)
    return replace(machine, store=Store(folder))


def test_a_commit_of_a_git_host_is_what_a_checkout_of_it_is(
    machine: Context, apart: Context, checkout: Path, git: Git, root: Path
) -> None:
    (checkout / "vllm/envs.py").write_bytes((checkout / "vllm/envs.py").read_bytes() + b"EDITED = 1\n")
    (checkout / "vllm/link.py").symlink_to("envs.py")
    git(checkout, "add", "vllm")
    git(checkout, "commit", "--quiet", "--message", "mine")
    commit = git(checkout, "rev-parse", "HEAD").strip()
    asked = Request(engine="vllm", arch="12.1f")
    with git_host(root, "me:secret") as host:
        url = f"http://me:secret@{host.address}/vllm/.git"
        named = replace(asked, sources=(f"vllm=git:{url}@{commit}",))
        first = make_plan(apart, named)
        many = len(host.requests)
    (use,) = (use for use in first.options.patches if use.taken)
    assert use.taken == Taken(path=f"http://{host.address}/vllm/.git@{commit[:12]}", commit=commit)
    assert labels(first)["io.github.gb10.source.vllm"] == commit
    assert first.tags == (f"gb10/vllm:0.33.0-cu130-sm121f-{first.key[:12]}",)
    assert make_plan(apart, named) == first  # the host is gone
    assert many > 0
    (checkout / "vllm/link.py").unlink()
    assert make_plan(machine, replace(asked, sources=(f"vllm={checkout}",))).key == first.key
    with pytest.raises(FetchError, match=f"cannot take the commit {'0' * 40} from git"):
        make_plan(apart, replace(asked, sources=(f"vllm=git:{url}@{'0' * 40}",)))


def test_a_commit_that_changes_what_is_compiled_needs_targets(
    machine: Context, apart: Context, checkout: Path, git: Git, root: Path
) -> None:
    edit(checkout)
    git(checkout, "add", "vllm", "csrc")
    git(checkout, "commit", "--quiet", "--message", "mine")
    place = f"vllm=git:file:///vllm@{git(checkout, 'rev-parse', 'HEAD').strip()}"
    with pytest.raises(UsageError, match="changes what vllm compiles, but this build compiles nothing") as caught:
        make_plan(apart, Request(engine="vllm", arch="12.1f", sources=(place,)))
    assert "--targets all" in (caught.value.hint or "")
    targets = ("_moe_C_stable_libtorch",)
    made = make_plan(apart, Request(engine="vllm", arch="12.1f", sources=(place,), targets=targets))
    assert made.key == planned(machine, f"vllm={checkout}", targets=targets).key


def test_submodules_and_what_git_ignores(machine: Context, root: Path, git: Git) -> None:
    folder = root / "small"
    (folder / "3rdparty/cutlass").mkdir(parents=True)
    for name, text in ((".gitignore", "*.log\n"), ("a.py", ""), ("b.log", "")):
        (folder / name).write_text(text, encoding="utf-8")
    git(folder, "init", "--quiet")
    before = open_worktree(folder, machine.env)
    assert (before.commit, before.dirty, before.described) == ("", True, "")
    git(folder, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},3rdparty/cutlass")
    git(folder, "add", ".gitignore")
    git(folder, "commit", "--quiet", "--message", "first")
    tree = open_worktree(folder, machine.env)
    assert (tree.files, tree.modules, tree.dirty) == ((".gitignore", "a.py"), ("3rdparty/cutlass",), True)
    assert ignored(tree, machine.env, ["gone.log", "a.py", "gone.py"]) == {"gone.log"}
    assert ignored(tree, machine.env, ["a.py"]) == frozenset()
