"""Patches in a build, for real and small: a grafted wheel as its own layer, a patched source that is compiled."""

import json
import os
import uuid
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from gb10.containers.images import require_image
from gb10.containers.reach import connect_or_start
from gb10.core.fetch import store_paths
from gb10.errors import BuildError, PatchError
from gb10.image.build.image_build import ImageBuild, Verified
from gb10.image.build.stage import log_path
from gb10.image.build.wheels import early_grafts
from gb10.image.context import Context
from gb10.image.locked_files import fetch_files
from gb10.image.patches.selection import plan_patches
from gb10.image.patches.source_tree import open_tree
from gb10.image.patches.write import file_diff
from gb10.image.plan.dag import plan_image
from gb10.image.plan.options import PatchUse
from gb10.image.plan.plan_record import labels
from gb10.image.plan.values import Plan
from tests.integration.test_pipeline import DSL as PATCHABLE
from tests.integration.test_pipeline import ctx as ctx  # noqa: PLC0414 - a fixture
from tests.integration.test_pipeline import read_file, small, small_plan, wheels_of

pytestmark = pytest.mark.integration

DSL = PATCHABLE[0]
SITE = "/usr/local/lib/python3.13/dist-packages"
NAME = b"class MmaSM120BlockScaledOp"
FILE = "nvidia_cutlass_dsl/dsl_packages/cutlass/cute/nvgpu/warp/mma.py"


def plan_with(ctx: Context, *diffs: Path) -> Plan:
    """The small plan with the patches of the DSL's series, and these diffs applied."""
    recipe, lock = small()
    patches = plan_patches(ctx.catalog.patches, recipe, lock, "arm64", [str(diff) for diff in diffs])
    return plan_image(recipe, lock, ctx.catalog.toolkit, replace(small_plan(ctx).options, patches=patches))


def build_privately(ctx: Context, plan: Plan) -> Verified:
    """The image, built with a umask that gives others no rights: it decides nothing but what BuildKit is sent again."""
    connect_or_start(ctx.env, ctx.store)
    before = os.umask(0o077)
    try:
        return ImageBuild(ctx, plan).image()
    finally:
        os.umask(before)


@pytest.fixture(scope="module")
def below(ctx: Context) -> Verified:
    return build_privately(ctx, plan_with(ctx))


def diff_of_wheel(ctx: Context, target: Path, change: Callable[[bytes], bytes]) -> Path:
    """A pull request's diff of one file of the DSL's locked wheel, and of a test that the wheel does not hold."""
    module = DSL.replace("-", "_")
    steps = plan_with(ctx).of_kind("layer")
    step = next(step for step in steps if any(file.filename.startswith(module) for file in step.files))
    fetch_files(ctx, [step])
    wheel = next(path for path in store_paths(ctx.store, step.files) if path.name.startswith(module))
    content = open_tree(wheel).read(FILE)
    assert content is not None
    text = file_diff(FILE, content, change(content)) + file_diff("tests/test_mma.py", b"a\n", b"b\n")
    target.write_bytes(text)
    return target


