"""Benchmarks an endpoint: canaries alone, then for each number of requests canaries, load, canaries."""

import time
from typing import Final

from gb10.core.fetch import redact
from gb10.core.store import file_sha256
from gb10.serving.guard.finding import Verdict
from gb10.serving.load.aiperf import aiperf_version
from gb10.serving.load.benchy import VERSION
from gb10.serving.load.canary_batch import joined
from gb10.serving.load.level import measure_level
from gb10.serving.load.load_plan import Bench
from gb10.serving.load.machine_facts import boot_id, machine_facts
from gb10.serving.load.results import Level, Served
from gb10.serving.load.server_pages import counters, running, server_facts
from gb10.serving.load.validity import at_start, unknown

ALONE: Final = 8
"""Canaries that are asked one at a time."""


def serve(bench: Bench) -> Served:
    """Measure every level; stops after one whose answers are garbage. Raises FetchError, UsageError."""
    host, plan = bench.host, bench.plan
    started, machine = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), machine_facts(host.env)
    others = running(counters(bench.endpoint, host.env))
    with host.reporter.task(f"{ALONE} canaries, one at a time"):
        alone = joined([bench.ask([canary], "alone") for canary in bench.canaries(ALONE, "alone")])
    levels: list[Level] = []
    for concurrency in plan.concurrency:
        with host.reporter.task(f"{concurrency} at once: {plan.warm_up} + {plan.runs} runs, canaries before and after"):
            levels.append(measure_level(bench, concurrency, alone))
        if levels[-1].verdict is Verdict.GARBAGE:
            break
    return Served(
        run_id=bench.run_id,
        started=started,
        endpoint=redact(bench.endpoint.url),
        model=bench.endpoint.model,
        boot=plan.boot or boot_id(),
        settings=settings_of(bench),
        machine=machine,
        at_start=at_start(machine, others),
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
