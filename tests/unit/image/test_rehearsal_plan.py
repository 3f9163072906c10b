"""A rehearsal in a plan: its steps, what moves their keys, the Dockerfile, the environment; and where there is none."""

import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import jsonschema
import pytest

from gb10.core.fields import Architecture
from gb10.errors import UsageError
from gb10.image.build.assemble import rehearsal_files
from gb10.image.context import open_context
from gb10.image.lock.lockfile import load_lock, load_recipe, lock_path
from gb10.image.plan.catalog import ROOT
from gb10.image.plan.dag import plan_image
from gb10.image.plan.options import Mod, Options, Overlay, PatchUse, Served
from gb10.image.plan.render import bake, dockerfile, environment, scanned
from gb10.image.plan.steps import SCRIPTS, request_text, why_none
from gb10.image.plan.values import Plan, Toolkit
from gb10.image.recipe.arch import parse_arch
from gb10.image.recipe.image_recipe import Recipe
from gb10.image.recipe.locked import Lock
from gb10.image.request.kernel_choice import with_warmup_run
from tests.recipes import SHIPPED, moved

CONFIG = {"architectures": ["Qwen3ForCausalLM"], "hidden_size": 4096}
MODEL = Served(name="Org/Model", config=json.dumps(CONFIG))
OPTIONS = Options(arch=parse_arch("12.1f"), platform="linux/arm64", build="amd64")
SERVED = replace(OPTIONS, served=MODEL)
OWN = {"rehearsal", "cache-triton", "cache-b12x", "image", "proof"}


@cache
def inputs(engine: str = "vllm") -> tuple[Recipe, Lock, Toolkit]:
    path = ROOT / f"recipes/images/{engine}.yaml"
    return load_recipe(path), load_lock(lock_path(path)), SHIPPED.toolkit


@cache
def plan(options: Options = SERVED, engine: str = "vllm") -> Plan:
    recipe, lock, toolkit = inputs(engine)
    if options.served:
        options = replace(options, served=ready(toolkit, engine, options.served))
    return plan_image(recipe, lock, toolkit, options)


def ready(toolkit: Toolkit, engine: str, served: Served) -> Served:
    """The model with the variables by which the engine finds what was made ahead."""
    return replace(served, environment=tuple(sorted(toolkit.rehearsals[engine].image.items())))


def test_a_model_adds_the_rehearsal_and_the_layer_of_its_kernels() -> None:
    assert moved(plan(OPTIONS), plan()) == OWN
    assert plan().step("cache-triton").needs == ("rehearsal",)
    assert {"tools", "layer-vllm", "layer-torch", "base-image"} <= set(plan().step("rehearsal").needs)
    assert scanned(plan())[-3:] == ["settings", "cache-triton", "cache-b12x"]


def test_an_engine_that_compiles_modules_itself_has_a_layer_of_them() -> None:
    served = plan(engine="sglang")
    assert scanned(served)[-2:] == ["cache-triton", "cache-modules"]
    assert served.step("cache-modules").needs == ("rehearsal",)
    folder = dict(environment(served))["SGLANG_JIT_PREPARED_DIR"]
    request = json.loads(request_text(served, SHIPPED.toolkit))
    assert request["environment"]["SGLANG_JIT_CACHE_DIR"] == folder == "/usr/share/gb10/caches/modules"
    text = dockerfile(served, SHIPPED.templates)
    assert "COPY --link --from=cache-modules /out/ /" in text
    assert "--mount=type=cache,id=gb10-ccache-aarch64-rehearsal,target=/ccache" in text
    changed = plan(replace(SERVED, overlay=Overlay(path="/o", digest="0" * 64)), engine="sglang")
    assert "id=gb10-ccache-aarch64-rehearsal-by-hand,target=/ccache" in dockerfile(changed, SHIPPED.templates)
    fix = PatchUse(source="sglang", project="sglang", name="fix.diff", sha256="0" * 64, path="/fix.diff")
    assert replace(SERVED, patches=(fix,)).by_hand
    assert not replace(SERVED, patches=(replace(fix, path=None),)).by_hand


