"""The speed of earlier builds: kept by processor, bounded, and named by a plan; without it whose figures those are."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from gb10.core.forecast import Forecast, Speed
from gb10.image.build import costs
from gb10.image.build.compile import made_object
from gb10.image.build.costs import MOST, REFERENCE, keep_speed, known_speed, processor
from gb10.image.build.estimate import ASSEMBLY, DOWNLOAD, TOOLS, UPSTREAM, needs, step_seconds, with_forecast
from gb10.image.context import Context, open_context
from gb10.image.plan.values import Plan
from gb10.image.request.planning import Request, make_plan


@pytest.fixture
def ctx(tmp_path: Path) -> Context:
    return open_context({"GB10_CACHE_DIR": str(tmp_path), "HOME": str(tmp_path)}, verbosity=-1)


class Seen(Forecast):
    """A forecast that has seen units at a speed."""

    def __init__(self, factor: float, seconds: float, held: float) -> None:
        super().__init__()
        self.seen = Speed(factor, seconds, own=True, held=held)

    def speed(self) -> Speed:
        return self.seen


def build(ctx: Context, factor: float, seconds: float = 700.0, held: float = 1.0) -> None:
    keep_speed(replace(ctx, forecast=Seen(factor, seconds, held)))


def plan(ctx: Context) -> Plan:
    return make_plan(ctx, Request(engine="vllm", arch="12.1f"))


def test_the_first_plan_says_that_its_figures_are_of_another_machine(ctx: Context) -> None:
    made = plan(ctx)
    found = needs(ctx, made, {step.name: False for step in made.steps}, None)
    assert (found.rates, found.foreign) == (REFERENCE, True)


def test_later_plans_use_what_builds_took_here(ctx: Context) -> None:
    made = plan(ctx)
    absent = {step.name: False for step in made.steps}
    before, wheel = needs(ctx, made, absent, None), made.step("flashinfer-jit-cache")
    alone = step_seconds(ctx, made, [wheel])[wheel.name]
    for factor in (2.0, 2.1, 1.9):
        build(ctx, factor)
    after = needs(ctx, made, absent, None)
    assert after.compile_seconds == pytest.approx(2 * before.compile_seconds)
    assert after.longest_seconds == pytest.approx(2 * before.longest_seconds)
    assert step_seconds(ctx, made, [wheel])[wheel.name] == pytest.approx(2 * alone)
    assert not after.foreign
    assert after.rates == "this machine: the last 3 builds took 2.0 times as long as on two idle x86-64 cores"


def test_one_odd_build_does_not_count_and_the_last_ones_do(ctx: Context) -> None:
    for factor in (1.0, 1.0, 9.0, 1.1, 0.9):
        build(ctx, factor)
    assert known_speed(ctx)[0].factor == 1.0
    for _ in range(MOST):
        build(ctx, 3.0)
    assert known_speed(ctx)[0].factor == 3.0
    assert len(list((ctx.store.root / costs.SECTION).iterdir())) == 1


@pytest.mark.parametrize(
    ("factor", "seconds", "held"), [(0.01, 700, 1), (40, 700, 1), (1, 5, 1), (1, 700, 50), (5, 700, 5)]
)
def test_what_no_compile_of_this_machine_takes_is_not_kept(
    ctx: Context, factor: float, seconds: float, held: float
) -> None:
    build(ctx, factor, seconds, held)
    assert known_speed(ctx) == (Speed(), REFERENCE)


@pytest.mark.parametrize(
    "rates",
    ["", "{", "[]", "7", '"fast"', "[7]", '[{"factor": "fast"}]', '[{"speed": 2}]', f"[{'9' * 500}]", "\x00\xff"],
)
@pytest.mark.parametrize("whole", [True, False], ids=["the file", "its rates"])
def test_a_damaged_file_is_passed_over(ctx: Context, rates: str, whole: bool) -> None:
    build(ctx, 2.0)
    (path,) = (ctx.store.root / costs.SECTION).iterdir()
    machine = json.loads(path.read_text(encoding="utf-8"))["machine"]
    own = f'{{"schema": "{costs.SCHEMA}", "machine": "{machine}", "rates": {rates}}}'
    path.write_text(rates if whole else own, encoding="latin-1")
    assert known_speed(ctx) == (Speed(), REFERENCE)
    build(ctx, 2.0)
    assert known_speed(ctx)[0].factor == 2.0


def test_another_processor_and_a_builder_have_their_own(ctx: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    build(ctx, 2.0)
    assert known_speed(replace(ctx, builder="far"))[1] == REFERENCE
    monkeypatch.setattr(costs, "cores", lambda: 64)
    assert known_speed(ctx)[1] == REFERENCE


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("processor\t: 0\nmodel name\t: AMD EPYC 9B14\nprocessor\t: 1\nmodel name\t: AMD EPYC 9B14\n", "AMD EPYC 9B14"),
        (
            "CPU implementer\t: 0x41\nCPU part\t: 0xd85\n\nCPU implementer\t: 0x41\nCPU part\t: 0xd87\n",
            "0x41 0xd85 0xd87",
        ),
        ("", "unknown"),
    ],
)
def test_a_processor_has_a_name(tmp_path: Path, text: str, name: str) -> None:
    (tmp_path / "cpuinfo").write_text(text, encoding="ascii")
    assert processor(tmp_path / "cpuinfo") == name
    assert processor(tmp_path / "none") == "unknown"


def test_a_forecast_knows_all_that_is_not_there(ctx: Context) -> None:
    made = plan(ctx)
    absent = {step.name: False for step in made.steps}
    found = with_forecast(ctx, made, absent, None).forecast
    parts = (TOOLS, "flashinfer-jit-cache", "gb10-kernels", DOWNLOAD, UPSTREAM, ASSEMBLY)
    assert all(found.knows(name) for name in parts)
    whole = found.left()
    compiled = with_forecast(ctx, made, {**absent, "flashinfer-jit-cache": True}, None).forecast
    assert not compiled.knows("flashinfer-jit-cache")
    left = compiled.left()
    assert whole is not None
    assert left is not None
    assert 0 < left < whole
    assert with_forecast(ctx, made, dict.fromkeys(absent, True), None).forecast.left() is None


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (
            "/usr/bin/python3 -IS launch.py nvcc -c /s/norm.cu -o /b/cached_ops/norm/csrc_norm.cuda.o ",
            "norm/csrc_norm.cuda.o",
        ),
        ("Building CUDA object CMakeFiles/_C.dir/csrc/cache.cu.o", "csrc/cache.cu.o"),
        ("cu /units/pingpong.cu", "pingpong.cu.o"),
        ("g++ a.o b.o -shared -o /b/cached_ops/norm/norm.so", ""),
        ("Linking CXX shared module _C.abi3.so", ""),
        ("", ""),
    ],
)
def test_a_line_of_ninja_names_the_object_that_was_made(text: str, name: str) -> None:
    assert made_object(text) == name
