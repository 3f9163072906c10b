"""``--patch`` of a bundled source reaches all that compile it; ``--without-patch`` leaves patches of ours out."""

import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest

from gb10.errors import UsageError
from gb10.image.context import Context, open_context
from gb10.image.lock.lockfile import load_recipe
from gb10.image.plan.catalog import ROOT
from gb10.image.plan.plan_record import as_recorded, labels, record
from gb10.image.plan.values import Plan
from gb10.image.request.optional_layers import asking_less
from gb10.image.request.planning import Request, make_plan
from tests.unit.image.test_owners import BUILDER, KERNELS, MLA, diff

DRIVES = ("gb10.image.patches.selection", "gb10.image.request.given_diffs")  # through others: see tests/mutations.py

ASKED = Request(engine="vllm", arch="12.1f")
GATE = "vllm/0003-fp8-moe-by-gb10-kernels"


@pytest.fixture
def ctx(tmp_path: Path) -> Context:
    return open_context({"GB10_CACHE_DIR": str(tmp_path / "s"), "HOME": str(tmp_path)}, verbosity=-1)


def moved(before: Plan, after: Plan) -> set[str]:
    old = {step.name: step.key for step in before.steps}
    return {step.name for step in after.steps if old.get(step.name) != step.key} - {"image", "proof"}


def planned(ctx: Context, tmp_path: Path, *paths: str, source: str = "") -> Plan:
    (tmp_path / "pr.diff").write_bytes(diff(*paths))
    return make_plan(ctx, replace(ASKED, patches=(f"{source}{tmp_path}/pr.diff",)))


@pytest.mark.parametrize("source", ["", "cutlass="])
def test_a_patch_of_cutlass_reaches_all_that_compile_it(ctx: Context, tmp_path: Path, source: str) -> None:
    plain, made = make_plan(ctx, ASKED), planned(ctx, tmp_path, BUILDER, source=source)
    assert moved(plain, made) >= {"flashinfer-jit-cache", "gb10-kernels", "graft-flashinfer-python"}
    assert "graft-vllm" not in moved(plain, made)
    ours = [(use.source, use.folder, use.installable) for use in made.options.patches if use.path]
    assert ours == [("cutlass", "3rdparty/cutlass", False), ("flashinfer", "", True)]
    whole = {use.whole for use in made.options.patches if use.path}
    assert len(whole - {""}) == 1


def test_one_diff_over_two_sources_is_one_command(ctx: Context, tmp_path: Path) -> None:
    made = planned(ctx, tmp_path, BUILDER, KERNELS)
    assert moved(make_plan(ctx, ASKED), made) >= {"flashinfer-jit-cache", "gb10-kernels", "graft-flashinfer-python"}
    uses = [use for use in made.options.patches if use.path]
    assert [use.source for use in uses] == ["cutlass", "flashinfer", "flashinfer"]
    assert {use.name for use in uses} == {"pr.diff"}
    other = planned(ctx, tmp_path, BUILDER, KERNELS, source="cutlass=")
    assert other.key == made.key


def test_a_diff_over_installed_packages_is_one_of_the_engine(ctx: Context, tmp_path: Path) -> None:
    made = planned(ctx, tmp_path, f"usr/local/lib/python3.12/dist-packages/{MLA}")
    assert moved(make_plan(ctx, ASKED), made) == {"graft-vllm"}
    assert planned(ctx, tmp_path, MLA).step("graft-vllm").key == made.step("graft-vllm").key


def test_a_diff_of_one_source_is_the_users_file_itself(ctx: Context, tmp_path: Path) -> None:
    (tmp_path / "pr.diff").write_bytes(b"--- a/vllm/a.py\n+++ b/vllm/a.py\n@@ -1 +1 @@\n-a\n+b\n")
    made = make_plan(ctx, replace(ASKED, patches=(f"{tmp_path}/pr.diff",)))
    (use,) = (use for use in made.options.patches if use.path)
    assert (use.path, use.whole) == (f"{tmp_path}/pr.diff", "")


