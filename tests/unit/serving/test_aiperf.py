"""aiperf's records, as release 0.13.0 wrote them, become runs; its settings hold no key."""

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from gb10.errors import UsageError
from gb10.serving.guard.finding import Verdict
from gb10.serving.load_generator.aiperf import find_aiperf, settings
from gb10.serving.load_generator.aiperf_load import runs_of
from gb10.serving.load_generator.canary_batch import guard_limits
from gb10.serving.load_generator.endpoint import Endpoint

RECORDED: dict[str, Any] = json.loads((Path(__file__).parents[1] / "data/aiperf.json").read_text(encoding="utf-8"))
RATE = 200


def runs(found: dict[str, Any]) -> list[Any]:
    return list(runs_of(found, 2, guard_limits(), forced=False, right=True))


def test_records_become_runs_with_steps_and_tokens() -> None:
    warm, *steady = runs(RECORDED)
    assert warm.warm_up
    assert [len(run.streams) for run in (warm, *steady)] == [1, 2, 2]
    for run in steady:
        assert [stream.verdict for stream in run.streams] == [Verdict.OK, Verdict.OK]
        assert run.steps_s == pytest.approx(RATE, rel=0.15)
        assert run.tokens_per_step == pytest.approx(3, rel=0.02)
        assert run.tok_s == pytest.approx(2 * 3 * RATE, rel=0.3)
        assert 0 < run.first_token_s < 1


def test_collapsed_text_and_failed_requests_have_their_verdict() -> None:
    found = deepcopy(RECORDED)
    failed, flooded = found["records"][1], found["records"][2]
    failed["error"], failed["metrics"] = {"message": "Internal Server Error", "code": 500}, {}
    found["texts"][failed["metadata"]["x_request_id"]] = ""
    found["texts"][flooded["metadata"]["x_request_id"]] = "!" * 400
    verdicts = {stream.verdict: stream.why for run in runs(found) for stream in run.streams}
    assert verdicts[Verdict.ERROR] == "Internal Server Error"
    assert Verdict.GARBAGE in verdicts


def test_times_of_aiperf_are_milliseconds_and_ours_seconds() -> None:
    found = deepcopy(RECORDED)
    for record in found["records"]:
        record["metrics"]["time_to_first_token"]["value"] = 250
    assert {stream.first_token_s for run in runs(found) for stream in run.streams} == {0.25}


def test_its_settings_name_the_key_and_do_not_hold_it() -> None:
    endpoint = Endpoint(url="http://a:1/v1", model="m", key="sesame")
    made = settings(endpoint, tokens=(100, 50), concurrency=4, runs=3, warm_up=0, extra={"temperature": 0})
    assert "sesame" not in json.dumps(made)
    assert made["benchmark"]["endpoint"]["api_key"] == "${GB10_LOAD_KEY}"
    assert made["benchmark"]["profiling"] == {"type": "concurrency", "concurrency": 4, "requests": 12}
    assert "warmup" not in made["benchmark"]


def test_without_aiperf_the_error_says_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="aiperf is not installed") as caught:
        find_aiperf({"PATH": str(tmp_path)})
    assert "pip install" in str(caught.value)
