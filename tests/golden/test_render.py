"""What is rendered from a plan: Dockerfiles, labels, environment, bake; and the plan itself, keys cut out."""

import json
import re
from pathlib import Path
from typing import Literal

import pytest

from gb10.lock.lockfile import load_lock, load_recipe, lock_path
from gb10.plan.catalog import ROOT, Catalog
from gb10.plan.dag import plan_image
from gb10.plan.options import Mod, Options, Overlay, PatchUse
from gb10.plan.programs import GEMM, plan_program
from gb10.plan.render import (
    bake,
    dockerfile,
    environment,
    labels,
    program_dockerfile,
    scan_dockerfile,
    wheel_dockerfile,
)
from gb10.plan.values import Plan
from gb10.recipe.arch import parse_arch
from gb10.recipe.builds import WheelBuild
from gb10.recipe.image_recipe import Recipe
from tests.golden.conftest import Golden

RECIPE = ROOT / "recipes/images/vllm.yaml"


def plan_for(arch: str, overlay: Overlay | None = None, mods: tuple[Mod, ...] = ()) -> Plan:
    target = parse_arch(arch)
    options = Options(arch=target, platform=target.platform, build="amd64", overlay=overlay, mods=mods)
    return plan_image(load_recipe(RECIPE), load_lock(lock_path(RECIPE)), Catalog(ROOT).toolkit, options)


def without_keys(text: str) -> str:
    """Keys move with every file of ours: their values say nothing to a reader of a diff."""
    text = re.sub(r"(?<=--key )[0-9a-f]{8}\b", "<key>", text)  # eight digits may be digits alone
    return re.sub(r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])([0-9a-f]{64}|[0-9a-f]{12}|[0-9a-f]{8})\b", "<key>", text)


@pytest.mark.parametrize("arch", ["12.1f", "12.0f"])
def test_image_dockerfile(golden: Golden, arch: str) -> None:
    text = dockerfile(plan_for(arch), Catalog(ROOT).templates)
    golden(f"render/image-{arch}.Dockerfile", without_keys(text))


def test_an_overlay_adds_a_layer_and_its_scan(golden: Golden) -> None:
    text = dockerfile(plan_for("12.1f", Overlay(path="/o", digest="0" * 64)), Catalog(ROOT).templates)
    golden("render/image-overlay.Dockerfile", without_keys(text))


def test_mods_are_stages_above_the_layers_and_below_the_record(golden: Golden) -> None:
    mods = (Mod(name="one", path="/m", digest="1" * 64), Mod(name="two", path="/n", digest="2" * 64, network=True))
    text = dockerfile(plan_for("12.1f", mods=mods), Catalog(ROOT).templates)
    golden("render/image-mods.Dockerfile", without_keys(text))


@pytest.mark.parametrize("arch", ["12.1a", "12.0f"])
def test_wheel_dockerfile(golden: Golden, arch: str) -> None:
    plan = plan_for(arch)
    text = wheel_dockerfile(plan, plan.step("flashinfer-jit-cache"), Catalog(ROOT).templates, jobs="2")
    golden(f"render/wheel-{arch}.Dockerfile", without_keys(text))


@pytest.mark.parametrize(("arch", "build"), [("12.1f", "amd64"), ("12.1", "arm64")])
def test_wheel_dockerfile_of_our_own_kernels(golden: Golden, arch: str, build: Literal["amd64", "arm64"]) -> None:
    recipe, target = load_recipe(RECIPE), parse_arch(arch)
    wheel = WheelBuild(method="extension", source="flashinfer", kernels="moe", headers=("torch",))
    ours = recipe.model_copy(update={"wheels": {"gb10-kernels": wheel}})
    options = Options(arch=target, platform=target.platform, build=build)
    plan = plan_image(ours, load_lock(lock_path(RECIPE)), Catalog(ROOT).toolkit, options)
    text = wheel_dockerfile(plan, plan.step("gb10-kernels"), Catalog(ROOT).templates, jobs="2")
    golden(f"render/wheel-extension-{arch}-on-{build}.Dockerfile", without_keys(text))


