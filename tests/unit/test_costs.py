"""What compiles take: seconds by cores and memory, the memory of each family, the jobs that a stage is told."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from gb10.build import costs
from gb10.build.costs import Family, asked_jobs, compile_seconds, kernel_cost, peaks
from gb10.build.estimate import needs
from gb10.engine.connection import Endpoint, Engine
from gb10.plan.values import Plan
from gb10.request.planning import Request, make_plan
from gb10.workshop import Workshop, open_workshop

GIB = 1 << 30
JIT_CACHE = "flashinfer-jit-cache"


@pytest.fixture
def shop(tmp_path: Path) -> Workshop:
    return open_workshop({"GB10_CACHE_DIR": str(tmp_path), "HOME": str(tmp_path)}, verbosity=-1)


def plan(shop: Workshop, engine: str = "vllm", kernels: str | None = None) -> Plan:
    return make_plan(shop, Request(engine=engine, arch="12.1f", kernels=kernels))


@pytest.mark.parametrize(
    ("cores", "memory", "seconds"),
    [(1, 64 * GIB, 1000 + 40), (8, 64 * GIB, 1000 / 6 + 20), (8, 25 * GIB, 500 + 20), (8, 5 * GIB, 1000 + 20)],
)
def test_memory_and_units_bound_what_runs_at_once(
    shop: Workshop, monkeypatch: pytest.MonkeyPatch, cores: int, memory: int, seconds: float
) -> None:
    monkeypatch.setattr(costs, "cores", lambda: cores)
    monkeypatch.setattr(costs, "memory", lambda: memory)
    large, few = Family(96, 1000, 10 * GIB), Family(2, 40, GIB)
    assert compile_seconds(shop.env, (large, few)) == pytest.approx(seconds)


def test_no_number_of_cores_makes_a_compile_shorter_than_its_longest_unit(
    shop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(costs, "cores", lambda: 64)
    monkeypatch.setattr(costs, "memory", lambda: 64 * GIB)
    assert compile_seconds(shop.env, (Family(50, 500, GIB, "long.cu", 90), Family(2, 40, GIB))) == 90


def test_a_plan_names_its_longest_unit(shop: Workshop) -> None:
    needed = needs(shop, made := plan(shop), dict.fromkeys((step.name for step in made.steps), False), None)
    assert (needed.longest, 0 < needed.longest_seconds <= 120) == ("cub_topk_float.cu", True)


def test_one_layer_at_a_time_needs_less_disk_than_one_solve_of_all(shop: Workshop) -> None:
    """The classic image store has each layer once; caches are of one solve, and containerd's store copies layers."""
    made = plan(shop)
    absent = dict.fromkeys((step.name for step in made.steps), False)
    engine = Engine(kind="user", endpoint=Endpoint(host="unix:///x", origin=""), version="", api="", containerd=False)
    alone = needs(shop, made, absent, engine).disk
    cached = needs(replace(shop, cache_from=("type=local,src=x",)), made, absent, engine).disk
    copied = needs(shop, made, absent, replace(engine, containerd=True)).disk
    layers = sum(step.download for step in made.of_kind("layer"))
    assert needs(shop, made, absent, None).disk == alone > 2 * layers
    assert alone + layers < cached < copied


def test_a_module_has_the_memory_of_its_own_cost(shop: Workshop) -> None:
    """A program of the same name, gemm, has another one."""
    made = plan(shop, kernels="moe")
    found = json.loads(peaks(shop.catalog, made, made.step(JIT_CACHE)))
    measured = costs.measured(shop.catalog)
    assert found["peaks"]["gemm"] == measured["group_gemm"]["peak_mib"] != measured["gemm"]["peak_mib"]
    assert found["other"] == max(one.peak for one in kernel_cost(shop.catalog, made, made.step(JIT_CACHE))) >> 20


def test_modules_that_flashinfer_names_itself_have_the_memory_of_their_group(shop: Workshop) -> None:
    made = plan(shop, kernels="all")
    found = json.loads(peaks(shop.catalog, made, made.step(JIT_CACHE)))
    assert found["other"] == costs.measured(shop.catalog)["all"]["peak_mib"]
    assert found["other"] < found["peaks"]["cute_sm12x_gemm"]


def test_the_stage_knows_its_cores_unless_nothing_can_hold_its_compilers_back(
    shop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = plan(shop, "sglang-0.5.10"), plan(shop)
    assert asked_jobs(shop, new, new.step(JIT_CACHE)) == "$(nproc)"
    monkeypatch.setattr(costs, "cores", lambda: 16)
    monkeypatch.setattr(costs, "memory", lambda: 16 * GIB)
    assert asked_jobs(shop, old, old.step(JIT_CACHE)) == "6"  # topk takes 2.3 GiB


def test_a_number_that_is_set_is_told(tmp_path: Path) -> None:
    env = {"GB10_CACHE_DIR": str(tmp_path), "HOME": str(tmp_path), "GB10_JOBS": "5"}
    told = open_workshop(env, verbosity=-1)
    made = plan(told)
    assert asked_jobs(told, made, made.step(JIT_CACHE)) == "5"
