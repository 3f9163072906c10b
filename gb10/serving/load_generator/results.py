"""What a benchmark of an endpoint found, as frozen values and as a document with a schema. Pure."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Final

from gb10.serving.guard.canary import AnswerKind
from gb10.serving.guard.finding import Finding, Verdict, worst
from gb10.serving.load_generator.canary_batch import CanaryBatch
from gb10.serving.load_generator.exchange import flaws, summed
from gb10.serving.load_generator.server_pages import ServerCounts

SCHEMA: Final = "gb10/serve/v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadStream:
    """One request of the load. Times in seconds."""

    verdict: Verdict
    why: str
    tokens: int
    """By the server's usage where it sends one."""
    first_tokens: int
    """Tokens of the first event with text."""
    prompt_tokens: int
    steps: int
    """Events with text: one per step of the engine, unless something batches them."""
    decode_s: float
    first_token_s: float | None
    characters: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadRun:
    """Requests that were sent at one moment."""

    index: int
    warm_up: bool
    streams: tuple[LoadStream, ...]
    decode_s: float
    """From the first token of any stream to the last of any."""
    hint: str = ""

    @property
    def tok_s(self) -> float | None:
        """Tokens a second of all streams together, first ones apart: llama-benchy's tg throughput."""
        tokens = sum(max(0, one.tokens - one.first_tokens) for one in self.streams)
        return tokens / self.decode_s if tokens and self.decode_s > 0 else None

    @property
    def steps_s(self) -> float | None:
        """Steps a second of one stream, mean over the streams."""
        rates = [(one.steps - 1) / one.decode_s for one in self.streams if one.steps > 1 and one.decode_s > 0]
        return statistics.fmean(rates) if rates else None

    @property
    def tokens_per_step(self) -> float | None:
        """Tokens a step: above 1 with speculation."""
        steps = sum(one.steps for one in self.streams)
        tokens = sum(one.tokens for one in self.streams)
        return tokens / steps if steps and tokens else None

    @property
    def first_token_s(self) -> float | None:
        """Median over the streams of the time to the first token."""
        found = [one.first_token_s for one in self.streams if one.first_token_s is not None]
        return statistics.median(found) if found else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """One answer length at one number of requests at once: canaries, the load, canaries again."""

    answer: int
    """Most tokens of an answer of the load."""
    concurrency: int
    runs: tuple[LoadRun, ...] = ()
    canaries: tuple[CanaryBatch, ...]
    """Before the load, beside its warm-up, after it."""
    verdict: Verdict
    why: str
    own: Mapping[str, object] = field(default_factory=dict)
    """The load generator's own result, to quote; empty when it was stopped. llama-benchy's means count warm-up runs."""
    doubts: tuple[str, ...] = ()
    """What speaks against these figures: clocks, heat, power, a cold start."""
    looks: tuple[Mapping[str, object], ...] = ()
    """Facts of the machine while the load ran."""
    counted: ServerCounts = field(default_factory=ServerCounts)
    """What the server's own counters gained."""

    @property
    def steady(self) -> tuple[LoadRun, ...]:
        """The runs that count."""
        return tuple(run for run in self.runs if not run.warm_up)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeResult:
    """A whole benchmark."""

    run_id: str
    started: str
    endpoint: str
    """Without a password."""
    model: str
    boot: str
    """The launch of the server that was measured: the unit that statistics must compare."""
    settings: Mapping[str, object]
    machine: Mapping[str, object]
    """Facts of the machine that sent the requests, before the first one."""
    at_start: tuple[str, ...]
    """What spoke against figures before the first request: other work on the machine, on its GPU, on the server."""
    unknown: tuple[str, ...]
    """Conditions that this machine does not tell."""
    server: Mapping[str, object]
    """What the server says of its release and settings."""
    alone: CanaryBatch
    """Canaries one at a time: what the model can do."""
    levels: tuple[Level, ...]

    @property
    def verdict(self) -> Verdict:
        """The worst of all levels."""
        return worst([level.verdict for level in self.levels])

    @property
    def lengths(self) -> tuple[int, ...]:
        """The answer lengths, in the order in which they were measured."""
        return tuple(dict.fromkeys(level.answer for level in self.levels))

    def place(self, level: Level) -> str:
        """How a level is called."""
        return place(level.answer, level.concurrency, several=len(self.lengths) > 1)

    @property
    def doubts(self) -> tuple[str, ...]:
        """What speaks against the figures, each sentence once."""
        levels = (f"{self.place(level)}: {doubt}" for level in self.levels for doubt in level.doubts)
        return tuple(dict.fromkeys((*self.at_start, *levels)))

    @property
    def flaws(self) -> tuple[str, ...]:
        """What the streams of all canaries claim and do not keep."""
        batches = (self.alone, *(batch for level in self.levels for batch in level.canaries))
        return summed([flaws(one) for batch in batches for one in batch.exchanges])

    @property
    def why(self) -> str:
        """The sentence of the worst level."""
        return next((level.why for level in self.levels if level.verdict is self.verdict), "")

    def document(self) -> dict[str, object]:
        """The benchmark as JSON: docs/schemas/serve-v1.schema.json."""
        return {
            "schema": SCHEMA,
            "run_id": self.run_id,
            "started": self.started,
            "endpoint": self.endpoint,
            "model": self.model,
            "boot": self.boot,
            "settings": dict(self.settings),
            "machine": dict(self.machine),
            "doubts": list(self.doubts),
            "unknown": list(self.unknown),
            "server": dict(self.server),
            "canaries_alone": _canaries(self.alone),
            "levels": [_level(level) for level in self.levels],
            "verdict": str(self.verdict),
            "why": self.why,
        }


