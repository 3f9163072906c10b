"""llama-benchy's progress, line by line: a watch on every stream, and the steps of every run."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from gb10.serving.guard.batch import judged_together, lockstep
from gb10.serving.guard.finding import Ending, Finding, Judgement
from gb10.serving.guard.judging import StreamWatch
from gb10.serving.guard.limits import Limits
from gb10.serving.load_generator.results import LoadRun, LoadStream

SCHEMA: Final = "llama-benchy-progress.v1"


@dataclass(slots=True)
class _Stream:
    """One request of the load."""

    run: int
    watch: StreamWatch
    sent: float
    arrived: list[float] = field(default_factory=list)
    first_tokens: int = 0
    tokens: int = 0
    prompt: int = 0
    error: str = ""
    ended: bool = False


class Progress:
    """Feed it lines; those that are no progress are ignored. ``sure`` is the first collapse of any stream."""

    def __init__(self, limits: Limits, *, forced: bool) -> None:
        self.limits = limits
        self.forced = forced
        self.sure: Finding | None = None
        self.status = ""
        """How llama-benchy says that it ended: ok, error, interrupted."""
        self.run = -1
        """The last run that has begun."""
        self._streams: dict[int, _Stream] = {}

    def feed(self, line: str) -> None:
        """Take one line of what llama-benchy prints."""
        if SCHEMA not in line[:60]:
            return
        try:
            event = json.loads(line)
            self._take(event)
        except (ValueError, KeyError, TypeError):
            self.status = self.status or "unreadable"

    def _take(self, event: Mapping[str, object]) -> None:
        kind = event["type"]
        if kind == "bench_complete":
            self.status = str(event["status"])
        if "request_id" not in event:
            return
        number, now = int(str(event["request_id"])), float(str(event["ts"]))
        if kind == "request_start":
            self.run = int(str(event["run_index"]))
            watch = StreamWatch(self.limits, forced=self.forced)
            self._streams[number] = _Stream(run=self.run, watch=watch, sent=now)
        elif kind == "tokens":
            self._text(self._streams[number], str(event["snippet"]), int(str(event["count"])), now)
        elif kind == "request_end":
            stream = self._streams[number]
            stream.tokens, stream.prompt = int(str(event["total_tokens"])), int(str(event["prompt_tokens"]))
            stream.error, stream.ended = str(event["error"]), True

    def _text(self, stream: _Stream, text: str, count: int, now: float) -> None:
        stream.first_tokens = stream.first_tokens if stream.arrived else count
        stream.arrived.append(now)
        stream.watch.feed(text)
        self.sure = self.sure or stream.watch.sure

    def runs(self, warm_up: int, *, canaries_right: bool | None) -> Iterator[LoadRun]:
        """Every run so far; the first ``warm_up`` are marked. Call it once, when llama-benchy has ended."""
        for number in sorted({stream.run for stream in self._streams.values()}):
            streams = [stream for stream in self._streams.values() if stream.run == number]
            alone = [_judged(stream) for stream in streams]
            texts = [stream.watch.text for stream in streams]
            together = judged_together(alone, texts, self.limits, canaries_right=canaries_right)
            seconds = [(stream.arrived[-1] - stream.sent) if stream.arrived else 0.0 for stream in streams]
            # Seconds from the first token of any stream to the last of any, as llama-benchy counts a batch.
            arrived = [stream.arrived for stream in streams if stream.arrived]
            yield LoadRun(
                index=number,
                warm_up=number < warm_up,
                streams=tuple(_frozen(stream, judged) for stream, judged in zip(streams, together, strict=True)),
                decode_s=max((one[-1] for one in arrived), default=0.0) - min((one[0] for one in arrived), default=0.0),
                hint=lockstep([stream.tokens for stream in streams], [None] * len(streams), seconds),
            )


def _judged(stream: _Stream) -> Judgement:
    """llama-benchy hides how a stream ends: only an error, or that it did not end, is known."""
    error = stream.error if stream.ended else "the benchmark was stopped while this stream ran"
    return stream.watch.judge(Ending(error=error) if error and not stream.watch.sure else None)


def _frozen(stream: _Stream, judgement: Judgement) -> LoadStream:
    return LoadStream(
        verdict=judgement.verdict,
        why=judgement.why,
        tokens=stream.tokens,
        first_tokens=stream.first_tokens,
        prompt_tokens=stream.prompt,
        steps=len(stream.arrived),
        decode_s=stream.arrived[-1] - stream.arrived[0] if stream.arrived else 0.0,
        first_token_s=stream.arrived[0] - stream.sent if stream.arrived else None,
        characters=judgement.characters,
    )