@pytest.mark.parametrize("engine", SHIPPED.toolkit.rehearsals)
def test_what_is_installed_is_the_image_s_lock_for_the_building_machine(engine: str) -> None:
    files = plan(engine=engine).step("rehearsal").files
    names = {file.filename.split("-")[0] for file in files}
    twins = {name.replace("-", "_") for name in SHIPPED.toolkit.rehearsals[engine].twins}
    assert {name.lower() for name in names} == twins
    assert all("aarch64" not in file.filename for file in files)
    native = plan(replace(OPTIONS, build="arm64", served=MODEL), engine).step("rehearsal").files
    assert all("x86_64" not in file.filename for file in native)


@pytest.mark.parametrize(
    "changed",
    [
        replace(MODEL, config=json.dumps(CONFIG | {"hidden_size": 2048})),
        replace(MODEL, options=(("kv_cache_dtype", "fp8"),)),
        replace(MODEL, options=(("max_num_seqs", 8),)),
    ],
)
def test_config_and_options_move_the_rehearsal_alone(changed: Served) -> None:
    assert moved(plan(), plan(replace(OPTIONS, served=changed))) == OWN


def test_the_name_of_a_model_is_in_no_key() -> None:
    assert (
        plan(replace(OPTIONS, served=replace(MODEL, name="other"))).step("rehearsal").key
        == plan().step("rehearsal").key
    )


def test_an_overlay_moves_the_rehearsal_because_it_may_change_the_engine() -> None:
    over = Overlay(path="/o", digest="0" * 64)
    assert moved(plan(), plan(replace(OPTIONS, served=MODEL, overlay=over))) == OWN


@pytest.mark.parametrize(
    "name",
    [
        "inside/rehearse/rehearsal.py",
        "explain/child/rehearse.py",
        "inside/rehearse/gb10_caches.py",
        "inside/rehearse/gb10_b12x.py",
    ],
)
def test_each_script_moves_it(name: str) -> None:
    recipe, lock, toolkit = inputs()
    other = replace(toolkit, digests={**toolkit.digests, name: "0" * 64})
    served = replace(OPTIONS, served=ready(toolkit, "vllm", MODEL))
    assert moved(plan(), plan_image(recipe, lock, toolkit, served)) == set()
    assert moved(plan(), plan_image(recipe, lock, other, served)) == OWN


def test_a_mod_lies_above_the_caches() -> None:
    mod = Mod(name="one", path="/m/one", digest="1" * 64)
    text = dockerfile(plan(replace(OPTIONS, served=MODEL, mods=(mod,))), SHIPPED.templates)
    assert "FROM assembled AS prepared" in text
    assert "FROM prepared AS mod-1" in text


def test_the_stage_has_no_network_and_reads_the_image() -> None:
    text = dockerfile(plan(), SHIPPED.templates)
    stage = text.partition("FROM tools AS rehearsal\n")[2].partition("FROM base-build AS cache-triton")[0]
    assert stage.count("RUN ") == stage.count("RUN --network=none ") == 2
    assert "from=assembled,target=/image" in stage
    assert "COPY --link --from=cache-triton /out/ /" in text
    assert "rehearsal" not in dockerfile(plan(OPTIONS), SHIPPED.templates)


def test_the_image_looks_into_the_caches_and_bake_has_the_context() -> None:
    assert dict(environment(plan()))["TRITON_CACHE_MANAGER"] == "gb10_caches:Prepared"
    assert "TRITON_CACHE_MANAGER" not in dict(environment(plan(OPTIONS)))
    assert "SGLANG_JIT_PREPARED_DIR" not in dict(environment(plan(OPTIONS, "sglang")))
    assert "rehearsal-wheels" in json.dumps(bake(plan()))


def test_the_request_has_the_config_and_what_explain_answers() -> None:
    request = json.loads(request_text(plan(), SHIPPED.toolkit))
    assert request["config"] == CONFIG
    assert request["capability"] == [12, 1]
    assert request["answers"]["cutlass_group_gemm_supported"] is False
    assert {"tilelang", "torchvision"} <= set(request["stand_ins"])
    assert {"b12x", "flashinfer"} <= set(request["present"])
    assert request["environment"]["CUDA_HOME"] == "/usr/local/cuda"
    assert request["environment"]["HF_HUB_OFFLINE"] == "1"