def _level(level: Level) -> dict[str, object]:
    return {
        "answer": level.answer,
        "concurrency": level.concurrency,
        "verdict": str(level.verdict),
        "why": level.why,
        "canaries": [_canaries(batch) for batch in level.canaries],
        "runs": [
            {
                **{name: getattr(run, name) for name in ("index", "warm_up", "decode_s", "hint")},
                **{name: getattr(run, name) for name in ("tok_s", "steps_s", "tokens_per_step", "first_token_s")},
                "streams": [asdict(stream) for stream in run.streams],
            }
            for run in level.runs
        ],
        "looks": [dict(look) for look in level.looks],
        "counted": asdict(level.counted),
        "generator": dict(level.own),
    }


def _canaries(batch: CanaryBatch) -> dict[str, object]:
    answers = [one.answered for one in batch.answers]
    return {
        "when": batch.when,
        "count": len(answers),
        "right": batch.right,
        "answers": {str(kind): answers.count(kind) for kind in AnswerKind if kind in answers},
        "verdicts": [str(one.verdict) for one in batch.judgements],
        "flaws": list(summed([flaws(one) for one in batch.exchanges])),
    }


def place(answer: int, concurrency: int, *, several: bool) -> str:
    """``4 at once``; of several answer lengths ``512 tokens out, 4 at once``. Pure."""
    return f"{answer:,} tokens out, {concurrency} at once" if several else f"{concurrency} at once"


def mean_of(runs: Sequence[LoadRun], name: str) -> float | None:
    """The mean of a figure over runs; None when a run lacks it, or there is none."""
    found = [getattr(run, name) for run in runs]
    return statistics.fmean(found) if found and None not in found else None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadResult:
    """One load. ``runs`` judges its streams, once it is known whether the canaries were right."""

    runs: Callable[[bool], tuple[LoadRun, ...]]
    own: Mapping[str, object] = field(default_factory=dict)
    broken: str = ""
    beside: tuple[CanaryBatch, ...] = ()
    sure: Finding | None = None
    """The first collapse of a stream, which ended the load."""
