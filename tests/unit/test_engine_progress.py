"""Progress: BuildKit's rawjson becomes events."""

import base64
import json

import pytest

from gb10.engine.buildx.progress import (
    Event,
    LogLine,
    Note,
    RawJson,
    StepDone,
    StepFailed,
    StepStarted,
    Transfer,
)

RUN = {"digest": "sha256:1", "name": "[a 1/1] RUN make", "started": "2026-01-02T03:04:05.123456789Z"}
DONE = RUN | {"completed": "2026-01-02T03:04:06.6Z"}


def _log(text: str) -> dict[str, object]:
    return {"logs": [{"vertex": "sha256:1", "stream": 1, "data": base64.b64encode(text.encode()).decode()}]}


def _events(*values: object, indent: int | None) -> list[Event]:
    parser = RawJson()
    lines = [line for value in values for line in json.dumps(value, indent=indent).splitlines()]
    return [event for line in lines for event in parser.feed(line)]


@pytest.mark.parametrize("indent", [None, 2])
def test_a_step_from_start_to_end(indent: int | None) -> None:
    values = [{"vertexes": [RUN]}, _log("[1/2] a\n[2/"), _log("2] b\r\nrest"), {"vertexes": [DONE]}]
    step = "[a 1/1] RUN make"
    started, *lines, done = _events(*values, indent=indent)
    assert started == StepStarted(step)
    assert lines == [LogLine(step, "[1/2] a"), LogLine(step, "[2/2] b"), LogLine(step, "rest")]
    assert isinstance(done, StepDone)
    assert done.seconds == pytest.approx(1.476544)


def test_a_cached_step_and_a_mere_lookup() -> None:
    assert _events({"vertexes": [DONE | {"cached": True}]}, indent=None) == [StepDone("[a 1/1] RUN make", 0.0, True)]
    assert _events({"vertexes": [DONE]}, indent=None) == []


def test_a_failed_step() -> None:
    told = _events({"vertexes": [RUN]}, {"vertexes": [DONE | {"error": "exit code: 1"}]}, indent=None)
    assert told[-1] == StepFailed("[a 1/1] RUN make", "exit code: 1")


def test_a_transfer_and_buildx_own_words() -> None:
    status = {"id": "transferring context:", "vertex": "sha256:1", "name": "transferring", "current": 7}
    assert _events({"statuses": [status]}, indent=2) == [Transfer("sha256:1", "transferring", 7, 0)]
    assert list(RawJson().feed("ERROR: no builder")) == [Note("ERROR: no builder")]


def test_a_progress_bar_that_rewrites_its_line_is_told_once() -> None:
    told = _events({"vertexes": [RUN]}, _log("10%\r50%\r100%\n"), indent=None)
    assert told[-1] == LogLine("[a 1/1] RUN make", "100%")
