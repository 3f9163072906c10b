"""Benchmarks an endpoint: canaries alone, then for each number of requests canaries, load, canaries."""

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Final

from gb10.errors import VerifyError
from gb10.guard.canary import Canary, make_canaries
from gb10.guard.finding import Finding, Verdict, worst
from gb10.guard.limits import Limits
from gb10.host.fetch import redact
from gb10.host.host import Host
from gb10.host.store import file_sha256
from gb10.load.benchy import VERSION, Book, Shape, install, run
from gb10.load.canary_batch import CanaryBatch, ask_canaries, canary_verdict, joined
from gb10.load.endpoint import Endpoint
from gb10.load.guard_data import guard_facts, guard_limits
from gb10.load.load_progress import Progress
from gb10.load.machine_facts import boot_id, machine_facts
from gb10.load.results import Level, LoadRun, Served

ALONE: Final = 8
"""Canaries that are asked one at a time."""
BESIDE: Final = 2
"""Canaries that are sent with the requests of each warm-up run: its figures do not count."""


class _CollapsedError(Exception):
    """A stream of the load collapsed: the rest of the load would measure nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to measure: tokens, requests at once, runs."""

    prompt: int
    answer: int
    depth: int
    concurrency: tuple[int, ...]
    runs: int
    warm_up: int
    exact: bool
    canary_tokens: int
    extra: Mapping[str, object]
    boot: str = ""

    def shape(self, concurrency: int) -> Shape:
        """One level for llama-benchy."""
        return Shape(
            prompt=self.prompt,
            answer=self.answer,
            depth=self.depth,
            concurrency=concurrency,
            runs=self.runs + self.warm_up,
            exact=self.exact,
            extra=self.extra,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """A plan with what it needs."""

    host: Host
    endpoint: Endpoint
    plan: Plan
    tokenizer: Path
    book: Book
    limits: Limits
    run_id: str

    def canaries(self, count: int, when: str) -> tuple[Canary, ...]:
        """New ones for one batch."""
        return make_canaries(count, guard_facts(), f"{self.run_id} {when}")

    def ask(self, canaries: Sequence[Canary], when: str) -> CanaryBatch:
        """Send them at once."""
        return ask_canaries(
            self.endpoint,
            canaries,
            self.host.env,
            self.limits,
            max_tokens=self.plan.canary_tokens,
            extra=self.plan.extra,
            when=when,
        )


def make_bench(host: Host, endpoint: Endpoint, plan: Plan, tokenizer: Path, book: Book) -> Bench:
    """A bench with a name of its own; installs llama-benchy. Raises FetchError, UsageError."""
    install(host)
    return Bench(
        host=host,
        endpoint=endpoint,
        plan=plan,
        tokenizer=tokenizer,
        book=book,
        limits=guard_limits(),
        run_id=uuid.uuid4().hex,
    )


def serve(bench: Bench) -> Served:
    """Measure every level; stops after one whose answers are garbage. Raises FetchError, UsageError."""
    host, plan = bench.host, bench.plan
    started, machine = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), machine_facts(host.env)
    with host.talk.task(f"{ALONE} canaries, one at a time"):
        alone = joined([bench.ask([canary], "alone") for canary in bench.canaries(ALONE, "alone")])
    levels: list[Level] = []
    for concurrency in plan.concurrency:
        with host.talk.task(f"{concurrency} at once: {plan.warm_up} + {plan.runs} runs, canaries before and after"):
            levels.append(measure_level(bench, concurrency, alone))
        if levels[-1].verdict is Verdict.GARBAGE:
            break
    return Served(
        run_id=bench.run_id,
        started=started,
        endpoint=redact(bench.endpoint.url),
        model=bench.endpoint.model,
        boot=plan.boot or boot_id(),
        settings=_settings(bench),
        machine={**machine, "load_1min_after": machine_facts(host.env)["load_1min"]},
        alone=alone,
        levels=tuple(levels),
    )


def _settings(bench: Bench) -> dict[str, object]:
    plan = bench.plan
    book = {"name": bench.book.name, "sha256": bench.book.sha256}
    own = {field.name: getattr(plan, field.name) for field in fields(plan) if field.name != "boot"}
    tools = {"llama_benchy": VERSION, "tokenizer": file_sha256(bench.tokenizer), "book": book}
    return {**own, "concurrency": list(plan.concurrency), "extra": dict(plan.extra), **tools}


