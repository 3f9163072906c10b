"""What would stop a build, and shows before it starts."""

import json
from pathlib import Path

import pytest

from gb10.cli.plan_show import print_plan
from gb10.core.fetch import stored
from gb10.image.build.estimate import needs
from gb10.image.build.obstacles import obstacles
from gb10.image.build.survey import Survey
from gb10.image.context import Workshop, open_workshop
from gb10.image.request.planning import Request, make_plan
from gb10.sources.debian import mirror


@pytest.fixture
def shop(tmp_path: Path) -> Workshop:
    return open_workshop({"GB10_CACHE_DIR": str(tmp_path / "store"), "HOME": str(tmp_path)}, verbosity=-1)


def test_packages_without_a_mirror_stop_a_build(shop: Workshop, tmp_path: Path) -> None:
    plan = make_plan(shop, Request(engine="vllm", arch="12.1f"))
    absent = {step.name: False for step in plan.steps}
    (found,) = obstacles(shop, plan, absent, tmp_path)
    assert found.startswith("no Debian mirror is known: set GB10_DEBIAN_MIRROR")
    assert obstacles(shop, plan, {step.name: True for step in plan.steps}, tmp_path) == []
    env = {**shop.env, "GB10_DEBIAN_MIRROR": "http://a.example/debian"}
    known = open_workshop(env, verbosity=-1)
    assert obstacles(known, plan, absent, tmp_path) == []


def test_packages_in_the_store_need_no_mirror(shop: Workshop, tmp_path: Path) -> None:
    plan = make_plan(shop, Request(engine="vllm", arch="12.1f"))
    for file in (file for step in plan.of_kind("rootfs") for file in step.files):
        shop.store.write_text(stored(shop.store, file), "a package")
    assert obstacles(shop, plan, {step.name: False for step in plan.steps}, tmp_path) == []


def test_a_plan_ends_with_what_would_stop_it(
    shop: Workshop, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mirror, "APT", tmp_path)
    plan = make_plan(shop, Request(engine="vllm", arch="12.1f"))
    absent = {step.name: False for step in plan.steps}
    found = Survey(engine=None, there=absent, needs=needs(shop, plan, absent, None))
    print_plan(shop, plan, found, as_json=False)
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("`image` would stop: no Debian mirror is known")
    print_plan(shop, plan, found, as_json=True)
    assert json.loads(capsys.readouterr().out)["problem"].startswith("no Debian mirror is known")
