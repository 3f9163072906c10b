"""Benchmarks an endpoint: canaries alone, then for each number of requests canaries, load, canaries."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gb10.core.fetch import redact
from gb10.core.store import file_sha256
from gb10.serving.guard.finding import Finding, Verdict, worst
from gb10.serving.load_generator.aiperf import aiperf_version
from gb10.serving.load_generator.aiperf_load import aiperf_load
from gb10.serving.load_generator.benchy import VERSION, Shape
from gb10.serving.load_generator.benchy_load import benchy_load
from gb10.serving.load_generator.canary_batch import CanaryBatch, canary_verdict, merge_batches
from gb10.serving.load_generator.load_plan import Bench
from gb10.serving.load_generator.machine_facts import (
    Facts,
    boot_id,
    machine_facts,
    machine_now,
    now,
    sample_machine,
)
from gb10.serving.load_generator.results import Level, LoadResult, LoadRun, ServeResult, place
from gb10.serving.load_generator.server_pages import ServerCounts, counter_gains, counters, running, server_facts
from gb10.serving.load_generator.validity import (
    clock_step_doubt,
    load_doubts,
    start_doubts,
    unknown,
    warm_up_doubt,
)

LOADS = {"llama-benchy": benchy_load, "aiperf": aiperf_load}


def measure_level(bench: Bench, shape: Shape, alone: CanaryBatch) -> Level:
    """Canaries, the load, canaries; no load when the canaries before it are garbage."""
    plan, answer, concurrency = bench.plan, shape.answer, shape.concurrency
    batches = [bench.ask(bench.canaries(concurrency, f"{answer} {concurrency} before"), "before")]
    verdicts = [canary_verdict(batches[0], alone)]
    if verdicts[0][0] is Verdict.GARBAGE:
        bench.host.reporter.say("the canaries before the load are garbage, so the load is left out")
        verdict, why = verdicts[0]
        return Level(answer=answer, concurrency=concurrency, canaries=tuple(batches), verdict=verdict, why=why)
    watched = _measure_load(bench, shape)
    loaded, moved = watched.loaded, clock_step_doubt(watched.set_by)
    batches += [*loaded.beside, bench.ask(bench.canaries(concurrency, f"{answer} {concurrency} after"), "after")]
    verdicts += [canary_verdict(batch, alone) for batch in batches[1:]]
    runs = loaded.runs(not any(verdict is Verdict.GARBAGE for verdict, _ in verdicts))
    verdicts += [(Verdict.ERROR, why) for why in (loaded.broken, moved) if why]
    verdict, why = level_verdict(runs, verdicts, loaded.sure, plan.warm_up + plan.runs)
    return Level(
        answer=answer,
        concurrency=concurrency,
        runs=runs,
        canaries=tuple(batches),
        verdict=verdict,
        why=why,
        own=loaded.own,
        doubts=tuple(filter(None, (*load_doubts(watched.looks, watched.counted), warm_up_doubt(runs)))),
        looks=tuple(watched.looks),
        counted=watched.counted,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _MeasuredLoad:
    """A load and what was seen while it ran; ``set_by``: seconds by which the clock was set meanwhile."""

    loaded: LoadResult
    looks: list[Facts]
    counted: ServerCounts
    set_by: float


def _measure_load(bench: Bench, shape: Shape) -> _MeasuredLoad:
    env, endpoint = bench.host.env, bench.endpoint
    first, clock = counters(endpoint, env), now()
    with sample_machine(env) as looks:
        loaded = LOADS[bench.plan.tool](bench, shape)
        looks.append(machine_now(env))
    set_by = clock.stepped(now())
    counted = counter_gains(first, counters(endpoint, env)) if first else ServerCounts()
    return _MeasuredLoad(loaded=loaded, looks=looks, counted=counted, set_by=set_by)


def level_verdict(
    runs: Sequence[LoadRun], canaries: Sequence[tuple[Verdict, str]], sure: Finding | None, wanted: int
) -> tuple[Verdict, str]:
    """The worst of what canaries and streams say, with its sentence. Pure."""
    streams = [stream for run in runs for stream in run.streams]
    verdicts = [*canaries, *((stream.verdict, stream.why) for stream in streams)]
    if sure is not None:
        verdicts.insert(0, (sure.verdict, f"{sure.sign} in a stream of the load: {sure.what}"))
    if len(runs) < wanted or not all(run.streams for run in runs):
        verdicts.append((Verdict.ERROR, f"{len(runs)} of {wanted} runs took place; the log of the load says why"))
    verdict = worst([one for one, _ in verdicts])
    return verdict, next((why for one, why in verdicts if one is verdict), "")


ALONE: Final = 8
"""Canaries that are asked one at a time."""


def serve(bench: Bench) -> ServeResult:
    """Measure every level; stops after one whose answers are garbage. Raises FetchError, UsageError."""
    host, plan = bench.host, bench.plan
    started, machine = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), machine_facts(host.env)
    others = running(counters(bench.endpoint, host.env))
    with host.reporter.task(f"{ALONE} canaries, one at a time"):
        alone = merge_batches([bench.ask([canary], "alone") for canary in bench.canaries(ALONE, "alone")])
    levels: list[Level] = []
    for shape in plan.shapes:
        where = place(shape.answer, shape.concurrency, several=len(plan.answers) > 1)
        with host.reporter.task(f"{where}: {plan.warm_up} + {plan.runs} runs, canaries before and after"):
            levels.append(measure_level(bench, shape, alone))
        if levels[-1].verdict is Verdict.GARBAGE:
            break
    return ServeResult(
        run_id=bench.run_id,
        started=started,
        endpoint=redact(bench.endpoint.url),
        model=bench.endpoint.model,
        boot=plan.boot or boot_id(),
        settings=settings_of(bench),
        machine=machine,
        at_start=start_doubts(machine, others),
        unknown=unknown(machine),
        server=server_facts(bench.endpoint, host.env),
        alone=alone,
        levels=tuple(levels),
    )


def settings_of(bench: Bench) -> dict[str, object]:
    """What two results must share to be compared: the plan, the load generator, tokenizer and book."""
    plan = bench.plan
    book = {"name": bench.book.name, "sha256": bench.book.sha256}
    version = aiperf_version(bench.host.env) if plan.tool == "aiperf" else VERSION
    tools = {"tool_version": version, "tokenizer": file_sha256(bench.tokenizer), "book": book}
    return {**plan.document, **tools}
