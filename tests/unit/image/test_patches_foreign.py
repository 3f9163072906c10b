"""A pull request's diff given by hand: whose it is, where its files lie, what may fail without harm."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from gb10.cli import main
from gb10.containers.embedded.daemon import Place
from gb10.core.store import Store
from gb10.errors import Gb10Error, PatchError, UncheckedError, UsageError
from gb10.image.build.cache_status import try_inputs
from gb10.image.context import Context, open_context
from gb10.image.patches.foreign import apply_foreign, find_foreign, load_foreign
from gb10.image.patches.places import placed
from gb10.image.patches.releases import load_releases
from gb10.image.patches.source_tree import Changed, open_tree
from gb10.image.plan.catalog import ROOT
from gb10.image.request.planning import Request, make_plan

DRIVES = ("gb10.image.build.input_checks",)  # through others: see tests/mutations.py

LAYOUTS = load_releases(ROOT / "patches").layouts


def diff(path: str, old: str = "a", new: str = "b") -> str:
    return f"diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-{old}\n+{new}\n"


def written(folder: Path, *parts: str, name: str = "pr.diff") -> Path:
    (folder / name).write_text("".join(parts), encoding="utf-8")
    return folder / name


def tree(folder: Path, **files: str) -> Changed:
    """A wheel's files."""
    made = Changed(open_tree(folder), {name: text.encode() for name, text in files.items()})
    made.installed = True
    return made


def test_the_package_decides_whose_it_is(tmp_path: Path) -> None:
    assert load_foreign(written(tmp_path, diff("vllm/a.py"), diff("tests/a.py")), LAYOUTS).source == "vllm"
    assert load_foreign(written(tmp_path, diff("python/sglang/srt/a.py")), LAYOUTS).source == "sglang"
    for parts in ((diff("vllm/a.py"), diff("sglang/a.py")), (diff("src/a.py"),)):
        with pytest.raises(PatchError, match="changes"):
            load_foreign(written(tmp_path, *parts), LAYOUTS)


def test_tests_may_fail_and_are_told_code_may_not(tmp_path: Path) -> None:
    patch = load_foreign(written(tmp_path, diff("vllm/a.py"), diff("tests/a.py"), diff("docs/b.md")), LAYOUTS)
    applied = apply_foreign(patch, tree(tmp_path, **{"vllm/a.py": "a\n"}))
    assert applied.changes == {"vllm/a.py": b"b\n"}
    assert applied.notes == ("pr.diff: 2 files of tests or docs left out: tests/a.py, docs/b.md",)
    with pytest.raises(PatchError, match=r"pr\.diff does not apply") as caught:
        apply_foreign(patch, tree(tmp_path, **{"vllm/a.py": "other\n"}))
    assert caught.value.where is not None
    assert "vllm/a.py:1" in caught.value.where


def test_compiled_code_in_a_wheel_is_refused_with_the_reason(tmp_path: Path) -> None:
    patch = load_foreign(written(tmp_path, diff("vllm/a.py"), diff("csrc/k.cu")), LAYOUTS)
    with pytest.raises(PatchError) as caught:
        apply_foreign(patch, tree(tmp_path, **{"vllm/a.py": "a\n"}))
    assert "source archive" in str(caught.value.hint)


def test_repositories_keep_files_elsewhere() -> None:
    assert placed("python/sglang/srt/a.py", LAYOUTS["sglang"], wheel=False) == "sglang/srt/a.py"
    assert placed("csrc/k.cu", LAYOUTS["flashinfer"], wheel=True) == "flashinfer/data/csrc/k.cu"
    assert placed("csrc/k.cu", LAYOUTS["flashinfer"], wheel=False) == "csrc/k.cu"
    assert placed("csrc/k.cu", LAYOUTS["vllm"], wheel=True) == "csrc/k.cu"


def test_a_folder_means_its_diffs_by_name(tmp_path: Path) -> None:
    second, first = (
        written(tmp_path, diff("vllm/b.py"), name="2.diff"),
        written(tmp_path, diff("vllm/a.py"), name="1.patch"),
    )
    (tmp_path / "notes.txt").touch()
    assert find_foreign(tmp_path) == (first, second)
    assert find_foreign(first) == (first,)
    with pytest.raises(Gb10Error, match="no diff there"):
        find_foreign(tmp_path / "none")


