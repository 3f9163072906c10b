"""What is rendered from a plan: Dockerfiles, labels, environment, bake; and the plan itself, keys cut out."""

import json
import re
from dataclasses import replace
from pathlib import Path

from gb10.core.fields import Architecture
from gb10.image.plan.catalog import ROOT
from gb10.image.plan.dag import GEMM, plan_program
from gb10.image.plan.options import Mod, Options, Overlay, PatchUse
from gb10.image.plan.plan_record import labels
from gb10.image.plan.render import bake, dockerfile, environment, part_dockerfile, program_dockerfile, wheel_dockerfile
from gb10.image.recipe.arch import parse_arch
from tests.golden.conftest import Golden
from tests.golden.small import plan_for
from tests.recipes import CUTLASS, SHIPPED
from tests.unit.made_up_base import MOD, OVERLAY, PATCH, WHEEL, base, plan_on

OWN = PatchUse(source="small", project="small", name="0001-a", sha256="1" * 64, installable=False, compiled=True)


def options(arch: str, build: Architecture = "amd64") -> Options:
    target = parse_arch(arch)
    return Options(arch=target, platform=target.platform, build=build)


def without_keys(text: str) -> str:
    """Keys move with every file of ours: their values say nothing to a reader of a diff."""
    text = re.sub(r"(?<=--key )[0-9a-f]{8}\b", "<key>", text)  # eight digits may be digits alone
    return re.sub(r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])([0-9a-f]{64}|[0-9a-f]{12}|[0-9a-f]{8})\b", "<key>", text)


def test_an_image_with_an_overlay_and_mods(golden: Golden) -> None:
    """Mods are stages above the layers and below the record; each layer, the overlay's too, is scanned."""
    mods = (Mod(name="one", path="/m", digest="1" * 64), Mod(name="two", path="/n", digest="2" * 64, network=True))
    plan = plan_for(replace(options("12.1f"), mods=mods, overlay=Overlay(path="/o", digest="0" * 64)))
    golden("render/image.Dockerfile", without_keys(dockerfile(plan, SHIPPED.templates)))


def test_a_shared_compile_cache_is_a_network_and_a_secret_of_the_stage(golden: Golden) -> None:
    plan, templates = plan_for(options("12.1f")), SHIPPED.templates
    step = plan.step("jit-cache")
    text = wheel_dockerfile(plan, step, templates, jobs="2", shared=True)
    golden("render/wheel-shared-cache.Dockerfile", without_keys(text))
    assert text.count("--network=default") == 1
    plain = wheel_dockerfile(plan, step, templates, jobs="2")
    assert "--network=default" not in plain


def test_a_change_by_hand_reads_the_compile_cache_and_writes_into_one_of_its_own(golden: Golden) -> None:
    plan = plan_for(options("12.1f"))
    text = wheel_dockerfile(plan, plan.step("jit-cache"), SHIPPED.templates, jobs="2", by_hand=True, reviewed=True)
    golden("render/wheel-by-hand.Dockerfile", without_keys(text))
    assert "id=gb10-ccache-aarch64,target=/reviewed-ccache,readonly" in text
    alone = wheel_dockerfile(plan, plan.step("jit-cache"), SHIPPED.templates, jobs="2", by_hand=True)
    plain = wheel_dockerfile(plan, plan.step("jit-cache"), SHIPPED.templates, jobs="2")
    assert alone == plain.replace("id=gb10-ccache-aarch64,", "id=gb10-ccache-aarch64-by-hand,").replace(
        "\nccache --show-stats", "\nCCACHE_DIR=/ccache ccache --show-stats"
    )


def test_wheel_of_our_own_kernels_for_the_machine_that_builds(golden: Golden) -> None:
    plan = plan_for(options("12.1", "arm64"))
    text = wheel_dockerfile(plan, plan.step("kernels"), SHIPPED.templates, jobs="2")
    golden("render/extension.Dockerfile", without_keys(text))


def test_an_engines_own_targets_patched(golden: Golden) -> None:
    plan = plan_for(replace(options("12.1f"), patches=(OWN, CUTLASS)))
    text = wheel_dockerfile(plan, plan.step("small"), SHIPPED.templates, jobs="2")
    golden("render/targets.Dockerfile", without_keys(text))


def test_a_program(golden: Golden) -> None:
    toolkit = SHIPPED.toolkit
    plan = plan_program(GEMM, plan_for(options("12.1f")), toolkit)
    text = program_dockerfile(plan, GEMM, plan.step("gemm"), toolkit.templates, jobs="2")
    golden("render/program.Dockerfile", without_keys(text))


def test_scan_dockerfile(golden: Golden) -> None:
    text = part_dockerfile(
        plan_for(options("12.1f")), "scan", SHIPPED.templates, reference="some/image:1", platform="linux/arm64"
    )
    golden("render/scan.Dockerfile", text)


def test_bake_labels_and_environment(golden: Golden) -> None:
    plan = plan_for(options("12.1f"))
    document = {"bake": bake(plan), "labels": labels(plan), "environment": dict(environment(plan))}
    golden("render/bake.json", without_keys(json.dumps(document, indent=1, sort_keys=True)) + "\n")


def test_plan(golden: Golden) -> None:
    document = plan_for(options("12.1f")).document()
    for step in document["steps"]:  # type: ignore[attr-defined]
        step["files"] = len(step["files"])
    golden("render/plan.json", without_keys(json.dumps(document, indent=1)) + "\n")


def test_no_template_names_a_network_or_a_frontend() -> None:
    compiling = {"package.Dockerfile.j2", "program.Dockerfile.j2", "targets.Dockerfile.j2", "wheel.Dockerfile.j2"}
    for name, text in SHIPPED.templates.items():
        assert "syntax=" not in text, name
        # The two others: a mod that declares it, a compile cache that is shared; as the golden Dockerfiles show.
        declared = text.count('RUN --network={{ "default" if mod.network else "none" }}')
        assert declared == (name in {"image.Dockerfile.j2", "on_image.Dockerfile.j2"})
        shared = text.count("RUN --network={{ ccache.network(shared) }}")
        assert shared == (name in compiling)
        declared += shared
        assert text.count("RUN ") == text.count("RUN --network=none") + declared, name
        assert "http" not in text, name


def test_templates_are_all_read() -> None:
    assert {path.name for path in Path(ROOT / "templates").iterdir()} == set(SHIPPED.templates)


def test_an_image_on_an_image_of_others(golden: Golden) -> None:
    """The base's own user comes back after the mods; nothing of the base is scanned."""
    plan = plan_on(base(), patches=(PATCH,), mods=(MOD,), overlay=OVERLAY, added=(WHEEL,), env={"A": "b"})
    golden("render/on_image.Dockerfile", without_keys(dockerfile(plan, SHIPPED.templates)))
