"""What would stop a build, and shows before it starts."""

import json
from pathlib import Path

import pytest

from gb10.cli.build.plan_show import print_plan
from gb10.core.fetch import stored
from gb10.image.build.cache_status import CacheStatus
from gb10.image.build.estimate import needs, obstacles
from gb10.image.context import Context, open_context
from gb10.image.request.planning import Request, make_plan
from gb10.sources.debian import mirror

DRIVES = ("gb10.image.build.kept_by_engine",)  # through others: see tests/mutations.py


@pytest.fixture
def ctx(tmp_path: Path) -> Context:
    return open_context({"GB10_CACHE_DIR": str(tmp_path / "store"), "HOME": str(tmp_path)}, verbosity=-1)


def test_packages_without_a_mirror_stop_a_build(ctx: Context, tmp_path: Path) -> None:
    plan = make_plan(ctx, Request(engine="vllm", arch="12.1f"))
    absent = {step.name: False for step in plan.steps}
    (found,) = obstacles(ctx, plan, absent, tmp_path)
    assert found.startswith("no Debian mirror is known: set GB10_DEBIAN_MIRROR")
    assert obstacles(ctx, plan, {step.name: True for step in plan.steps}, tmp_path) == []
    env = {**ctx.env, "GB10_DEBIAN_MIRROR": "http://a.example/debian"}
    known = open_context(env, verbosity=-1)
    assert obstacles(known, plan, absent, tmp_path) == []


def test_packages_in_the_store_need_no_mirror(ctx: Context, tmp_path: Path) -> None:
    plan = make_plan(ctx, Request(engine="vllm", arch="12.1f"))
    for file in (file for step in plan.of_kind("rootfs") for file in step.files):
        ctx.store.write_text(stored(ctx.store, file), "a package")
    assert obstacles(ctx, plan, {step.name: False for step in plan.steps}, tmp_path) == []


def test_a_plan_ends_with_what_would_stop_it(
    ctx: Context, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mirror, "APT", tmp_path)
    plan = make_plan(ctx, Request(engine="vllm", arch="12.1f"))
    absent = {step.name: False for step in plan.steps}
    found = CacheStatus(engine=None, cached=absent, needs=needs(ctx, plan, absent, None))
    print_plan(ctx, plan, found, as_json=False)
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("`image` would stop: no Debian mirror is known")
    print_plan(ctx, plan, found, as_json=True)
    assert json.loads(capsys.readouterr().out)["problem"].startswith("no Debian mirror is known")
