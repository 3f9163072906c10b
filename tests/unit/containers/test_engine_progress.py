"""Progress: BuildKit's rawjson becomes events."""

import base64
import io
import json
from pathlib import Path

import pytest

from gb10.containers.buildx.build import LAYER, PATIENCE, Pulls
from gb10.containers.buildx.progress import (
    IMPORT,
    Event,
    LogLine,
    Note,
    RawJson,
    Record,
    StepDone,
    StepFailed,
    StepStarted,
    Transfer,
)

PULL = "[image 1/2] FROM r.invalid/a@sha256:1"
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


@pytest.mark.parametrize(
    "events",
    [
        [StepFailed("[a 1/1] RUN make", "write /x: no space left on device")],  # BuildKit's own, at an export
        [
            LogLine("[a 1/1] RUN make", "tar: a: Cannot write: No space left on device"),
            StepFailed("[a 1/1] RUN make", "1"),
        ],
        [Note("ERROR: failed to receive status: write /run/buildx: disk quota exceeded")],
    ],
)
def test_a_full_disk_is_named_with_a_way_on(events: list[Event]) -> None:
    record = Record(out=io.StringIO(), log=Path("/logs/a.log"), on_event=lambda _: None)
    for event in events:
        record.take(event)
    error = record.error("image")
    assert error.message.startswith("a disk is full: ")
    assert "log: /logs/a.log" in (error.where or "")
    assert (error.hint or "").startswith(
        "free some on the disk of the store and on that of the engine: ./build.py cache"
    )


def test_another_failure_is_no_full_disk() -> None:
    record = Record(out=io.StringIO(), log=Path("/logs/a.log"), on_event=lambda _: None)
    record.take(LogLine("[b 1/1] RUN cp", "No space left on device"))  # of another step, that went on
    record.take(StepFailed("[a 1/1] RUN make", "exit code: 1"))
    error = record.error("image")
    assert (error.message, error.hint) == ("build step failed: [a 1/1] RUN make", None)


def test_a_transfer_and_buildx_own_words() -> None:
    status = {"id": "transferring context:", "vertex": "sha256:1", "name": "transferring", "current": 7}
    assert _events({"statuses": [status]}, indent=2) == [Transfer("sha256:1", "transferring", 7, 0)]
    assert list(RawJson().feed("ERROR: no builder")) == [Note("ERROR: no builder")]


def test_a_progress_bar_that_rewrites_its_line_is_told_once() -> None:
    told = _events({"vertexes": [RUN]}, _log("10%\r50%\r100%\n"), indent=None)
    assert told[-1] == LogLine("[a 1/1] RUN make", "100%")


@pytest.mark.parametrize(
    "step", [PULL, "[internal] load metadata for r.invalid/a:1", f"{IMPORT} from r.invalid/cache", "docker-image://a"]
)
def test_a_pull_that_stands_still_gives_no_sign_of_life(step: str) -> None:
    waits = Pulls()
    for event in (StepStarted(step), Transfer(step, "sha256:1", 7, 9)):
        waits.take(event)
    before = waits.sign(0)
    waits.take(Transfer(step, "sha256:1", 7, 9))  # BuildKit repeats it
    assert (waits.sign(0), waits.waiting) == (before, (step,))
    waits.take(Transfer(step, "sha256:1", 8, 9))
    assert waits.sign(0) != before


EXPORTING = "exporting cache to registry"


def test_a_cache_export_that_stands_still_is_ended_after_the_time_of_a_layer() -> None:
    now = 0.0
    waits = Pulls(clock=lambda: now)
    waits.take(StepStarted(EXPORTING))
    waits.take(Transfer(EXPORTING, "writing layer sha256:1", 0, 0))
    now = LAYER - PATIENCE - 1
    assert waits.sign(0) != waits.sign(0)  # a layer may take long: BuildKit counts no bytes
    now += 1
    before = waits.sign(0)
    waits.take(Transfer(EXPORTING, "writing layer sha256:1", 0, 0))  # BuildKit repeats it
    assert waits.sign(0) == before
    text = str(waits.error("image", Path("/log")))
    assert text.startswith("error: a cache export finished no layer for 7200 s: the build of image was ended\n")
    assert "without --cache-to" in text
    waits.take(Transfer(EXPORTING, "writing layer sha256:1", 0, 0, whole=True))
    assert waits.sign(0) != waits.sign(0)


def test_a_compile_beside_a_cache_export_may_be_silent() -> None:
    waits = Pulls(clock=lambda: 2 * LAYER)
    for step in (EXPORTING, "[a 1/1] RUN make"):
        waits.take(StepStarted(step))
    waits.since = 0.0
    assert waits.sign(0) != waits.sign(0)
    waits.running.discard("[a 1/1] RUN make")
    assert waits.sign(0) == waits.sign(0)


def test_the_end_of_a_layer_is_read_from_the_progress() -> None:
    ended = {"id": "writing layer", "vertex": "sha256:1", "completed": "2026-01-01T00:00:00Z"}
    events = _events({"vertexes": [RUN], "statuses": [ended]}, indent=None)
    assert isinstance(events[-1], Transfer)
    assert events[-1].whole


@pytest.mark.parametrize("step", ["[a 1/1] RUN make", "[context base] load from client", "exporting to image"])
def test_a_step_that_may_be_silent_is_a_sign_of_life(step: str) -> None:
    waits = Pulls()
    for event in (StepStarted(PULL), StepStarted(step)):
        waits.take(event)
    assert (waits.sign(0) == waits.sign(0), waits.waiting) == (False, ())
    waits.take(StepDone(step, 1.0, False))
    assert waits.sign(0) == waits.sign(0)
    waits.take(StepFailed(PULL, "gone"))
    assert waits.sign(0) != waits.sign(0)  # nothing runs: buildx itself works