CPP = "--- a/csrc/ops.h\n+++ b/csrc/ops.h\n@@ -1,1 +1,2 @@\n #pragma once\n+// x\n"
PYTHON = "--- /dev/null\n+++ b/vllm/new_thing.py\n@@ -0,0 +1,1 @@\n+x = 1\n"


@pytest.mark.parametrize("text", [CPP, PYTHON + CPP])
def test_compiled_code_that_nothing_compiles_is_refused_by_its_name(tmp_path: Path, text: str) -> None:
    (tmp_path / "pr.diff").write_text(text)
    ctx = open_context({"GB10_CACHE_DIR": str(tmp_path / "s"), "HOME": str(tmp_path)}, verbosity=-1)
    asked = Request(engine="vllm", arch="12.1f", patches=(f"vllm={tmp_path}/pr.diff",))
    with pytest.raises(UsageError, match=r"pr\.diff changes what is compiled of vllm: csrc/ops\.h") as caught:
        make_plan(ctx, asked)
    assert "--targets NAME" in (caught.value.hint or "")
    assert make_plan(ctx, replace(asked, targets=("_C_stable_libtorch",))).step("vllm").key


def offline(tmp_path: Path) -> Context:
    """A context with an empty store and an index without a file."""
    (tmp_path / "index").mkdir()
    env = {"HOME": str(tmp_path), "PIP_CONFIG_FILE": os.devnull, "PIP_INDEX_URL": (tmp_path / "index").as_uri()}
    env["DOCKER_HOST"] = Place(Store(tmp_path / "s")).endpoint.host
    return open_context(env | {"GB10_CACHE_DIR": str(tmp_path / "s")}, verbosity=-1)


def test_patches_of_a_wheel_that_cannot_be_fetched_are_unchecked(tmp_path: Path) -> None:
    (tmp_path / "pr.diff").write_text(PYTHON)
    ctx = offline(tmp_path)
    plan = make_plan(ctx, Request(engine="vllm", arch="12.1f", patches=(f"{tmp_path}/pr.diff",)))
    unchecked = try_inputs(ctx, plan)
    assert isinstance(unchecked, UncheckedError)
    assert unchecked.code == 13
    assert str(unchecked.where).startswith(
        "the patches of vllm: vllm-0.33.0-cp38-abi3-manylinux_2_28_aarch64.whl is on"
    )
    assert try_inputs(ctx, make_plan(ctx, Request(engine="vllm", arch="12.1f"))) is None


def test_patches_of_an_archive_that_cannot_be_fetched_are_unchecked(tmp_path: Path) -> None:
    (tmp_path / "pr.diff").write_text(CPP)
    ctx = offline(tmp_path)
    request = Request(
        engine="vllm", arch="12.1f", patches=(f"vllm={tmp_path}/pr.diff",), targets=("_C_stable_libtorch",)
    )
    unchecked = try_inputs(ctx, make_plan(ctx, request))
    assert "the patches of what vllm compiles: vllm-0.33.0.tar.gz is on none" in str(unchecked and unchecked.where)


def test_a_plan_with_unchecked_patches_is_shown_and_ends_with_its_own_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pr.diff").write_text(PYTHON)
    for name, value in offline(tmp_path).env.items():
        monkeypatch.setenv(name, value)
    for name in ("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    assert main(["plan", "--patch", f"{tmp_path}/pr.diff", "--json"]) == 13
    printed = capsys.readouterr()
    assert json.loads(printed.out)["unchecked"][0].startswith("the patches of vllm: ")
    assert "error: patches are not checked" in printed.err
    assert main(["plan", "--patch", f"{tmp_path}/pr.diff", "--allow-unchecked"]) == 0
    assert "patches are not checked: what they change" in capsys.readouterr().err
    assert main(["image", "--patch", f"{tmp_path}/pr.diff", "--dry-run"]) == 13
    assert "graft-vllm" in capsys.readouterr().out
