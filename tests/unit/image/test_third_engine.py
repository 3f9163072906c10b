"""A third engine is one YAML file and its lock; a patched source adds a series and a layout. It needs no Python."""

import json
import zipfile
from pathlib import Path

import pytest

from gb10.core.reporter import Reporter
from gb10.core.store import Store
from gb10.errors import UsageError
from gb10.image.build.cache_status import selected
from gb10.image.context import Context, open_context
from gb10.image.lock.lockfile import base_digest, input_digest, load_lock, load_recipe, lock_path, write_lock
from gb10.image.patches.patched import patched_files
from gb10.image.patches.releases import PINS
from gb10.image.plan.catalog import ROOT, Catalog
from gb10.image.plan.dag import plan_image
from gb10.image.plan.options import Options
from gb10.image.plan.values import Plan
from gb10.image.recipe.arch import parse_arch
from gb10.image.request.planning import Request, make_plan
from gb10.image.request.refs import with_refs
from tests.recipes import SHIPPED
from tests.unit.image.test_patches_series import PATCH, RECORD, SOURCE, pins

RECIPE = """\
engine: tiny
version: 2.4.6
repository: mine/tiny
python: "3.13"
cuda: "13.0"
base: {suite: trixie, packages: {image: [python3], build: [g++, python3]}}
requirements: [numpy==2.4.6, flashinfer-python==0.7.2.post1]
tools: [uv==0.13.8]
sources:
  tiny: {sdist: numpy==2.4.6}
  flashinfer: {sdist: flashinfer-python==0.7.2.post1}
wheels:
  kernels-for-tiny: {method: aot, source: flashinfer, kernels: smoke, headers: [nvidia-cuda-cccl]}
layers: [{name: all, rest: true}]
env: {PATH: /usr/bin}
workdir: /srv
command: [python3, -m, numpy]
"""
WHEELS = ("numpy", "flashinfer-python", "nvidia-cuda-cccl")


@pytest.fixture
def recipe_file(tmp_path: Path) -> Path:
    """The recipe with a lock of a few files that vLLM's lock has."""
    path = tmp_path / "tiny.yaml"
    path.write_text(RECIPE, encoding="utf-8")
    recipe, full = load_recipe(path), load_lock(ROOT / "recipes/images/vllm.lock.json")
    image = {arch: tuple(w for w in wheels if w.name in WHEELS) for arch, wheels in full.wheels.image.items()}
    locked = {
        "input_digest": input_digest(recipe),
        "base_digest": base_digest(recipe),
        "sdists": {name: file for name, file in full.sdists.items() if name == "flashinfer-python"},
        "wheels": full.wheels.model_copy(update={"image": image}),
    }
    write_lock(lock_path(path), full.model_copy(update=locked))
    return path


def plan_of(path: Path) -> Plan:
    options = Options(arch=parse_arch("12.1f"), platform="linux/arm64", build="amd64")
    return plan_image(load_recipe(path), load_lock(lock_path(path)), SHIPPED.toolkit, options)


def made(recipe: Path, root: Path, folder: Path, *patches: Path) -> Plan:
    """The plan as the command line makes it."""
    env = {"HOME": str(folder)}
    ctx = Context(env=env, store=Store(folder / "store"), reporter=Reporter(env, verbosity=-1), catalog=Catalog(root))
    return make_plan(ctx, Request(engine=str(recipe), arch="12.1f", patches=tuple(map(str, patches))))


def test_it_is_planned_like_any_other(recipe_file: Path, tmp_path: Path) -> None:
    plan = made(recipe_file, ROOT, tmp_path)
    assert (plan.recipe.engine, plan.tags[0]) == ("tiny", "mine/tiny:2.4.6-cu130-sm121f")
    assert [step.name for step in plan.of_kind("wheel")] == ["kernels-for-tiny"]


def test_its_sources_take_another_release(recipe_file: Path) -> None:
    made = with_refs(load_recipe(recipe_file), {"tiny": "2.5", "flashinfer": "0.8"})
    assert made.requirements == ("numpy==2.5", "flashinfer-python==0.8")
    assert made.sources["tiny"].sdist == "numpy==2.5"


@pytest.mark.parametrize("name", ["kernels-for-tiny", "flashinfer"])
def test_its_wheels_are_rebuilt_by_name_or_source(recipe_file: Path, name: str) -> None:
    assert selected(plan_of(recipe_file), (name,)) == {"kernels-for-tiny"}


