"""One launch: the server is started, measured as ``bench serve`` does, and ended; whatever happens has its outcome."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from gb10.core.store import file_sha256
from gb10.errors import EndpointError, EngineError, Gb10Error, PublishError, ServeError, VerifyError
from gb10.image.context import Context
from gb10.serving.benchmark.launch_line import Outcome, Result, result_of
from gb10.serving.benchmark.launcher import Launched, Launcher
from gb10.serving.load_generator.bench_endpoint import serve
from gb10.serving.load_generator.benchy import Book, find_tokenizer
from gb10.serving.load_generator.endpoint import reach
from gb10.serving.load_generator.load_plan import Bench, Plan, make_bench
from gb10.serving.load_generator.quality import Exam, Quality, examine
from gb10.serving.load_generator.results import ServeResult
from gb10.serving.run.watching import error_line

FAILURES = (ServeError, EndpointError, VerifyError, EngineError, PublishError)
"""What is an outcome of a launch; other errors are of the command line, and end the whole."""


START: Final = 300
"""Characters of an answer that are kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """How each launch is measured."""

    plan: Plan
    model: str | None
    tokenizer: Path | None
    book: Book
    exam: Exam | None = None
    """What a judge asks after the load; None leaves it to the canaries."""

    @property
    def document(self) -> dict[str, object]:
        """All of it that decides a figure."""
        tokenizer = file_sha256(self.tokenizer) if self.tokenizer and self.tokenizer.is_file() else None
        judge = self.exam.judge if self.exam else "canaries"
        return {
            "plan": self.plan.document,
            "model": self.model,
            "tokenizer": tokenizer,
            "book": self.book.sha256,
            "judge": judge,
        }


def measure_launch(ctx: Context, launcher: Launcher, measure: Measure, boot: str) -> Outcome:
    """Launch, measure, end. ``boot`` names the launch in its result. Raises UsageError, FetchError."""
    begun = time.monotonic()
    try:
        with launcher() as launched:
            outcome = _outcome(ctx, launched, measure, boot)
    except FAILURES as error:
        outcome = _failed(error)
    return replace(outcome, seconds=time.monotonic() - begun)


def _failed(error: Gb10Error) -> Outcome:
    cause = (error.where or "").splitlines()
    return Outcome(result=Result.FAIL, why=error.message, cause=cause[0] if cause else "", facts={}, error=str(error))


def _outcome(ctx: Context, launched: Launched, measure: Measure, boot: str) -> Outcome:
    try:
        endpoint = reach(launched.url, measure.model, ctx.env)
        tokenizer = find_tokenizer(measure.tokenizer, endpoint.model, ctx.env)
        bench = make_bench(ctx, endpoint, replace(measure.plan, boot=boot), tokenizer, measure.book)
        served = serve(bench)
        quality = _quality(ctx, bench, measure, served)
    except FAILURES as error:
        failed = _failed(error)
        ended = launched.ended()
        cause = cause_in(launched, ended) or failed.cause
        return replace(failed, why=f"{failed.why}: {ended}" if ended else failed.why, cause=cause, facts=launched.facts)
    ended = launched.ended()
    result = result_of(served.verdict, ended)
    return Outcome(
        result=result,
        why=f"the server ended: {ended}" if ended else "" if result is Result.STABLE else served.why,
        cause=cause_in(launched, ended) if result is not Result.STABLE else "",
        facts=launched.facts,
        serve=served.document(),
        quality=quality,
        answers=tuple(_answers(served)),
    )


def cause_in(launched: Launched, ended: str) -> str:
    """The line that tells of an error: of the rank that ended, else of the first rank that has one; empty without."""
    ranks = launched.logs() or {"": launched.log()}
    order = sorted(ranks, key=lambda rank: not (rank and ended.startswith(f"{rank}:")))
    found = ((rank, error_line(ranks[rank])) for rank in order)
    rank, line = next(((rank, line) for rank, line in found if line), ("", ""))
    return f"{rank}: {line}" if rank and len(ranks) > 1 else line or ""


def _answers(served: ServeResult) -> Iterator[str]:
    """How each canary's answer begins, with what was found of it."""
    batches = [("alone", served.alone)]
    batches += [(served.place(level), batch) for level in served.levels for batch in level.canaries]
    for name, batch in batches:
        for answer, exchange in zip(batch.answers, batch.exchanges, strict=True):
            text = " ".join((exchange.content or exchange.reasoning).split())[:START]
            yield f"{name}, {batch.when}: {answer.answered}: {text or exchange.error or '(no text)'}"


def _quality(ctx: Context, bench: Bench, measure: Measure, served: ServeResult) -> Quality:
    """What the judge says, or the canaries of all batches; a judge is not asked about answers that are bad."""
    if measure.exam is not None and not served.verdict.bad:
        with ctx.reporter.task(f"questions of {measure.exam.judge}"):
            return examine(ctx, bench.endpoint, measure.exam, ctx.store.root / f"logs/quality-{bench.run_id}.log")
    batches = [served.alone, *(batch for level in served.levels for batch in level.canaries)]
    right, count = sum(batch.right for batch in batches), sum(len(batch.answers) for batch in batches)
    return Quality(judge="canaries", what="code and fact", points=right, of=count)