def measure_level(bench: Bench, concurrency: int, alone: CanaryBatch) -> Level:
    """Canaries, the load, canaries; no load when the canaries before it are garbage."""
    plan = bench.plan
    batches = [bench.ask(bench.canaries(concurrency, f"{concurrency} before"), "before")]
    said = [canary_verdict(batches[0], alone)]
    if said[0][0] is Verdict.GARBAGE:
        bench.host.talk.say("the canaries before the load are garbage, so the load is left out")
        return Level(concurrency=concurrency, canaries=tuple(batches), verdict=said[0][0], why=said[0][1])
    progress = Progress(bench.limits, forced=plan.exact)
    own, broken, beside = load(bench, concurrency, progress)
    batches += [*beside, bench.ask(bench.canaries(concurrency, f"{concurrency} after"), "after")]
    said += [canary_verdict(batch, alone) for batch in batches[1:]]
    right = not any(verdict is Verdict.GARBAGE for verdict, _ in said)
    runs = tuple(progress.runs(plan.warm_up, canaries_right=right))
    said += [(Verdict.ERROR, broken)] if broken else []
    verdict, why = level_verdict(runs, said, progress.sure, plan.warm_up + plan.runs)
    return Level(
        concurrency=concurrency, runs=runs, canaries=tuple(batches), verdict=verdict, why=why, llama_benchy=own
    )


def load(
    bench: Bench, concurrency: int, progress: Progress
) -> tuple[Mapping[str, object], str, tuple[CanaryBatch, ...]]:
    """Run llama-benchy: its result, how it failed, canaries beside its warm-up. Its streams are in ``progress``."""
    log = bench.host.store.root / f"logs/load-{bench.run_id}-{concurrency}.log"
    own: Mapping[str, object] = {}
    broken = ""
    with ThreadPoolExecutor(1) as pool:
        asked: list[Future[CanaryBatch]] = []

        def beside(number: int) -> None:
            canaries = bench.canaries(BESIDE, f"{concurrency} beside {number}")
            asked.append(pool.submit(bench.ask, canaries, "beside"))

        try:
            own = run(
                bench.host,
                bench.endpoint,
                bench.plan.shape(concurrency),
                tokenizer=bench.tokenizer,
                book=bench.book,
                log=log,
                on_line=_taking(bench, progress, beside),
            )
        except _CollapsedError:
            bench.host.talk.say(f"a stream collapsed, so the load was stopped: {log}")
        except VerifyError as error:
            broken = f"{error.message}: {error.where}"
        return own, broken, tuple(one.result() for one in asked)


def _taking(bench: Bench, progress: Progress, beside: Callable[[int], None]) -> Callable[[str], None]:
    """Takes the lines of llama-benchy; sends canaries beside each warm-up run; ends it when a stream collapses."""
    begun = -1

    def take(line: str) -> None:
        nonlocal begun
        if not line.startswith("{"):
            bench.host.talk.detail(line)
        progress.feed(line)
        if begun < progress.run < bench.plan.warm_up:
            begun = progress.run
            beside(begun)
        if progress.sure is not None and progress.sure.verdict is Verdict.GARBAGE:
            raise _CollapsedError

    return take


def level_verdict(
    runs: Sequence[LoadRun], canaries: Sequence[tuple[Verdict, str]], sure: Finding | None, wanted: int
) -> tuple[Verdict, str]:
    """The worst of what canaries and streams say, with its sentence. Pure."""
    streams = [stream for run in runs for stream in run.streams]
    said = [*canaries, *((stream.verdict, stream.why) for stream in streams)]
    if sure is not None:
        said.insert(0, (sure.verdict, f"{sure.sign} in a stream of the load: {sure.what}"))
    if len(runs) < wanted or not all(run.streams for run in runs):
        said.append((Verdict.ERROR, f"{len(runs)} of {wanted} runs took place; the log of llama-benchy says why"))
    verdict = worst([one for one, _ in said])
    return verdict, next((why for one, why in said if one is verdict), "")