def test_what_it_does_not_have_is_refused_with_what_it_has(recipe_file: Path) -> None:
    with pytest.raises(UsageError) as caught:
        with_refs(load_recipe(recipe_file), {"vllm": "1"})
    assert caught.value.hint == (
        "vllm is another engine: add --engine vllm\nvalid: flashinfer, flashinfer-python, numpy, tiny"
    )
    with pytest.raises(UsageError, match="--rebuild vllm: the recipe builds no wheel from vllm"):
        selected(plan_of(recipe_file), ("vllm",))


def with_series(root: Path, recipe: Path) -> Path:
    """A checkout of gb10 with a series for the engine. The engine's repository keeps its package in ``src``."""
    recipe.write_text(recipe.read_text(encoding="utf-8") + "patches: [tiny]\n", encoding="utf-8")
    (root / "patches/tiny").mkdir(parents=True)
    for name in ("recipes", "gb10", "templates", "kernels"):
        (root / name).symlink_to(ROOT / name)
    document = json.loads((ROOT / "patches" / PINS).read_text(encoding="utf-8"))
    tiny = json.loads(pins(packages=["numpy"], **{"in-repository": {"src/numpy": "numpy"}}))["sources"]["demo"]
    document["sources"]["tiny"] = tiny | {"projects": ["numpy"]}
    text = PATCH.replace("demo/a.py", "numpy/a.py").replace("demo >=1.0,<2.0", "tiny >=2.4")
    files = {"series": "0001-zeros.patch\n", "0001-zeros.patch": text, "0001-zeros.yaml": RECORD}
    for name, content in {f"../{PINS}": json.dumps(document), **files}.items():
        (root / "patches/tiny" / name).write_text(content, encoding="utf-8")
    return root


@pytest.fixture
def own_diff(tmp_path: Path) -> Path:
    """A diff of the engine's repository, on top of the series."""
    path = tmp_path / "pr.diff"
    path.write_text(
        "--- a/src/numpy/a.py\n+++ b/src/numpy/a.py\n@@ -1,3 +1,3 @@\n def f():\n"
        "-    x = zeros(3)\n+    x = zeros(9)\n     return x\n",
        encoding="utf-8",
    )
    return path


def test_its_source_is_patched_by_a_series_and_by_hand(recipe_file: Path, own_diff: Path, tmp_path: Path) -> None:
    root = with_series(tmp_path / "checkout", recipe_file)
    plan = made(recipe_file, root, tmp_path, own_diff)
    uses = plan.options.patches_of("numpy")
    assert [(use.source, use.name) for use in uses] == [("tiny", "0001-zeros.patch"), ("tiny", "pr.diff")]
    assert [step.name for step in plan.of_kind("graft")] == ["graft-numpy"]
    with zipfile.ZipFile(tmp_path / plan.step("graft-numpy").files[0].filename, "w") as wheel:
        wheel.writestr("numpy/a.py", SOURCE)
    changed = patched_files(root / "patches", Path(str(wheel.filename)), uses, print)
    assert changed == {"numpy/a.py": SOURCE.replace("empty(3)", "zeros(9)").encode()}


def test_its_layout_is_in_the_key_of_a_diff_by_hand_alone(recipe_file: Path, own_diff: Path, tmp_path: Path) -> None:
    root = with_series(tmp_path / "checkout", recipe_file)
    series, both = made(recipe_file, root, tmp_path), made(recipe_file, root, tmp_path, own_diff)
    pinned = root / "patches" / PINS
    pinned.write_text(pinned.read_text(encoding="utf-8").replace('"src/numpy"', '"src"'), encoding="utf-8")
    assert made(recipe_file, root, tmp_path) == series
    assert made(recipe_file, root, tmp_path, own_diff).step("graft-numpy").key != both.step("graft-numpy").key


@pytest.mark.parametrize(
    ("overlay", "why"), [(Path(), "the overlay is the current directory"), (Path("/nope"), "is not a directory")]
)
def test_an_overlay_is_a_folder_that_somebody_named(overlay: Path, why: str, tmp_path: Path) -> None:
    ctx = open_context({"GB10_CACHE_DIR": str(tmp_path), "HOME": str(tmp_path)}, verbosity=-1)
    with pytest.raises(UsageError, match=why):
        make_plan(ctx, Request(engine="vllm", arch="12.1f", overlay=overlay))


def test_a_recipe_is_named_by_its_engine_or_its_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.yml"
    with pytest.raises(UsageError, match="no image recipe") as caught:
        SHIPPED.recipe(str(file))
    assert (caught.value.where, "vllm" in (caught.value.hint or "")) == (str(file), True)
    file.touch()
    assert SHIPPED.recipe(str(file)) == file
    assert SHIPPED.recipe("vllm") == SHIPPED.root / "recipes/images/vllm.yaml"
