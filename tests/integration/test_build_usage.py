"""Where the time of a real build goes, held against the counters that Linux keeps for the engine's containers."""

import json
import os
from pathlib import Path

import pytest

from gb10.cli.build.results import build_and_record, print_image
from gb10.containers.embedded.daemon import Place
from gb10.containers.reach import connect_or_start
from gb10.core.usage import SHORT
from gb10.image.build.build_usage import BUILDKIT, ENGINE
from gb10.image.context import open_context
from tests.integration.test_pipeline import small_plan

pytestmark = pytest.mark.integration

WHEEL = "flashinfer-jit-cache"


def counted(cgroup: str) -> float | None:
    """CPU seconds of all that ever ran in a cgroup, as Linux counts; None where no cgroup shows it."""
    for folder in Path("/sys/fs/cgroup").glob("**/" + cgroup):
        for name, unit in (("cpuacct.usage", 1e9), ("cpu.stat", 1e6)):
            if (folder / name).exists():
                return int((folder / name).read_text(encoding="ascii").removeprefix("usage_usec").split()[0]) / unit
    return None


def test_a_build_is_measured_as_linux_counts_it(capsys: pytest.CaptureFixture[str]) -> None:
    ctx = open_context(os.environ, verbosity=0)
    plan = small_plan(ctx)
    engine = connect_or_start(ctx.env, ctx.store)
    cgroup = Place(ctx.store).cgroup
    before = counted(cgroup) or 0.0
    _, verified, kept = build_and_record(ctx, plan, (WHEEL,), None, timings=True)
    after = counted(cgroup)
    assert kept
    assert kept.usage
    used = kept.usage
    (compiled,) = [row for row in used.phases if row.name == f"compile {WHEEL} (set smoke)"]
    names = {row.name for row in used.within[compiled.name]}
    assert {"cicc", "cudafe++", "cc1plus"} <= names
    assert (compiled.wall or 0) > 2
    assert compiled.cpu > 2
    assert engine.kind == "embedded"
    assert used.unmeasured == ()
    if after is None:
        pytest.skip("no cgroup of this machine counts CPU time")
    # what ran in containers: their own phases, and of the engine's what nobody saw by a name
    own = {phase for phase in used.within if phase.startswith((BUILDKIT, ENGINE))}
    inside = sum(row.cpu for row in used.phases if row.name.startswith(("compile ", "build tools", "install", "scan")))
    inside += sum(row.cpu for row in used.phases if row.name == "assemble")
    unseen = sum(row.cpu for phase in own for row in used.within[phase] if row.name.startswith((SHORT, "runc")))
    assert inside <= 1.02 * (after - before) + 0.5
    assert inside + unseen >= 0.95 * (after - before) - 0.5

    # the next call builds nothing, and prints the same table
    capsys.readouterr()
    _, again, same = build_and_record(ctx, plan, (), None, timings=True)
    assert again.hit
    assert again.digest == verified.digest
    assert same == kept
    assert f"compile {WHEEL} (set smoke)" in capsys.readouterr().err
    print_image(ctx.reporter, again, (), same, as_json=True)
    assert json.loads(capsys.readouterr().out)["usage"]["total"]["cpu"] == used.total.cpu
