"""A package in a recipe: what its entry may say, what its stage reads, what moves its key."""

import argparse
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from gb10.core.document import parse_document
from gb10.errors import UsageError
from gb10.image.build.compile import compilers
from gb10.image.build.costs import WHOLE_PEAK, kernel_cost, measured, peaks
from gb10.image.context import open_context
from gb10.image.lock.lockfile import input_digest, load_lock, load_recipe, lock_path
from gb10.image.patches.selection import plan_patches
from gb10.image.plan.catalog import ROOT
from gb10.image.plan.dag import plan_image
from gb10.image.plan.options import Options
from gb10.image.plan.plan_record import record, recorded_plan
from gb10.image.plan.render import wheel_dockerfile
from gb10.image.plan.values import Plan, wheel_inputs
from gb10.image.recipe.arch import parse_arch
from gb10.image.recipe.image_recipe import PACKAGE_HEADERS, Recipe, Source, WheelBuild
from gb10.image.recipe.locked import Lock, LockedSdist, LockedSources, LockedWheel
from gb10.inside.compile.package import environment
from tests.recipes import SHIPPED, small_recipe
from tests.unit.image.test_key import Change, Inputs, arch, locked, patch, script, source, template

RECIPE = ROOT / "recipes/images/vllm.yaml"
PACKAGE = {"method": "package", "source": "conv", "tools": ("setuptools",)}
SHA = "1" * 64


def with_package(recipe: Recipe, lock: Lock, build: WheelBuild, own: Source) -> tuple[Recipe, Lock]:
    """The shipped recipe with the package alone, and its lock with the source and setuptools."""
    changes = {"wheels": {"conv": build}, "sources": {"conv": own}, "patches": ()}
    name = "conv-1.0.tar.gz" if own.sdist else "conv-1.0-py3-none-any.whl"
    kind = LockedSdist if own.sdist else LockedSources
    file = kind(name="conv", version="1.0", filename=name, sha256=SHA, size=1)
    tool = LockedWheel(
        name="setuptools", version="80.0", filename="setuptools-80.0-py3-none-any.whl", sha256="2" * 64, size=1
    )
    tools = {machine: (*files, tool) for machine, files in lock.wheels.tools.items()}
    wheels = lock.wheels.model_copy(update={"tools": tools})
    return recipe.model_copy(update=changes), lock.model_copy(update={"wheels": wheels, "sdists": {"conv": file}})


def made(build: WheelBuild, own: Source = Source(sdist="conv==1.0")) -> Inputs:  # noqa: B008 - frozen
    recipe, lock = with_package(load_recipe(RECIPE), load_lock(lock_path(RECIPE)), build, own)
    target = parse_arch("12.1f")
    return recipe, lock, SHIPPED.toolkit, Options(arch=target, platform=target.platform, build="amd64")


@pytest.fixture(scope="module")
def inputs() -> Inputs:
    return made(WheelBuild.model_validate(PACKAGE))


def key(inputs: Inputs) -> str:
    return plan_image(*inputs).step("conv").key


def build(**changes: object) -> Change:
    """Another entry of the same package."""

    def change(inputs: Inputs) -> Inputs:
        recipe, *rest = inputs
        entry = recipe.wheels["conv"].model_copy(update=changes)
        return (recipe.model_copy(update={"wheels": {"conv": entry}}), *rest)  # type: ignore[return-value]

    return change


def of_project(release: str) -> Change:
    """The package's source is a release of another project."""

    def change(inputs: Inputs) -> Inputs:
        recipe, lock, *rest = inputs
        sdists = {release.partition("==")[0]: lock.sdists["conv"]}
        other = recipe.model_copy(update={"sources": {"conv": Source(sdist=release)}})
        return (other, lock.model_copy(update={"sdists": sdists}), *rest)  # type: ignore[return-value]

    return change


