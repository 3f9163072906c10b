"""`selftest` of the real vLLM for the CPU: answers with drafts and without, under a switch, and of another model."""

import json
from pathlib import Path

import jsonschema
import pytest

from gb10.core.installation import ROOT
from gb10.core.store import Store
from tests.e2e import vllm_cpu
from tests.integration.services import called, containers

pytestmark = pytest.mark.e2e
SCHEMA = json.loads((ROOT / "docs/schemas/selftest-v1.schema.json").read_text(encoding="utf-8"))
STEPS = ("drafts", "switches", "against")


def test_each_other_server_has_one_change(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model of made words: vLLM drafts for it, and its canaries are wrong with drafts and without.

    It has no experts, so no layer obeys the switch. The other model is a planted fault: its answers part.
    """
    with vllm_cpu.two_machines(store, tmp_path) as found:
        machine = found.machines[0]
        vllm_cpu.give_talker([machine.engine], tmp_path)
        monkeypatch.setenv("PATH", found.env["PATH"])
        recipe = vllm_cpu.recipe(tmp_path, nodes=1)
        other = f"image={vllm_cpu.TALKER} weights=/opt/talker"
        wanted = [word for step in STEPS for word in ("--step", step)]
        served = ("--recipe", str(recipe), "--nodes", machine.host, "--no-gpus", "--against", other)
        code, printed, said = called("selftest", *served, *wanted, "--out", str(tmp_path / "r"), "--json")
        assert containers(machine.engine) == []
    print(said, printed)
    document = json.loads(printed)
    jsonschema.validate(document, SCHEMA)
    steps = {one["id"]: one for one in document["steps"]}
    assert code == 9
    assert {name: steps[name]["result"] for name in ("server", "greedy", *STEPS)} == {
        **{"server": "holds", "greedy": "holds", "drafts": "not checked", "switches": "not checked"},
        "against": "does not hold",
    }
    assert steps["drafts"]["claims"] == {"drafts.same": {"value": 8}, "drafts.of": {"value": 8}}
    assert "canaries are wrong without drafts, too" in steps["drafts"]["why"]
    assert "the log does not name GB10_CUTLASS_MOE=0" in steps["switches"]["why"]
    assert "question 1 parts" in steps["against"]["why"]
    for path in (tmp_path / "r").iterdir():
        assert machine.address not in path.read_text(encoding="utf-8"), path.name