def test_a_shared_compile_cache_is_a_network_and_a_secret_of_the_stage(golden: Golden) -> None:
    plan, templates = plan_for("12.1f"), Catalog(ROOT).templates
    step = plan.step("flashinfer-jit-cache")
    text = wheel_dockerfile(plan, step, templates, jobs="2", shared=True)
    golden("render/wheel-shared-cache.Dockerfile", without_keys(text))
    assert text.count("--network=default") == 1
    assert "--network=default" not in wheel_dockerfile(plan, step, templates, jobs="2")


def with_targets(recipe: Recipe, *targets: str) -> Recipe:
    wheel = recipe.wheels["vllm"].model_copy(update={"targets": targets})
    return recipe.model_copy(update={"wheels": {**recipe.wheels, "vllm": wheel}})


@pytest.mark.parametrize(("arch", "build"), [("12.1f", "amd64"), ("12.1f", "arm64")])
def test_dockerfile_of_an_engines_own_targets(golden: Golden, arch: str, build: Literal["amd64", "arm64"]) -> None:
    recipe, target = with_targets(load_recipe(RECIPE), "_C_one", "_C_two"), parse_arch(arch)
    patches = (
        PatchUse(source="vllm", project="vllm", name="0001-a", sha256="1" * 64, installable=False, compiled=True),
        PatchUse(
            source="cutlass",
            project="flashinfer-python",
            name="0001-b",
            sha256="2" * 64,
            installable=False,
            folder="3rdparty/cutlass",
        ),
    )
    options = Options(arch=target, platform=target.platform, build=build, patches=patches)
    plan = plan_image(recipe, load_lock(lock_path(RECIPE)), Catalog(ROOT).toolkit, options)
    text = wheel_dockerfile(plan, plan.step("vllm"), Catalog(ROOT).templates, jobs="2")
    golden(f"render/targets-{arch}-on-{build}.Dockerfile", without_keys(text))


@pytest.mark.parametrize(("arch", "build"), [("12.1f", "amd64"), ("12.1", "arm64")])
def test_program_dockerfile(golden: Golden, arch: str, build: Literal["amd64", "arm64"]) -> None:
    target, toolkit = parse_arch(arch), Catalog(ROOT).toolkit
    options = Options(arch=target, platform=target.platform, build=build)
    image = plan_image(load_recipe(RECIPE), load_lock(lock_path(RECIPE)), toolkit, options)
    plan = plan_program(GEMM, image, toolkit)
    text = program_dockerfile(plan, GEMM, plan.step("gemm"), toolkit.templates, jobs="2")
    golden(f"render/program-{arch}-on-{build}.Dockerfile", without_keys(text))


def test_scan_dockerfile(golden: Golden) -> None:
    text = scan_dockerfile(plan_for("12.1f"), "some/image:1", "linux/arm64", Catalog(ROOT).templates)
    golden("render/scan.Dockerfile", text)


def test_bake_labels_and_environment(golden: Golden) -> None:
    plan = plan_for("12.1f")
    document = {"bake": bake(plan), "labels": labels(plan), "environment": dict(environment(plan))}
    golden("render/bake.json", without_keys(json.dumps(document, indent=1, sort_keys=True)) + "\n")


def test_plan(golden: Golden) -> None:
    document = plan_for("12.1f").document()
    for step in document["steps"]:  # type: ignore[attr-defined]
        step["files"] = len(step["files"])
    golden("render/plan.json", without_keys(json.dumps(document, indent=1)) + "\n")


def test_no_template_names_a_network_or_a_frontend() -> None:
    compiling = {"program.Dockerfile.j2", "targets.Dockerfile.j2", "wheel.Dockerfile.j2"}
    for name, text in Catalog(ROOT).templates.items():
        assert "syntax=" not in text, name
        # The two others: a mod that declares it, a compile cache that is shared; as the golden Dockerfiles show.
        declared = text.count('RUN --network={{ "default" if mod.network else "none" }}')
        assert declared == (name == "image.Dockerfile.j2")
        shared = text.count("RUN --network={{ ccache.network(shared) }}")
        assert shared == (name in compiling)
        declared += shared
        assert text.count("RUN ") == text.count("RUN --network=none") + declared, name
        assert "http" not in text, name


def test_templates_are_all_read() -> None:
    assert {path.name for path in Path(ROOT / "templates").iterdir()} == set(Catalog(ROOT).templates)
