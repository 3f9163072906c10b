"""The plan's document is what its published schema says, with and without what a machine adds."""

import json
from dataclasses import asdict

import jsonschema
import pytest

from gb10.image.build.estimate import Needs
from gb10.image.plan.catalog import ROOT
from gb10.image.plan.plan_record import record
from tests.golden.small import plan_for
from tests.golden.test_render import options

SCHEMA = json.loads((ROOT / "docs/schemas/plan-v1.schema.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("arch", ["12.1f", "12.1a", "12.0"])
def test_plans_follow_the_schema(arch: str) -> None:
    document = json.loads(json.dumps(plan_for(options(arch)).document()))
    jsonschema.validate(document, SCHEMA)
    bundled = {"source": "a", "project": "b", "name": "0001-c", "sha256": "d" * 64, "folder": "3rdparty/a"}
    jsonschema.validate(document | {"patches": [bundled]}, SCHEMA)
    present = {step["name"]: False for step in document["steps"]}
    needs = asdict(Needs(download=1, disk=2, memory=3, seconds=4.5))
    jsonschema.validate(document | {"hit": present, "needs": needs, "push": ["registry/a:b"]}, SCHEMA)
    jsonschema.validate(document | {"hit": present, "needs": needs, "unchecked": ["the patches of vllm: why"]}, SCHEMA)


def test_the_record_of_an_image_follows_the_schema() -> None:
    recorded = json.loads(json.dumps(record(plan_for(options("12.1f")))))
    jsonschema.validate(recorded, SCHEMA)
    assert "build" not in recorded


def test_the_schema_refuses_what_is_no_plan() -> None:
    document = plan_for(options("12.1f")).document()
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document | {"key": "short"}, SCHEMA)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document | {"surprise": 1}, SCHEMA)
