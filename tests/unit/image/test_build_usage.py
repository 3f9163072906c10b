"""Where the time of a build goes: phases of real steps and of our templates, sums held against the kernel's."""

import json
import os
import re
import subprocess
import sys
import time
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from gb10.cli.build.results import usage_lines
from gb10.containers.buildx.progress import StepDone, StepStarted
from gb10.containers.connection import Endpoint, Engine
from gb10.core.reporter import QUIET, Reporter
from gb10.core.store import Store
from gb10.image.build.build_usage import (
    ASSEMBLE,
    BASES,
    BESIDE,
    BUILDKIT,
    ENGINE,
    FETCH,
    INSTALL,
    PLAN,
    RUNS,
    SCAN,
    SEVERAL,
    TOOLS,
    BuildUsage,
    Meter,
    Row,
    engine_phase,
    phase_of_command,
    phase_of_step,
)
from gb10.image.inspect.build_log import Build, keep_build, saved_build
from gb10.image.plan.catalog import ROOT
from gb10.image.plan.options import Options
from gb10.image.plan.values import Plan
from gb10.image.recipe.arch import parse_arch
from tests.golden.small import plan_for

RENDERED = Path(__file__).parents[2] / "golden/render"
MOUNTS = "--network=none --mount=type=bind,from=tools-wheels,target=/wheels --mount=type=bind,source=install.py"
BUSY = "import time\nwhile time.process_time() < 0.4: pass"


def small_plan() -> Plan:
    return plan_for(Options(arch=parse_arch("12.1f"), platform="linux/arm64", build="amd64"))


@pytest.mark.parametrize(
    ("name", "phase"),
    [
        ("[internal] load build context", "receive contexts"),
        ("[context layer-cuda-wheels] load from client", "receive contexts"),
        ("[context layer-cuda-wheels] load .dockerignore", "prepare"),
        ("[context base-build] load metadata for gb10.invalid/base:layers-943e9c1469fa", "prepare"),
        ("[1/1] ADD --link base-image.tar /", "unpack archives"),
        ("[layered 1/2] COPY --link --from=layer-deps /out/ /", "copy"),
        ("exporting to image", "export"),
        ("exporting to client directory", "export"),
    ],
)
def test_names_of_buildkits_own_steps(name: str, phase: str) -> None:
    """As BuildKit 0.13 of Docker 26.1 printed them for the small image."""
    assert phase_of_step(name, small_plan().step("image")) == f"{BUILDKIT}{phase}"


@pytest.mark.parametrize(
    ("name", "phase"),
    [
        (f"[tools 1/1] RUN {MOUNTS} python3 /install.py --wheels /wheels --out / --epoch 1", TOOLS),
        (f"[target 1/1] RUN {MOUNTS} python3 /install.py --wheels /wheels --out /target --epoch 1", TOOLS),
        (f"[layer-deps 1/1] RUN {MOUNTS} python3 /install.py --wheels /wheels --out /out --epoch 1", INSTALL),
        ("[scan-base 1/1] RUN --mount=type=bind,source=scan.py,target=/scan.py python3 /scan.py /out", SCAN),
        ("[record 1/1] RUN --network=none install -D -m 644 /plan.json /out/usr/share/gb10/plan.json", ASSEMBLE),
        ("[compile 1/1] RUN --mount=type=bind,source=inside,target=/inside <<'COMPILE' (set -eux...)", "compile two"),
    ],
)
def test_names_of_steps_that_run_something(name: str, phase: str) -> None:
    step = replace(small_plan().step("image"), name="two")
    assert phase_of_step(name, step) == phase


def test_each_command_of_our_templates_has_a_phase() -> None:
    """A container is known by its command alone."""
    found: dict[str, set[str]] = {}
    for path in sorted(RENDERED.glob("*Dockerfile")):
        text = path.read_text(encoding="utf-8").replace("\\\n", " ")
        for line, script in re.findall(r"(?ms)^RUN ([^\n]*?)(?:<<'COMPILE'\n(.*?)^COMPILE$|$)", text):
            command = script or re.sub(r"--(mount|network)=\S+", "", line)
            found.setdefault(phase_of_command(command), set()).add(f"{path.name}: {command[:60]}")
    assert not found.get("")
    assert {"compile", TOOLS, INSTALL, SCAN, ASSEMBLE} <= found.keys()


def test_a_compile_stage_is_known_by_its_key() -> None:
    step = next(step for step in small_plan().steps if step.kind == "wheel")
    text = (RENDERED / "extension.Dockerfile").read_text(encoding="utf-8")
    assert "--key <key> " in text  # a golden file has no key
    script = text.replace("<key>", step.key[:8])
    meter = Meter(Reporter({}, verbosity=QUIET), Store(Path("/nonexistent")), small_plan())
    try:
        assert meter.contained(f"/bin/bash -c {script}").startswith(f"compile {step.name}")
        assert meter.contained("/bin/sh -c true") == ASSEMBLE
        assert meter.contained("/sbin/modprobe overlay") == ""
    finally:
        meter.read()


def test_what_the_engine_does_itself() -> None:
    export, copy = f"{BUILDKIT}export", f"{BUILDKIT}copy"
    assert [engine_phase(one) for one in (set(), {SCAN}, {SCAN, export}, {export, copy})] == [
        ENGINE,
        RUNS,
        export,
        SEVERAL,
    ]