@pytest.mark.parametrize(
    ("change", "moves"),
    [
        pytest.param(source("conv"), True, id="source"),
        pytest.param(patch(source="conv", project="conv"), True, id="patch"),
        pytest.param(arch("12.1"), True, id="arch"),
        pytest.param(build(environment={"CONV_FORCE_BUILD": "TRUE"}), True, id="environment"),
        pytest.param(build(tools=("setuptools", "uv")), True, id="tools"),
        pytest.param(build(headers=("torch", "nvidia-cuda-runtime", "nvidia-cuda-cccl")), True, id="headers"),
        pytest.param(locked("wheels.tools", "amd64", "setuptools"), True, id="build requirement"),
        pytest.param(locked("wheels.tools", "arm64", "setuptools"), True, id="build requirement of the other machine"),
        pytest.param(locked("wheels.tools", "amd64", "nvidia-cuda-nvcc"), True, id="CUDA compiler"),
        pytest.param(locked("wheels.image", "arm64", "torch"), True, id="torch"),
        pytest.param(locked("wheels.image", "arm64", "numpy"), False, id="a wheel that nothing is compiled with"),
        pytest.param(locked("debs.build", "amd64", "g++-14-aarch64-linux-gnu"), True, id="host compiler"),
        pytest.param(locked("debs.image", "arm64", "libpython3.13-dev"), True, id="Python's headers"),
        pytest.param(locked("debs.image", "arm64", "curl"), False, id="the rest of the base"),
        pytest.param(script("inside/compile/build_python.py"), True, id="what Python answers"),
        pytest.param(script("inside/compile/package_compiler.py"), True, id="what compilers get"),
        pytest.param(script("inside/compile/pack_package.py"), True, id="what packs"),
        pytest.param(script("inside/compile/cmake_targets.py"), False, id="another method's script"),
        pytest.param(template("package.Dockerfile.j2"), True, id="template"),
        pytest.param(template("wheel.Dockerfile.j2"), False, id="another method's template"),
    ],
)
def test_each_input_alone_moves_the_key(inputs: Inputs, change: Callable[[Inputs], Inputs], moves: bool) -> None:
    assert (key(inputs) != key(change(inputs))) == moves


def test_a_wheel_with_sources_has_a_key_of_its_own(inputs: Inputs) -> None:
    jit = made(WheelBuild.model_validate({**PACKAGE, "jit": "conv.ext"}), Source(wheel="conv==1.0"))
    other = made(WheelBuild.model_validate({**PACKAGE, "jit": "conv.other"}), Source(wheel="conv==1.0"))
    assert len({key(inputs), key(jit), key(other)}) == 3


def test_the_family_is_compiled_as_torch_spells_it(inputs: Inputs) -> None:
    """torch.utils.cpp_extension rejects 12.1f; both arches give the same code, each under its own key."""
    plan = plan_image(*inputs)
    text = wheel_dockerfile(plan, plan.step("conv"), SHIPPED.templates)
    assert "--arch 12.1a -gencode=arch=compute_121a,code=sm_121a" in text
    assert plan.step("conv").about == "package conv for 12.1f, compiled as 12.1a"


def test_the_stage_has_no_network_and_the_entrys_variables_are_words(inputs: Inputs) -> None:
    plan = plan_image(*build(environment={"CONV_FLAGS": "a'b; $(c)", "B": "1"})(inputs))
    text = wheel_dockerfile(plan, plan.step("conv"), SHIPPED.templates)
    assert text.count("RUN ") == text.count("RUN --network=none")
    assert "export B=1\nexport CONV_FLAGS='a'\"'\"'b; $(c)'\n" in text


def test_it_is_a_layer_of_its_own_with_tools_of_its_own(inputs: Inputs) -> None:
    plan = plan_image(*inputs)
    assert plan.step("layer-conv").needs == ("tools", "conv")
    assert plan.step("conv").needs == ("tools", "base-image")
    assert [file.filename for file in wheel_inputs(plan, "conv").tools] == ["setuptools-80.0-py3-none-any.whl"]
    assert not any(file.filename.startswith("setuptools-") for file in plan.step("tools").files)
    assert wheel_inputs(plan, "conv").bases == ("base-build", "base-image")


def test_a_shared_compile_cache_gives_its_stage_no_network(inputs: Inputs, tmp_path: Path) -> None:
    env = {"GB10_CACHE_DIR": str(tmp_path), "HOME": str(tmp_path), "GB10_COMPILE_CACHE": "redis://:p@h:1"}
    ctx = open_context(env, verbosity=-1)
    plan = plan_image(*inputs)
    step, own = plan.step("conv"), wheel_inputs(plan, "conv")
    text = wheel_dockerfile(plan, step, SHIPPED.templates, **compilers(ctx, plan, step, own))
    assert text.count("RUN ") == text.count("RUN --network=none")
    assert "compile-cache" not in text


def test_the_key_is_the_same_on_either_building_machine(inputs: Inputs) -> None:
    native = (*inputs[:3], replace(inputs[3], build="arm64"))
    assert key(inputs) == key(native)


def test_what_an_image_holds_of_it_is_read_back(inputs: Inputs) -> None:
    plan: Plan = plan_image(*build(environment={"A": "1"})(inputs))
    found = recorded_plan(record(plan))
    assert found is not None


def entry(text: str, sources: str = "{conv: {sdist: conv==1.0}}") -> Recipe:
    own = f"sources: {sources}\nwheels: {{conv: {text}}}\n"
    return parse_document(small_recipe(own), Recipe, where="r.yaml", what="image recipe")


