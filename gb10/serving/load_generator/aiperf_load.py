"""A load by aiperf: its records become runs of streams, their texts are judged by the guard when it has ended."""

from collections.abc import Mapping, Sequence
from typing import Any

from gb10.errors import VerifyError
from gb10.serving.guard.batch import judged_together, lockstep
from gb10.serving.guard.finding import Ending, Judgement, Verdict
from gb10.serving.guard.judging import StreamWatch
from gb10.serving.guard.limits import Limits
from gb10.serving.load_generator.aiperf import run_aiperf, settings
from gb10.serving.load_generator.benchy import Shape
from gb10.serving.load_generator.load_plan import Bench
from gb10.serving.load_generator.results import LoadResult, LoadRun, LoadStream

Record = Mapping[str, Any]


def aiperf_load(bench: Bench, shape: Shape) -> LoadResult:
    """Run aiperf on one level. It starts a request when another ends: a run is as many requests as run at once."""
    plan, concurrency = bench.plan, shape.concurrency
    exact = {"ignore_eos": True, "min_tokens": shape.answer} if plan.exact else {}
    config = settings(
        bench.endpoint,
        tokens=(shape.prompt, shape.answer),
        concurrency=concurrency,
        runs=plan.runs,
        warm_up=plan.warm_up,
        extra={**exact, **plan.extra},
    )
    try:
        found = run_aiperf(bench.host, bench.endpoint, config, bench.tokenizer, bench.log(shape))
    except VerifyError as error:
        return LoadResult(runs=lambda right: (), broken=f"{error.message}: {error.where}")
    return LoadResult(
        runs=lambda right: runs_of(found, concurrency, bench.limits, forced=plan.exact, right=right), own=found["own"]
    )


def runs_of(
    found: Mapping[str, Any], concurrency: int, limits: Limits, *, forced: bool, right: bool
) -> tuple[LoadRun, ...]:
    """Its records as runs, in the order in which requests were sent; those of its warm-up are marked. Pure."""
    ordered = sorted(found["records"], key=lambda one: int(one["metadata"]["request_start_ns"]))
    runs: list[LoadRun] = []
    for warm_up in (True, False):
        own = [one for one in ordered if (one["metadata"].get("benchmark_phase") == "warmup") is warm_up]
        for at in range(0, len(own), concurrency):
            records = own[at : at + concurrency]
            judged = _judged(records, found["texts"], limits, forced=forced, right=right)
            runs.append(_run(len(runs), records, judged, warm_up=warm_up))
    return tuple(runs)


def _judged(
    records: Sequence[Record], texts: Mapping[str, str], limits: Limits, *, forced: bool, right: bool
) -> Sequence[Judgement]:
    alone, texts_by_request = [], [texts.get(str(one["metadata"].get("x_request_id")), "") for one in records]
    for one, text in zip(records, texts_by_request, strict=True):
        watch = StreamWatch(limits, forced=forced)
        watch.feed(text)
        error = error_of(one)
        known = text or error or not _tokens(one)  # aiperf keeps no texts of its warm-up, and none of reasoning
        judgement = watch.judge(Ending(error=error) if error else None)
        alone.append(judgement if known else Judgement(verdict=Verdict.OK))
    return judged_together(alone, texts_by_request, limits, canaries_right=right)


def error_of(record: Record) -> str:
    """What aiperf says of a request that failed; empty for one that did not. Pure."""
    error = record.get("error")
    return str(error.get("message") or error)[:300] if isinstance(error, dict) else str(error or "")[:300]


def _run(index: int, records: Sequence[Record], judged: Sequence[Judgement], *, warm_up: bool) -> LoadRun:
    streams = tuple(_stream(one, judgement) for one, judgement in zip(records, judged, strict=True))
    starts = [int(one["metadata"]["request_start_ns"]) / 1e9 for one in records]
    first = [at + (one.first_token_s or 0) for at, one in zip(starts, streams, strict=True)]
    last = [at + one.decode_s for at, one in zip(first, streams, strict=True)]
    whole = [end - at for end, at in zip(last, starts, strict=True)]
    return LoadRun(
        index=index,
        warm_up=warm_up,
        streams=streams,
        decode_s=max(last) - min(first),
        hint=lockstep([one.tokens for one in streams], [None] * len(streams), whole),
    )


def _stream(record: Record, judgement: Judgement) -> LoadStream:
    gaps = _value(record, "inter_chunk_latency")
    between = [float(gap) / 1000 for gap in gaps] if isinstance(gaps, list) else []
    first = _value(record, "time_to_first_token")
    tokens = _tokens(record)
    steps = len(between) + 1 if first is not None else 0
    return LoadStream(
        verdict=judgement.verdict,
        why=judgement.why,
        tokens=tokens,
        first_tokens=max(1, round(tokens / steps)) if steps else 0,
        prompt_tokens=int(_value(record, "usage_prompt_tokens") or _value(record, "input_sequence_length") or 0),
        steps=steps,
        decode_s=sum(between),
        first_token_s=float(first) / 1000 if first is not None else None,
        characters=judgement.characters,
    )


def _tokens(record: Record) -> int:
    return int(_value(record, "usage_completion_tokens") or _value(record, "output_sequence_length") or 0)


def _value(record: Record, name: str) -> Any:  # noqa: ANN401 - a number or a list, as aiperf writes it
    found = record.get("metrics", {}).get(name)
    return found.get("value") if isinstance(found, dict) else None