@pytest.mark.slow
def test_a_patched_wheel_is_one_small_layer_above(
    ctx: Context, below: Verified, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    diff = diff_of_wheel(
        ctx, tmp_path / "pr.diff", lambda text: text + b"\nPATCHED = 1  # " + uuid.uuid4().hex.encode() + b"\n"
    )
    plan = plan_with(ctx, diff)
    made = build_privately(ctx, plan)
    assert "pr.diff: 1 files of tests or docs left out: tests/test_mma.py" in capfd.readouterr().err
    engine = connect_or_start(ctx.env, ctx.store)
    plain, after = (require_image(engine, verified.tags[-1]).diff_ids for verified in (below, made))
    assert len(set(after) - set(plain)) <= 2  # the patched files and the plan
    log = log_path(ctx.store, plan.step("image")).read_text(encoding="utf-8")
    assert not [step.name for step in plan.of_kind("layer") if f"[{step.name} " in log]  # nothing is unpacked again
    member, content = read_file(ctx, made.tags[-1], f"{SITE}/{FILE}")
    assert (oct(member.mode), b"PATCHED = 1" in content) == ("0o644", True)
    bytecode, _ = read_file(ctx, made.tags[-1], f"{SITE}/{Path(FILE).parent}/__pycache__/mma.cpython-313.pyc")
    assert bytecode.size > 0
    info = next(iter(plan.of_kind("graft"))).files[0].filename.split("-")[1]
    _, metadata = read_file(ctx, made.tags[-1], f"{SITE}/{DSL.replace('-', '_')}-{info}.dist-info/METADATA")
    assert f"\nVersion: {info}+gb10.".encode() in metadata
    _, record = read_file(ctx, made.tags[-1], "/usr/share/gb10/plan.json")
    assert json.loads(record)["patches"][-1]["name"] == "pr.diff"
    assert labels(plan)["io.github.gb10.patches.cutlass-dsl"].startswith("pr.diff@")
    assert ImageBuild(ctx, plan).image().hit


@pytest.mark.slow
def test_a_patch_that_breaks_python_stops_before_anything_is_tagged(ctx: Context, tmp_path: Path) -> None:
    diff = diff_of_wheel(ctx, tmp_path / "bad.diff", lambda text: text.replace(NAME, b"class " + NAME))
    plan = plan_with(ctx, diff)
    with pytest.raises(BuildError, match="patched file is no Python"):
        ImageBuild(ctx, plan).image()


def test_a_patch_that_does_not_fit_leaves_the_store_as_it_was(ctx: Context, tmp_path: Path) -> None:
    diff = diff_of_wheel(ctx, tmp_path / "old.diff", lambda text: text.replace(NAME, b"class X"))
    diff.write_bytes(diff.read_bytes().replace(b"-class MmaSM120BlockScaledOp", b"-class MmaOldName"))
    plan = plan_with(ctx, diff)
    with pytest.raises(PatchError, match=r"old\.diff does not apply"):
        early_grafts(ctx, plan)
    assert not ctx.store.entry("wheels", plan.of_kind("graft")[0].key).exists()


def test_what_was_planned_is_what_is_applied(ctx: Context, tmp_path: Path) -> None:
    diff = diff_of_wheel(ctx, tmp_path / "pr.diff", lambda text: text + b"\nPATCHED = 2\n")
    plan = plan_with(ctx, diff)
    diff.write_bytes(diff.read_bytes().replace(b"PATCHED = 2", b"PATCHED = 3"))
    with pytest.raises(PatchError, match=r"pr\.diff changed while it was used"):
        early_grafts(ctx, plan)
    series = PatchUse(source="vllm", project=DSL, name="0001-cutlass-moe-reachable-on-sm12x.patch", sha256="0" * 64)
    stale = replace(plan.options, patches=(series,))
    with pytest.raises(PatchError, match="changed while it was used"):
        early_grafts(ctx, plan_image(plan.recipe, plan.lock, ctx.catalog.toolkit, stale))


def test_a_patch_of_compiled_code_says_whose_it_is(ctx: Context, tmp_path: Path) -> None:
    (tmp_path / "pr.diff").write_bytes(file_diff("csrc/topk.cu", b"a\n", b"b\n"))
    with pytest.raises(PatchError, match="no package that we know"):
        plan_patches(ctx.catalog.patches, *small(), "arm64", [str(tmp_path / "pr.diff")])
    uses = plan_patches(ctx.catalog.patches, *small(), "arm64", [f"flashinfer={tmp_path / 'pr.diff'}"])
    assert (uses[-1].name, uses[-1].project, uses[-1].installable) == ("pr.diff", "flashinfer-python", True)


@pytest.mark.slow
def test_a_patched_source_is_compiled_and_has_a_wheel_of_its_own(ctx: Context, tmp_path: Path) -> None:
    plain = small_plan(ctx)
    step = plain.of_kind("wheel")[0]
    fetch_files(ctx, [step])
    tree = open_tree(store_paths(ctx.store, step.files)[0])
    parts = []
    for path, old in (
        ("flashinfer/jit/activation.py", b"import "),
        ("include/flashinfer/activation.cuh", b"#include "),
    ):
        content = tree.read(path)
        assert content is not None
        sign = b"#" if path.endswith(".py") else b"//"
        parts.append(file_diff(path, content, content.replace(old, sign + b" patched\n" + old, 1)))
    (tmp_path / "pr.diff").write_bytes(b"".join(parts))
    uses = plan_patches(ctx.catalog.patches, *small(), "arm64", [str(tmp_path / "pr.diff")])
    assert (uses[-1].project, uses[-1].name) == ("flashinfer-python", "pr.diff")
    patched = plan_image(*small(), ctx.catalog.toolkit, replace(plain.options, patches=uses))
    (before,), (after,) = wheels_of(ctx, plain), wheels_of(ctx, patched)
    assert (before.key != after.key, before.path != after.path) == (True, True)
    with zipfile.ZipFile(before.path) as one, zipfile.ZipFile(after.path) as other:
        library = next(name for name in one.namelist() if name.endswith(".so"))
        assert one.read(library) == other.read(library)  # a comment changes no instruction
    log = log_path(ctx.store, patched.of_kind("wheel")[0]).read_text(encoding="utf-8")
    assert "cp --recursive /archives/source-patched/. /source/" in log