def measured(store: str) -> None:
    """Print what a build of nothing used by its meter, and what the kernel counted of this process and its children."""
    reporter = Reporter({}, verbosity=QUIET)
    meter = Meter(reporter, Store(Path(store)), small_plan())
    with reporter.task("download 3 files"):
        subprocess.run([sys.executable, "-c", BUSY], check=True)
    with reporter.task("layers and proof"):
        time.sleep(0.6)
    used, times = meter.read(), os.times()
    counted = times.user + times.system + times.children_user + times.children_system
    print(json.dumps({"counted": counted, **asdict(used)}))


def test_the_sum_is_what_the_kernel_counted(tmp_path: Path) -> None:
    """In a process of its own: one that ran other tests has children that live on, which the kernel adds later."""
    code = f"from tests.unit.image.test_build_usage import measured; measured({str(tmp_path)!r})"
    used = json.loads(subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)
    assert used["total"]["cpu"] == pytest.approx(used["counted"], abs=0.5)  # /proc counts in ticks
    for rows in (used["phases"], used["programs"]):
        assert sum(row["cpu"] for row in rows) == pytest.approx(used["total"]["cpu"])
    rows = {row["name"]: row for row in used["phases"]}
    assert rows[FETCH]["cpu"] >= 0.2
    assert rows[BESIDE]["wall"] >= 0.4
    assert rows[PLAN]["cpu"] > 0.3  # this process before the build
    assert used["unmeasured"] == []


def user_engine(builder: str | None = None) -> Engine:
    endpoint = Endpoint(host="unix:///var/run/docker.sock", origin="default")
    return Engine(kind="user", endpoint=endpoint, version="28", api="1.48", containerd=False, builder=builder)


@pytest.mark.parametrize(("builder", "name"), [(None, "unix:///var/run/docker.sock"), ("far", "builder far")])
def test_an_engine_that_is_not_ours_is_not_measured(tmp_path: Path, builder: str | None, name: str) -> None:
    meter = Meter(Reporter({}, verbosity=QUIET), Store(tmp_path), small_plan())
    step, engine = small_plan().step("image"), user_engine(builder)
    meter.note(engine, step, StepStarted("exporting to image"))
    time.sleep(0.6)
    meter.note(engine, step, StepDone("exporting to image", 0.6, False))
    used = meter.read()
    (row,) = [row for row in used.phases if row.name == f"{BUILDKIT}export"]
    assert (row.wall or 0) > 0.2
    assert row.cpu == 0
    assert name in used.unmeasured[0]
    assert any(name in line for line in usage_lines(kept(used), hit=False) if "not measured" in line)


def kept(used: BuildUsage | None) -> Build:
    return Build(
        key="1" * 64, tag="a:b", digest="d", size=1, ended=1e9, cores=2, tasks=(), steps=(), layers={}, usage=used
    )


def test_a_kept_table_is_read_back(tmp_path: Path) -> None:
    row = Row(name="scan", wall=2.0, cpu=1.0, system=0.25, read=3_000_000, written=5_000_000)
    other = replace(row, name="cicc", wall=None, cpu=3.0)
    used = BuildUsage(
        total=replace(row, name="all", cpu=4.0),
        compilers=3.0,
        resident=2_000_000_000,
        measuring=0.1,
        phases=(row,),
        programs=(other, replace(other, name="tiny", cpu=0.0, written=0)),
        within={"scan": (other,)},
        unmeasured=(),
    )
    keep_build(Store(tmp_path), kept(used))
    assert saved_build(Store(tmp_path), "1" * 64) == kept(used)
    assert saved_build(Store(tmp_path), "2" * 64) is None
    text = "\n".join(usage_lines(saved_build(Store(tmp_path), "1" * 64), hit=True))
    assert re.search(r"scan +2\.0 +1\.0 +0\.2 +3\.0 +5\.0", text)
    assert "compilers 3.0 CPU s, all else 1.0, 0.33 of the compilers' CPU" in text
    assert "2001" in text
    assert "tiny" not in text
    assert "not measured" in usage_lines(kept(None), hit=True)[0]
    assert "no record of this build" in usage_lines(None, hit=True)[0]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_measurement_that_broke_off_is_not_shown_as_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    meter = Meter(Reporter({}, verbosity=QUIET), Store(tmp_path), small_plan())
    monkeypatch.setattr(meter._tree, "since", None)
    monkeypatch.setattr(meter._tree, "_members", {})
    time.sleep(0.6)
    assert any("error of the measurement" in line for line in meter.read().unmeasured)


def test_what_gb10_does_is_named_by_its_tasks() -> None:
    plan, reporter = small_plan(), Reporter({}, verbosity=QUIET)
    wheel = next(step.name for step in plan.steps if step.kind == "wheel")
    meter = Meter(reporter, Store(Path("/nonexistent")), plan)
    try:
        rows = {
            (): PLAN,
            (wheel,): BESIDE,
            ("upstream layers into the engine",): BESIDE,
            ("download 3 files",): FETCH,
            ("git clone",): FETCH,
            ("fetch x", "unpack y"): " + ".join(sorted((BASES, FETCH))),
            ("unpack base", wheel): BASES,
            ("scan",): "scan",
            ("scan", "zstd"): "scan + zstd",
        }
        for names, phase in rows.items():
            with ExitStack() as stack:
                for name in names:
                    stack.enter_context(reporter.task(name))
                assert meter._host_phase() == phase, names
    finally:
        meter.read()