def test_a_url_of_a_diff_in_parts_keeps_its_own_hash(ctx: Context, tmp_path: Path) -> None:
    made = planned(ctx, tmp_path, BUILDER, KERNELS)
    uses = tuple(replace(use, url="https://h.invalid/1.diff" if use.path else "") for use in made.options.patches)
    named = labels(replace(made, options=replace(made.options, patches=uses)))
    urls = [value for name, value in named.items() if ".patch-url." in name]
    (whole,) = {use.whole for use in uses if use.path}
    assert urls == [f"https://h.invalid/1.diff#sha256={whole}"]


def test_a_patch_of_ours_is_left_out_with_those_that_need_it(ctx: Context) -> None:
    plain, made = make_plan(ctx, ASKED), make_plan(ctx, replace(ASKED, without_patches=("vllm/0003",)))
    assert moved(plain, made) == {"graft-vllm"}
    assert made.options.unpatched == (GATE,)
    assert made.tags == (f"{plain.tags[0]}-{made.key[:12]}",)
    assert labels(made)["io.github.gb10.without-patches"] == GATE
    assert as_recorded(made).unpatched == (GATE,)
    assert all(use.patch != GATE for use in made.options.patches)
    targets = replace(ASKED, targets=("_C_stable_libtorch",), without_patches=("vllm/0003",))
    assert make_plan(ctx, targets).options.unpatched == (GATE, "vllm/0004-sm120-fp8-moe-in-tree")
    both = make_plan(ctx, replace(ASKED, without_patches=("flashinfer/0006",), kernels="moe")).options.unpatched
    assert [name.partition("-")[0] for name in both] == ["flashinfer/0006", "flashinfer/0008", "flashinfer/0009"]


def test_nothing_moves_without_the_option(ctx: Context) -> None:
    plain = make_plan(ctx, ASKED)
    assert "without-patches" not in plain.document()
    assert "io.github.gb10.without-patches" not in labels(plain)
    assert len(plain.tags) == 2


@pytest.mark.parametrize(
    "name", ["vllm/0003", GATE, f"{GATE}.patch", "0003-fp8-moe-by-gb10-kernels", f"patches/{GATE}"]
)
def test_names_of_a_patch(ctx: Context, name: str) -> None:
    assert make_plan(ctx, replace(ASKED, without_patches=(name,))).options.unpatched == (GATE,)


@pytest.mark.parametrize("name", ["vllm/0004", "vllm/00", "0003", "vllm", "", "x/0001", "vllm/0003-other"])
def test_a_patch_that_the_build_has_not_is_refused(ctx: Context, name: str) -> None:
    with pytest.raises(UsageError, match="this build has no such patch of ours") as caught:
        make_plan(ctx, replace(ASKED, without_patches=(name,)))
    assert GATE in (caught.value.hint or "")


def test_what_our_kernels_need_goes_only_for_a_diff_in_its_place(ctx: Context, tmp_path: Path) -> None:
    asked = replace(ASKED, without_patches=("cutlass/0001",))
    with pytest.raises(UsageError, match="gb10-kernels cannot be compiled without what it adds"):
        make_plan(ctx, asked)
    (tmp_path / "pr.diff").write_bytes(diff(BUILDER))
    made = make_plan(ctx, replace(asked, patches=(f"{tmp_path}/pr.diff",)))
    assert made.options.unpatched == ("cutlass/0001-sm120-ptr-array-f8",)


def test_the_record_is_as_the_schema_says(ctx: Context, tmp_path: Path) -> None:
    (tmp_path / "pr.diff").write_bytes(diff(BUILDER))
    made = make_plan(ctx, replace(ASKED, patches=(f"{tmp_path}/pr.diff",), without_patches=("vllm/0003",)))
    schema = json.loads((ROOT / "docs/schemas/plan-v1.schema.json").read_text(encoding="utf-8"))
    jsonschema.validate(json.loads(json.dumps(record(made))), schema)


def test_requirements_of_a_layer_that_is_left_out_bind_no_release() -> None:
    recipe = load_recipe(ROOT / "recipes/images/vllm.yaml")
    assert any(text.startswith("b12x==") for text in recipe.requirements)
    less = asking_less(recipe, ["b12x"])
    assert not any(text.startswith("b12x") for text in less.requirements)
    assert less.layers == recipe.layers
    assert asking_less(recipe, []) is recipe
    with pytest.raises(UsageError, match="needs this layer"):
        asking_less(recipe, ["torch"])
