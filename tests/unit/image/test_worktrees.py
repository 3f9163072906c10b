"""``--source``: what of a checkout counts, when it is refused, and what is in a key and what is not."""

from dataclasses import replace
from pathlib import Path
from typing import cast

import jsonschema
import pytest
from packaging.version import Version

from gb10.errors import PatchError, UsageError
from gb10.image.context import Context
from gb10.image.lock.lockfile import load_lock, load_recipe, lock_path
from gb10.image.patches.diff import parse_diff
from gb10.image.patches.releases import load_releases
from gb10.image.patches.selection import Place
from gb10.image.patches.source_tree import Folder
from gb10.image.patches.write import Difference, compare, diff_text
from gb10.image.plan.catalog import ROOT
from gb10.image.plan.dag import plan_image
from gb10.image.plan.options import PatchUse, Taken
from gb10.image.plan.plan_record import labels, record
from gb10.image.plan.values import Plan
from gb10.image.request.checkout_files import (
    MOST_DIFFERENT,
    Released,
    Worktree,
    change_notes,
    check_checkout_release,
    check_difference,
    open_worktree,
)
from gb10.image.request.checkouts import OwnSource, own_sources, with_checkout_names
from tests.unit.image.test_mods_plan import inputs, plan
from tests.unit.image.test_plan_schema import SCHEMA

LAYOUTS = load_releases(ROOT / "patches").layouts
RECIPE = ROOT / "recipes/images/vllm.yaml"


class Files(dict[str, bytes]):
    """Files as a tree has them."""

    installed = False

    def paths(self) -> tuple[str, ...]:
        return tuple(sorted(self))

    def read(self, path: str) -> bytes | None:
        return self.get(path)


class AsWheel(Files):
    installed = True


RELEASE = Files(
    {
        "vllm/a.py": b"a = 1\n",
        "vllm/_version.py": b"1",
        "csrc/a.py": b"# a\n",
        "PKG-INFO": b"Version: 1\n",
        "tests/test_a.py": b"1\n",
        "setup.py": b"1\n",
    }
)


def found(**changes: bytes | None) -> Difference:
    """The comparison with a checkout that has these changes; ``vllm__a`` is ``vllm/a.py``, None takes a file away."""
    there = {**RELEASE, **{f"{name.replace('__', '/')}.py": text for name, text in changes.items()}}
    tree = Files({name: text for name, text in there.items() if text is not None})
    return compare(LAYOUTS["vllm"], RELEASE, tree, tuple(there))


def test_what_is_equal_is_nothing() -> None:
    same = found()
    assert (same.installed, same.compiled, same.gone, same.unread, same.binary) == ({}, {}, (), (), ())
    assert same.known == 2


def test_what_counts_what_nothing_reads_and_what_is_no_text() -> None:
    made = found(
        vllm__a=b"a = 2\n",
        vllm__new=b"",
        csrc__a=b"",
        tests__test_a=b"2\n",
        setup=b"2\n",
        notes=b"mine",
        vllm__data=b"\0",
    )
    assert [*made.installed] == ["vllm/a.py", "vllm/new.py"]
    assert [*made.compiled] == ["csrc/a.py"]
    assert made.unread == ("notes.py", "setup.py", "tests/test_a.py")
    assert made.binary == ("vllm/data.py",)
    assert made.differ == ("csrc/a.py", "vllm/a.py")


def test_a_missing_file_is_gone_unless_the_release_wrote_it_itself() -> None:
    tree = Files({"PKG-INFO": b"Version: 1\n"})
    assert compare(LAYOUTS["vllm"], RELEASE, tree, ("vllm/a.py", "PKG-INFO")).gone == ("csrc/a.py", "vllm/a.py")


def test_folders_of_another_source_are_compared_by_its_name_alone() -> None:
    release = Files({"3rdparty/cutlass/include/a.h": b"1", "3rdparty/cutlass/include/b.h": b"1", "include/a.cuh": b"1"})
    tree = Files({"3rdparty/cutlass/include/a.h": b"2", "include/a.cuh": b"1"})
    made = compare(LAYOUTS["flashinfer"], release, tree, tree.paths(), bundled=("3rdparty/cutlass",))
    assert (made.elsewhere, made.gone, made.known) == (("3rdparty/cutlass/include/a.h",), (), 1)


