"""What the store remembers of a build whose results lie in an engine or a builder."""

from pathlib import Path

from gb10.containers.connection import Endpoint, Engine
from gb10.core.store import Store
from gb10.image.build.kept_by_engine import IN_ENGINE, engine_folder
from gb10.image.build.stage import remember_built
from tests.golden.small import plan_for
from tests.golden.test_render import options


def test_steps_of_the_engine_are_marked_for_that_builder_alone(tmp_path: Path) -> None:
    store, plan = Store(tmp_path), plan_for(options("12.1f"))
    endpoint = Endpoint(host="unix:///s", origin="x")
    engine = Engine(kind="user", endpoint=endpoint, version="1", api="1", containerd=False, builder="mine")
    remember_built(store, engine, plan)
    section = engine_folder(engine)
    assert section == "built/builder-mine"
    marked = {step.key: step.name for step in plan.steps if store.entry(section, step.key).exists()}
    assert marked == {step.key: step.name for step in plan.steps if step.kind in IN_ENGINE}
    assert {step.kind for step in plan.steps} - {*IN_ENGINE}
    assert (
        store.entry(section, plan.of_kind("tools")[0].key).read_text(encoding="utf-8") == plan.of_kind("tools")[0].name
    )
