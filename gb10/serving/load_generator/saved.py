"""Streams that were saved: events of a server, llama-benchy's progress, answers a line, or plain text. Judged again."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from gb10.errors import UsageError
from gb10.serving.guard.batch import judged_together
from gb10.serving.guard.delta import REASONING, parse_delta
from gb10.serving.guard.finding import Ending, Finding, Judgement, Verdict, worst
from gb10.serving.guard.judging import StreamWatch
from gb10.serving.guard.limits import Limits
from gb10.serving.load_generator.load_progress import SCHEMA
from gb10.serving.load_generator.stream_client import DONE, message_of

ANSWER: Final = ("content", "text", "response", "output", "answer", "completion")
"""Names that tools give to an answer in a line of JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedStream:
    """One stream of a file; ``batch``: those of one batch have the same, None for a stream of its own."""

    name: str
    judgement: Judgement
    text: str
    batch: str | None = None


def judge_saved(
    text: str, limits: Limits, *, forced: bool = False, same_prompt: bool = False
) -> tuple[SavedStream, ...]:
    """Every stream of a file, judged; those of one batch against each other, unless their prompt was the same.

    Raises UsageError when there is none. Pure.
    """
    lines = [line.strip() for line in text.split("\n")]
    objects = [found for line in lines if (found := _object(line)) is not None]
    filled = sum(bool(line) for line in lines)
    if not objects or len(objects) < filled // 2:
        watch = StreamWatch(limits, forced=forced)
        watch.feed(text)
        return (SavedStream(name="text", judgement=watch.judge(), text=watch.text),)
    if any(str(one.get("schema")) == SCHEMA for one in objects):
        streams = _of_progress(objects, limits, forced=forced)
    elif any("choices" in one or "error" in one for one in objects):
        streams = [_of_events(objects, f"data: {DONE}" in text or f"data:{DONE}" in text, limits, forced=forced)]
    else:
        streams = list(_of_answers(objects, limits, forced=forced))
    if not streams:
        raise UsageError("no stream in this progress of llama-benchy", hint="it has no request_start: is it whole?")
    return tuple(streams if same_prompt else together(streams, limits))


def together(streams: Sequence[SavedStream], limits: Limits) -> list[SavedStream]:
    """Streams of one batch against each other. Pure."""
    found: list[SavedStream] = []
    for batch in dict.fromkeys(stream.batch for stream in streams):
        members = [stream for stream in streams if stream.batch == batch]
        judged = [stream.judgement for stream in members]
        if batch is not None:
            judged = list(judged_together(judged, [stream.text for stream in members], limits, canaries_right=None))
        found += [replace(stream, judgement=one) for stream, one in zip(members, judged, strict=True)]
    return found


def _object(line: str) -> Mapping[str, object] | None:
    """The object of a line, with or without ``data:`` before it."""
    body = line.removeprefix("data:").strip()
    if not body.startswith("{"):
        return None
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _of_events(objects: Sequence[Mapping[str, object]], done: bool, limits: Limits, *, forced: bool) -> SavedStream:
    watch, ending, unreadable = StreamWatch(limits, forced=forced), Ending(done=done), 0
    for one in objects:
        if one.get("error"):
            ending = replace(ending, error=f"the server reported in its stream: {message_of(one)}")
        try:
            deltas = tuple(parse_delta(one))
        except ValueError:
            unreadable += 1
            continue
        for choice in deltas:
            watch.feed(choice.reasoning, "reasoning")
            watch.feed(choice.content)
            reason = choice.finish_reason or ending.finish_reason
            ending = replace(ending, finish_reason=reason, tool_calls=ending.tool_calls + choice.tool_calls)
    judgement = watch.judge(ending)
    if unreadable:
        what = f"{unreadable} of {len(objects)} events are not readable"
        finding = Finding(verdict=Verdict.SUSPECT, sign="events", at=0, onset=0, what=what)
        verdict = worst([judgement.verdict, finding.verdict])
        judgement = replace(judgement, verdict=verdict, findings=(*judgement.findings, finding))
    return SavedStream(name="stream", judgement=judgement, text=watch.text)


def _of_progress(objects: Sequence[Mapping[str, object]], limits: Limits, *, forced: bool) -> list[SavedStream]:
    """llama-benchy's progress: a batch is a run of one shape."""
    watches: dict[str, StreamWatch] = {}
    batches: dict[str, str] = {}
    errors: dict[str, str] = {}
    for one in objects:
        number = str(one.get("request_id"))
        if one.get("type") == "request_start":
            watches[number] = StreamWatch(limits, forced=forced)
            names = ("prompt_size", "response_size", "context_size", "concurrency", "run_index")
            batches[number] = " ".join(str(one.get(name)) for name in names)
        elif one.get("type") == "tokens" and number in watches:
            watches[number].feed(str(one.get("snippet", "")))
        elif one.get("type") == "request_end":
            errors[number] = str(one.get("error") or "")
    return [
        SavedStream(
            name=f"request {number}",
            judgement=watch.judge(Ending(error=errors[number]) if errors.get(number) else None),
            text=watch.text,
            batch=batches[number],
        )
        for number, watch in watches.items()
    ]


def _of_answers(objects: Sequence[Mapping[str, object]], limits: Limits, *, forced: bool) -> Iterator[SavedStream]:
    """An answer a line, all of one batch."""
    for number, one in enumerate(objects, 1):
        watch = StreamWatch(limits, forced=forced)
        for name in REASONING:
            watch.feed(str(one.get(name) or ""), "reasoning")
        for name in ANSWER:
            watch.feed(str(one.get(name) or ""))
        yield SavedStream(name=f"line {number}", judgement=watch.judge(), text=watch.text, batch="lines")
