"""What compiles take: seconds by cores and memory, the memory of each family, the jobs that a stage is told."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from gb10.containers.connection import Endpoint, Engine
from gb10.image.build import costs
from gb10.image.build.costs import Critical, Family, critical_path, jobs_expression, kernel_cost, module_peaks, peaks
from gb10.image.build.estimate import needs
from gb10.image.context import Context, open_context
from gb10.image.plan.values import Plan
from gb10.image.recipe.kernel_sets import entries
from gb10.image.request.planning import Request, make_plan

GIB = 1 << 30
JIT_CACHE = "flashinfer-jit-cache"


@pytest.fixture
def ctx(tmp_path: Path) -> Context:
    return open_context({"GB10_CACHE_DIR": str(tmp_path), "HOME": str(tmp_path)}, verbosity=-1)


def plan(ctx: Context, engine: str = "vllm", kernels: str | None = None) -> Plan:
    return make_plan(ctx, Request(engine=engine, arch="12.1f", kernels=kernels))


@pytest.mark.parametrize(
    ("cores", "memory", "expected"),
    [
        (1, 64, Critical(1040, "cores")),
        (4, 64, Critical(260, "cores")),
        (16, 40, Critical(1000 / 4 + 40 / 40, "memory")),
        (16, 5, Critical(1000 + 40 / 5, "memory")),
        (64, 640, Critical(90, "longest unit")),
    ],
)
def test_cores_memory_or_the_longest_unit_bound_a_compile(
    ctx: Context, monkeypatch: pytest.MonkeyPatch, cores: int, memory: int, expected: Critical
) -> None:
    monkeypatch.setattr(costs, "cores", lambda: cores)
    monkeypatch.setattr(costs, "memory", lambda: memory * GIB)
    large, few = Family(96, 1000, 10 * GIB, "long.cu", 90), Family(2, 40, GIB)
    assert critical_path(ctx.env, (large, few)) == expected
    assert critical_path(ctx.env, ()) == Critical()


STAGES = (
    *((2, 389, 771), (4, 156, 614), (4, 191, 749), (6, 142, 833), (8, 108, 712), (8, 120, 746), (8, 130, 877)),
    *((16, 100, 702), (16, 126, 898), (32, 88, 643), (32, 112, 812)),
)
"""Cores, seconds and CPU seconds of both compile stages of the default image, on machines of 32 cores
(docs/kernels.md)."""


@pytest.mark.parametrize(("cores", "seconds", "cpu"), STAGES)
def test_the_bound_is_within_15_percent_of_what_was_measured(
    ctx: Context, monkeypatch: pytest.MonkeyPatch, cores: int, seconds: float, cpu: float
) -> None:
    monkeypatch.setattr(costs, "cores", lambda: cores)
    monkeypatch.setattr(costs, "memory", lambda: 250 * GIB)
    made = plan(ctx)
    families = [one for step in made.of_kind("wheel") for one in kernel_cost(ctx.catalog, made, step)]
    bound, speed = critical_path(ctx.env, families), cpu / sum(one.cpu_seconds for one in families)
    assert bound.bound == ("cores" if cores < 7 else "longest unit")
    if cores < 7:
        assert bound.seconds == pytest.approx(sum(one.cpu_seconds for one in families) / cores)
    assert speed * bound.seconds == pytest.approx(seconds, rel=0.15)


def test_a_plan_names_its_longest_unit(ctx: Context) -> None:
    made = plan(ctx)
    needed = needs(ctx, made, dict.fromkeys((step.name for step in made.steps), False), None)
    assert (needed.longest, 0 < needed.longest_seconds <= 120) == (
        "fp4_quantization_120f/kernels_quantization",
        True,
    )
    assert needed.compile_seconds >= needed.longest_seconds


def test_one_layer_at_a_time_needs_less_disk_than_one_solve_of_all(ctx: Context) -> None:
    """The classic image store has each layer once; caches are of one solve, and containerd's store copies layers."""
    made = plan(ctx)
    absent = dict.fromkeys((step.name for step in made.steps), False)
    engine = Engine(kind="user", endpoint=Endpoint(host="unix:///x", origin=""), version="", api="", containerd=False)
    alone = needs(ctx, made, absent, engine).disk
    cached = needs(replace(ctx, cache_from=("type=local,src=x",)), made, absent, engine).disk
    copied = needs(ctx, made, absent, replace(engine, containerd=True)).disk
    layers = sum(step.download for step in made.of_kind("layer"))
    assert needs(ctx, made, absent, None).disk == alone > 2 * layers
    assert alone + layers < cached < copied