@pytest.mark.parametrize(
    ("engine", "arch", "platform", "why"),
    [
        ("vllm", "12.1a", "linux/arm64", ""),
        ("vllm", "12.0f", "linux/arm64", "capability 12.1 on arm64, and this is 12.0f on arm64"),
        ("vllm", "12.1f", "linux/amd64", "capability 12.1 on arm64, and this is 12.1f on amd64"),
        ("sglang", "12.1f", "linux/arm64", ""),
        ("sglang-0.5.10", "12.1f", "linux/arm64", "the rehearsal of sglang is for 0.5.23, the recipe has 0.5.10"),
    ],
)
def test_where_there_is_none_the_reason_is_known(engine: str, arch: str, platform: str, why: str) -> None:
    recipe, _, toolkit = inputs(engine)
    found = why_none(recipe, toolkit, Options(arch=parse_arch(arch), platform=platform, build="amd64"))
    assert why in found
    assert bool(found) == bool(why)


def test_another_release_has_none() -> None:
    recipe, _, toolkit = inputs()
    found = why_none(recipe.model_copy(update={"version": "0.34.0"}), toolkit, OPTIONS)
    assert found == "the rehearsal of vllm is for 0.33.0, the recipe has 0.34.0"


def test_the_plan_s_document_follows_its_schema() -> None:
    schema = json.loads((ROOT / "docs/schemas/plan-v1.schema.json").read_text(encoding="utf-8"))
    jsonschema.validate(json.loads(json.dumps(plan().document())), schema)


@pytest.mark.parametrize("engine", SHIPPED.toolkit.rehearsals)
def test_every_twin_is_locked_for_both_machines(engine: str) -> None:
    lock = inputs(engine)[1]
    machines: tuple[Architecture, ...] = ("amd64", "arm64")
    for machine in machines:
        assert set(SHIPPED.toolkit.rehearsals[engine].twins) <= {wheel.name for wheel in lock.wheels.image[machine]}


@pytest.mark.parametrize("engine", SHIPPED.toolkit.rehearsals)
def test_the_engine_s_script_is_there_and_shipped(engine: str) -> None:
    script = f"explain/child/{SHIPPED.toolkit.rehearsals[engine].script.replace('.', '/')}.py"
    assert script in SHIPPED.toolkit.digests_of(*SCRIPTS)


@pytest.mark.parametrize(("engine", "argument"), [("vllm", "max_num_seqs"), ("sglang", "max_running_requests")])
def test_options_have_the_engine_s_own_names(engine: str, argument: str) -> None:
    served = replace(SERVED, served=replace(MODEL, options=(("kv_cache_dtype", "fp8"), ("max_num_seqs", 8))))
    options = json.loads(request_text(plan(served, engine), SHIPPED.toolkit))["options"]
    assert (options["kv_cache_dtype"], options[argument]) == ("fp8", 8)


def test_the_command_s_model_gets_the_variables_of_its_engine(tmp_path: Path) -> None:
    recipe, _, toolkit = inputs("sglang")
    ctx = open_context({"GB10_CACHE_DIR": str(tmp_path), "HOME": str(tmp_path)}, verbosity=0)
    assert with_warmup_run(ctx, recipe, toolkit, OPTIONS, MODEL) == ready(toolkit, "sglang", MODEL)


def test_an_option_that_the_engine_has_not_is_an_error(tmp_path: Path) -> None:
    recipe, _, toolkit = inputs("sglang")
    ctx = open_context({"GB10_CACHE_DIR": str(tmp_path), "HOME": str(tmp_path)}, verbosity=0)
    with pytest.raises(UsageError, match="sglang has no option for linear_backend"):
        with_warmup_run(ctx, recipe, toolkit, OPTIONS, replace(MODEL, options=(("linear_backend", "marlin"),)))


def test_a_stage_finds_modules_of_the_image_by_their_own_names_and_ours_in_the_package(tmp_path: Path) -> None:
    """Triton imports its cache manager by the name in its environment; vLLM its plugin by its entry point."""
    files = rehearsal_files(open_context({"GB10_CACHE_DIR": str(tmp_path)}, verbosity=-1), plan())
    own = {"gb10_caches.py", "gb10_b12x.py", "gb10/image/explain/child/rehearse.py", "gb10/inside/scan/elf.py"}
    assert {f"rehearsal/{name}" for name in own} <= files.keys()
    served = plan().options.served
    assert served is not None
    assert dict(served.environment)["TRITON_CACHE_MANAGER"].startswith("gb10_caches:")
