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
FAULTS = ("batches", *STEPS)


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


@pytest.mark.parametrize(
    ("planted", "other", "code", "result"),
    [("", "never", 0, "holds"), ("batch drafts switch", "always", 9, "does not hold")],
    ids=["a right engine", "a fault for each step"],
)
def test_faults_that_are_planted_into_the_engine_are_found(  # noqa: PLR0917 - a row
    planted: str,
    other: str,
    code: int,
    result: str,
    store: Store,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Wrong tokens for five requests at once, for drafts of three and more, by the switch, and under other settings.

    The model copies its prompt: canaries are right, and n-grams draft them.
    """
    with vllm_cpu.two_machines(store, tmp_path) as found:
        machine = found.machines[0]
        vllm_cpu.give_copier(machine.engine, tmp_path)
        monkeypatch.setenv("PATH", found.env["PATH"])
        recipe = vllm_cpu.copier_recipe(tmp_path, planted)
        wanted = [word for step in FAULTS for word in ("--step", step)]
        served = ("--recipe", str(recipe), "--nodes", machine.host, "--no-gpus", "--most", "5")
        words = (*served, "--against", f"env.PLANTED={other}", *wanted, "--out", str(tmp_path / "r"), "--json")
        ended, printed, said = called("selftest", *words)
        assert containers(machine.engine) == []
    print(said, printed)
    steps = {one["id"]: one for one in json.loads(printed)["steps"]}
    results = {name: steps[name]["result"] for name in FAULTS}
    if not planted and results["batches"] == "not checked":  # its answers take milliseconds, and may not overlap
        assert "answers met" in steps["batches"]["why"]
        ended, results["batches"] = 0 if ended == 13 else ended, result
    assert (ended, results) == (code, dict.fromkeys(FAULTS, result))
    assert steps["drafts"]["claims"]["drafts.right"] == {"value": not planted}
    if planted:
        assert "5 at once" in steps["batches"]["why"] and "4 at once" not in steps["batches"]["why"]
        assert "3 at once" in steps["drafts"]["why"] and "2 at once" not in steps["drafts"]["why"]
        assert "GB10_CUTLASS_MOE=0: question 1 parts" in steps["switches"]["why"]