def test_a_module_has_the_memory_of_its_own_cost(ctx: Context) -> None:
    """A program of the same name, gemm, has another one."""
    made = plan(ctx, kernels="moe")
    found = json.loads(peaks(ctx.catalog, made, made.step(JIT_CACHE)))
    measured = costs.measured(ctx.catalog)
    assert found["peaks"]["gemm"] == measured["group_gemm"]["peak_mib"] != measured["gemm"]["peak_mib"]
    assert found["other"] == max(one.peak for one in kernel_cost(ctx.catalog, made, made.step(JIT_CACHE))) >> 20


def test_units_of_a_module_have_their_own_memory_and_time(ctx: Context) -> None:
    made = plan(ctx, kernels="moe")
    step, each = made.step(JIT_CACHE), costs.measured(ctx.catalog)["fused_moe_120"]["each"]
    counted = [one for one in kernel_cost(ctx.catalog, made, step) if one.longest.startswith("fused_moe_120/")]
    assert ({one.units for one in counted}, len(counted)) == ({1}, len(each))
    assert min(one.peak for one in counted) < max(one.peak for one in counted) / 4
    told = json.loads(peaks(ctx.catalog, made, step))["units"]
    assert told["fused_moe_120"] == each
    assert told["gemm"] == costs.measured(ctx.catalog)["group_gemm"]["each"]


def test_modules_that_flashinfer_names_itself_have_the_memory_of_their_group(ctx: Context) -> None:
    made = plan(ctx, kernels="all")
    found = json.loads(peaks(ctx.catalog, made, made.step(JIT_CACHE)))
    assert found["other"] == costs.measured(ctx.catalog)["all"]["peak_mib"]
    assert found["other"] < found["peaks"]["cute_sm12x_gemm"]


def test_a_module_that_an_engine_compiles_itself_has_its_measured_memory_or_a_usual_one(ctx: Context) -> None:
    found = json.loads(module_peaks(ctx.catalog))
    gemm = "sgl_kernel_jit_fp8_blockwise_scaled_mm"
    assert found["peaks"][gemm] == costs.measured(ctx.catalog)[gemm]["peak_mib"] > 8000
    assert found["other"] == costs.UNMEASURED["peak_mib"]


def test_the_stage_knows_its_cores_unless_nothing_can_hold_its_compilers_back(
    ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = plan(ctx, "sglang-0.5.10"), plan(ctx)
    assert jobs_expression(ctx, new, new.step(JIT_CACHE)) == "$(nproc)"
    monkeypatch.setattr(costs, "cores", lambda: 16)
    monkeypatch.setattr(costs, "memory", lambda: 16 * GIB)
    assert jobs_expression(ctx, old, old.step(JIT_CACHE)) == "6"  # topk takes 2.3 GiB


def test_a_number_that_is_set_is_told(tmp_path: Path) -> None:
    env = {"GB10_CACHE_DIR": str(tmp_path), "HOME": str(tmp_path), "GB10_JOBS": "5"}
    told = open_context(env, verbosity=-1)
    made = plan(told)
    assert jobs_expression(told, made, made.step(JIT_CACHE)) == "5"


SHIPPED = ("flashinfer-core", "flashinfer-moe", "gb10-moe")
LONG = 120
"""CPU seconds that no unit of a shipped set should take."""


@pytest.mark.parametrize("name", SHIPPED)
def test_the_costs_say_why_a_unit_of_a_shipped_set_is_long(ctx: Context, name: str) -> None:
    """A family whose units were not timed one by one counts by its average."""
    found = costs.measured(ctx.catalog)
    for entry in entries(ctx.catalog.toolkit.kernel_sets[name]):
        cost = found[costs.family(entry)]
        units = [unit["cpu_s"] for unit in cost.get("each", {}).values()] or [cost["cpu_s"] / cost["units"]]
        assert (max(units) > LONG) == ("why" in cost), entry["name"]