def test_a_repository_is_held_against_the_wheel_that_is_its_release() -> None:
    wheel = AsWheel({"sglang/a.py": b"1\n", "sglang/_rust.so": b"\0", "sglang-1.dist-info/RECORD": b""})
    tree = Files({"python/sglang/a.py": b"2\n", "sgl-kernel/a.cu": b"", "python/pyproject.toml": b""})
    made = compare(LAYOUTS["sglang"], wheel, tree, tree.paths())
    assert made.installed == {"sglang/a.py": (b"1\n", b"2\n")}
    assert (made.outside, made.gone) == (("python/pyproject.toml", "sgl-kernel/a.cu"), ())


def test_the_diff_is_one_that_is_read_again() -> None:
    changed = found(vllm__a=b"a = 2\n", vllm__new=b"").installed
    assert [(diff.path, diff.kind) for diff in parse_diff(diff_text(changed), "x")] == [
        ("vllm/a.py", "change"),
        ("vllm/new.py", "add"),
    ]


def released(tree: Files = RELEASE) -> Released:
    return Released(source="vllm", place=Place(project="vllm", version=Version("0.33.0")), tree=tree, bundled={})


def checkout(root: Path, **more: object) -> Worktree:
    return replace(Worktree(root=root, files=("PKG-INFO", "version.txt")), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("files", "described", "said"),
    [
        ({"PKG-INFO": "Metadata-Version: 2.4\nVersion: 0.32.0\n"}, "", "its version is 0.32.0"),
        ({"version.txt": "0.33.1\n"}, "", "its version is 0.33.1"),
        ({}, "v0.32.0-17-gabc1234", "its version is 0.32.0\nit is at commit cccccccccccc, v0.32.0-17-gabc1234"),
        ({"PKG-INFO": "Version: 0.33.0\n"}, "v0.33.0-17-gabc1234", None),
        ({}, "1234567", None),
        ({}, "our-own-3-gabc1234", None),
        ({}, "v0.33.0-mine", None),
    ],
)
def test_a_checkout_that_names_another_release(
    tmp_path: Path, files: dict[str, str], described: str, said: str | None
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    tree = checkout(tmp_path, git=bool(described), commit="c" * 40 if described else "", described=described)
    if said is None:
        check_checkout_release(released(), tree, Folder(tmp_path))
        return
    with pytest.raises(UsageError, match=r"is not a checkout of vllm 0\.33\.0, the locked release") as caught:
        check_checkout_release(released(), tree, Folder(tmp_path))
    assert caught.value.where == said


def refused(difference: Difference, error: type[Exception], recipe: Path = RECIPE) -> str:
    with pytest.raises(error) as caught:
        check_difference(load_recipe(recipe), released(), checkout(Path("/x")), difference, ("vllm",))
    return str(caught.value)


def test_too_much_that_differs_is_another_release() -> None:
    many = {f"vllm/{number}.py": b"1" for number in range(MOST_DIFFERENT + 1)}
    assert "301 of 301 files differ or are missing: vllm/0.py, vllm/1.py, vllm/10.py, …" in refused(
        compare(LAYOUTS["vllm"], Files(many), Files(dict.fromkeys(many, b"2")), tuple(many)), UsageError
    )
    some = dict.fromkeys([*many][1:], b"2")
    near = compare(LAYOUTS["vllm"], Files(many), Files({**many, **some}), tuple(many))
    check_difference(load_recipe(RECIPE), released(), checkout(Path("/x")), near, ("vllm",))


def test_what_no_diff_holds_and_what_nothing_compiles() -> None:
    assert "lacks files of vllm 0.33.0\n  vllm/a.py" in refused(found(vllm__a=None), PatchError)
    assert "that are not text\n  vllm/a.py" in refused(found(vllm__a=b"\0"), PatchError)
    text = refused(found(csrc__b=b"1\n"), UsageError)
    assert (
        "changes what vllm compiles, but this build compiles nothing of it\n  csrc/b.py\nhint: name the CMake" in text
    )


def test_a_bundled_source_must_be_named() -> None:
    difference = replace(found(), elsewhere=("3rdparty/cutlass/include/a.h",))
    bundling = replace(released(), bundled={"3rdparty/cutlass": "cutlass"})
    recipe = load_recipe(RECIPE)
    with pytest.raises(UsageError, match="changes cutlass, which") as caught:
        check_difference(recipe, bundling, checkout(Path("/x")), difference, ("vllm",))
    assert caught.value.hint == "add --source cutlass=/x/3rdparty/cutlass"
    check_difference(recipe, bundling, checkout(Path("/x")), difference, ("vllm", "cutlass"))


def test_what_is_left_out_is_said() -> None:
    lines = [*change_notes(released(), checkout(Path("/x")), found(tests__test_a=b"2\n", vllm__data=b"\0"))]
    assert lines == [
        "vllm 0.33.0: /x (a plain folder) has no changes that affect the build",
        "vllm 0.33.0: ignored, the build does not use them: 1 (tests/test_a.py)",
        "vllm 0.33.0: ignored, new and not text (add them with --overlay DIR): 1 (vllm/data.py)",
    ]


@pytest.mark.parametrize(
    ("named", "said"),
    [
        (["vllm"], "expected NAME=DIR"),
        (["vllm="], "expected NAME=DIR"),
        (["vllm=/a", "vllm=/b"], "--source vllm is given twice"),
    ],
)
def test_what_the_option_takes(named: list[str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        own_sources(cast("Context", None), load_recipe(RECIPE), load_lock(lock_path(RECIPE)), "arm64", named)


def test_a_plain_folder_is_all_of_it_but_what_python_leaves(tmp_path: Path) -> None:
    for name in ("vllm/a.py", "vllm/__pycache__/a.cpython-313.pyc", "vllm.egg-info/PKG-INFO"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert open_worktree(tmp_path, {}) == Worktree(root=tmp_path.resolve(), files=("vllm/a.py",))
    with pytest.raises(UsageError, match="is not a directory"):
        open_worktree(tmp_path / "vllm/a.py", {})
    (tmp_path / ".git").mkdir()
    with pytest.raises(UsageError, match="git is not installed") as caught:
        open_worktree(tmp_path, {"PATH": str(tmp_path)})
    assert caught.value.hint == "apt-get install git, or give a plain copy without .git"


USE = PatchUse(source="vllm", project="vllm", name="checkout.patch", sha256="a" * 64, path="/store/checkout.patch")


def with_use(taken: Taken | None) -> Plan:
    return plan_image(*inputs(), replace(plan().options, patches=(replace(USE, taken=taken),)))


def test_a_commit_is_recorded_and_moves_no_key() -> None:
    plain, one, other = with_use(None), with_use(Taken(path="/a", commit="c" * 40)), with_use(Taken(path="/b"))
    assert plain.steps == one.steps == other.steps
    assert (plain.key, plain.tags) == (one.key, one.tags) != (plan().key, plan().tags)
    dirty = with_use(Taken(path="/a", commit="c" * 40, dirty=True))
    assert labels(dirty)["io.github.gb10.source.vllm"] == f"{'c' * 40}-dirty"
    (entry,) = cast("list[dict[str, object]]", dirty.document()["patches"])
    assert entry["checkout"] == {"commit": "c" * 40, "dirty": True}
    assert record(dirty)["patches"] == [entry]
    jsonschema.validate(dirty.document(), SCHEMA | {"properties": {**SCHEMA["properties"], "steps": {}, "tags": {}}})
    jsonschema.validate(other.document()["patches"], SCHEMA["properties"]["patches"])
    moved = plan_image(*inputs(), replace(plan().options, patches=(replace(USE, sha256="b" * 64),)))
    assert moved.key != plain.key


def test_only_what_a_checkout_brought_bears_its_name() -> None:
    own = OwnSource(source="vllm", diffs=(Path("/store/checkout.patch"),), taken=Taken(path="/a"))
    assert own.by_hand == ("vllm=/store/checkout.patch",)
    other = replace(USE, path="/mine.patch")
    assert [use.taken for use in with_checkout_names((USE, other), (own,), {})]
    part = replace(USE, path="/store/diffs/checkout.patch")
    (named,) = with_checkout_names((part,), (own,), {"/store/diffs/checkout.patch": "/store/checkout.patch"})
    assert named.taken == own.taken
    assert [use.taken for use in with_checkout_names((USE, other), (own,), {})] == [own.taken, None]
