"""``status``: which services run where, and the watch over one."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Final, Literal

import typer

from gb10.cli.common import JsonOption, print_json, verb_app, with_context
from gb10.cli.models.options import NodesOption
from gb10.cli.models.serving import end_with, found_document, parse_hosts, silence_of, silent_document
from gb10.core.printing import printable
from gb10.errors import ServeError, UsageError
from gb10.image.context import Context
from gb10.serving.run.existing import Found
from gb10.serving.run.health import is_healthy
from gb10.serving.run.overview import Overview, look_at, not_looked_at, why
from gb10.serving.run.service_url import url_on
from gb10.serving.run.start_phases import StartPhases
from gb10.serving.run.watching import ending_of, guard_reports, starts_of, watch, watched_service

app = verb_app("""Show the services of this machine or of other nodes: their ranks, and whether the endpoint is healthy.


\b
./build.py status
./build.py status deepseek-v4-flash --nodes me@spark-1,me@spark-2
./build.py status qwen3-0.6b --watch                # until a rank ends; then all are ended

Without --nodes it looks at this machine, and at the nodes on which you started services. Nodes that only the labels of
a container name are shown, and not asked.

Exit 12 when a service is not healthy, 7 when a node does not answer, 2 when nodes of a service were not looked at.
""")
Reports = Mapping[str, list[str]]
Starts = Mapping[str, StartPhases]
Health = Literal["healthy", "not healthy", "not known"]
UNKNOWN: Final = "not known"


@app.command(help=app.info.help)
@with_context
def status(
    *,
    ctx: Context,
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="One service. Default: all.")] = None,
    nodes: NodesOption = None,
    watching: Annotated[
        bool, typer.Option("--watch", help="Stay until a rank ends; name it, and end the others.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Show services."""
    if watching and name is None:
        raise UsageError("--watch is for one service", hint="./build.py status NAME --watch")
    with look_at(ctx, parse_hosts(ctx, nodes), name) as seen:
        services = {name: seen.require(name)} if name else seen.services
        left = not_looked_at("status", services, seen)
        if watching and name:
            problem = silence_of(seen) or left
            if problem:
                raise problem
            watch(watched_service(seen.fleet, name, services[name]), lambda: False)
        seen.clear_notes(of=name)
        every = [one for ranks in services.values() for one in ranks]
        reports, starts = guard_reports(seen.fleet, every), starts_of(seen.fleet, every)
    urls = {service: _url(ranks) for service, ranks in services.items()}
    health = {service: _health(ranks, urls[service], seen) for service, ranks in services.items()}
    if as_json:
        documents = [
            _document(ranks, urls[service], health[service], reports, starts, seen=seen)
            for service, ranks in services.items()
        ]
        print_json({"schema": "gb10/status/v1", "services": documents, "silent": silent_document(seen)})
    else:
        for service, ranks in services.items():
            _print(ranks, urls[service], health[service], reports, starts, seen=seen)
        for node, error in seen.silent.items():
            print(printable(f"{node} does not answer: {why(error)}"))
        if not services:
            print("no services")
    end_with(silence_of(seen), left, code=ServeError.code if "not healthy" in health.values() else 0)


def _url(ranks: Sequence[Found]) -> str | None:
    """Where the service is asked: on the node of its rank 0."""
    head = next((one for one in ranks if one.labels.rank == 0), ranks[0])
    return url_on(head.host, head.labels.endpoint)


def _health(ranks: Sequence[Found], url: str | None, seen: Overview) -> Health:
    if seen.lost(ranks) or not all(one.state.runs for one in ranks):
        return "not healthy"
    if seen.unseen(ranks):
        return UNKNOWN
    return "healthy" if url and is_healthy(url) else "not healthy"


def _document(
    ranks: Sequence[Found], url: str | None, health: Health, reports: Reports, starts: Starts, *, seen: Overview
) -> dict[str, object]:
    labels = ranks[0].labels
    return {
        "name": labels.service,
        "model": labels.model,
        "runtime": labels.runtime,
        "endpoint": url,
        "healthy": health == "healthy",
        "start": next((starts[one.state.id].document for one in ranks if one.state.id in starts), None),
        "ranks": [{**found_document(one), "guard": reports.get(one.state.id, [])} for one in ranks],
        "not_looked_at": list(seen.unseen(ranks)),
    }


def _print(
    ranks: Sequence[Found], url: str | None, health: Health, reports: Reports, starts: Starts, *, seen: Overview
) -> None:
    labels = ranks[0].labels
    print(printable(f"{labels.service}  {url or 'no endpoint'}  {health}  {labels.model}"))
    for one in ranks:
        state = one.state
        how = (
            f"{state.status} since {state.started[:19]}"
            if state.runs
            else ending_of(state.code, out_of_memory=state.out_of_memory)
        )
        print(printable(f"  rank {one.labels.rank}  {one.host}  {state.name}  {how}"))
        for line in (*reports.get(state.id, ()), *([starts[state.id].line] if state.id in starts else ())):
            print(printable(f"    {line}"))
    for node in seen.lost(ranks):
        print(printable(f"  {node} does not answer"))
    for node in seen.unseen(ranks):
        print(printable(f"  {node} was not looked at"))