def test_headers_are_torchs_unless_the_entry_names_some(inputs: Inputs) -> None:
    assert plan_image(*inputs).recipe.wheels["conv"].headers == PACKAGE_HEADERS
    assert plan_image(*build(headers=("torch",))(inputs)).recipe.wheels["conv"].headers == ("torch",)


def set_by_the_stage() -> list[str]:
    """What package.py sets itself, and what the stage's script does before it."""
    options = argparse.Namespace(
        work=Path("/w"), jobs=1, arch="12.1a", machine="aarch64", site=Path("/s"), image=Path("/i")
    )
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("PYTHONPATH", "/inside")
        return [*environment(options), "CCACHE_DISABLE", "GB10_CCACHE", "SITE", "SOURCE_DATE_EPOCH"]


@pytest.mark.parametrize("name", set_by_the_stage())
def test_a_variable_that_the_stage_sets_is_refused(name: str) -> None:
    with pytest.raises(UsageError) as caught:
        entry(f"{{method: package, source: conv, tools: [uv], environment: {{{name}: '1'}}}}")
    assert f"{name} is set by the build stage" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{method: package, source: conv}", "method package needs tools"),
        ("{method: package, source: conv, tools: [uv], kernels: core}", "knows no kernels, targets"),
        ("{method: package, source: conv, tools: [uv], environment: {CC: gcc}}", "CC is set by the build stage"),
        ("{method: package, source: conv, tools: [uv], environment: {TORCH_CUDA_ARCH_LIST: '9.0'}}", "is set by"),
        ("{method: package, source: conv, tools: [uv], jit: conv.ext}", "goes with a source that is a wheel"),
        ("{method: package, source: conv, tools: [uv], jit: 'a; b'}", "jit"),
        ("{method: aot, source: conv, kernels: core, environment: {A: b}}", "are for method package"),
        ("{method: aot, source: conv, kernels: core, jit: conv}", "are for method package"),
    ],
)
def test_an_entry_that_cannot_be_is_refused(text: str, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        entry(text)
    assert says in str(caught.value)


@pytest.mark.parametrize("text", ["{wheel: conv==1.0}", "{wheel: conv==1.0, tag: v1.0}", "{sdist: c==1, wheel: c==1}"])
def test_a_wheel_as_a_source_is_for_what_compiles_on_import(text: str) -> None:
    with pytest.raises(UsageError):
        entry("{method: package, source: conv, tools: [uv]}", f"{{conv: {text}}}")


def test_a_recipe_without_such_sources_keeps_its_digest() -> None:
    plain = load_recipe(RECIPE)
    own = plain.model_copy(update={"sources": {**plain.sources, "conv": Source(wheel="conv==1.0")}})
    assert input_digest(plain) == load_lock(lock_path(RECIPE)).input_digest != input_digest(own)


DIFF = "--- a/csrc/a.h\n+++ b/csrc/a.h\n@@ -1 +1,2 @@\n+// ours\n int a;\n"


def test_a_patch_by_hand_of_a_package_is_a_use_of_it(inputs: Inputs, tmp_path: Path) -> None:
    diff = tmp_path / "own.diff"
    diff.write_text(DIFF, encoding="utf-8")
    recipe, lock, toolkit, options = inputs
    patches = plan_patches(SHIPPED.patches, recipe, lock, "arm64", [f"conv={diff}"], toolkit=toolkit)
    plan = plan_image(recipe, lock, toolkit, replace(options, patches=patches))
    assert [one.name for one in wheel_inputs(plan, "conv").origins[0].patches] == ["own.diff"]
    assert key(inputs) != plan.step("conv").key
    with pytest.raises(UsageError, match="unknown source convert"):
        plan_patches(SHIPPED.patches, recipe, lock, "arm64", [f"convert={diff}"], toolkit=toolkit)


def test_a_compiler_of_a_package_gets_the_memory_that_torchs_headers_take(inputs: Inputs) -> None:
    plan = plan_image(*inputs)
    told = json.loads(peaks(SHIPPED, plan, plan.step("conv")))
    assert told == {"peaks": {}, "units": {}, "other": WHOLE_PEAK}  # a folder of its may be called as a module is
    assert [one.peak >> 20 for one in kernel_cost(SHIPPED, plan, plan.step("conv"))] == [WHOLE_PEAK]


def test_a_package_that_was_measured_has_its_own_memory_whatever_its_name_in_the_recipe(inputs: Inputs) -> None:
    plan = plan_image(*of_project("flash-attn==2.8.3.post2")(inputs))
    cost = measured(SHIPPED)["flash-attn"]
    assert json.loads(peaks(SHIPPED, plan, plan.step("conv")))["other"] == cost["peak_mib"] > 2 * WHOLE_PEAK
    (found,) = kernel_cost(SHIPPED, plan, plan.step("conv"))
    assert (found.units, found.cpu_seconds) == (cost["units"], cost["cpu_s"])
