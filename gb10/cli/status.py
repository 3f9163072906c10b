"""``status``: which services run where, and the watch over one."""

from collections.abc import Mapping
from itertools import groupby
from typing import Annotated

import typer

from gb10.cli.common import JsonOption, opens, print_json, verb_app
from gb10.cli.serving import NodesOption, found_document, hosts_named
from gb10.errors import ServeError, UsageError
from gb10.serve.cause import ending_of
from gb10.serve.existing import Found, services_on
from gb10.serve.fleet import open_fleet
from gb10.serve.health import is_healthy
from gb10.serve.stopping import hosts_of, require, watched_service
from gb10.serve.watching import guard_reports, watch
from gb10.workshop import Workshop

app = verb_app("""Show the services of this machine or of other nodes: their ranks, and whether the endpoint is healthy.


\b
./build.py status
./build.py status deepseek-v4-flash --nodes me@spark-1,me@spark-2
./build.py status qwen3-0.6b --watch                # until a rank ends; then all are ended

Exit 12 when a service is not healthy.
""")


@app.command(help=app.info.help)
@opens
def status(
    *,
    shop: Workshop,
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
    hosts = hosts_of(shop, hosts_named(shop, nodes), name)
    with open_fleet(shop, hosts) as fleet:
        found = services_on(fleet)
        own = require(found, name, hosts) if name else found
        if watching and name:
            watch(watched_service(fleet, name, own), lambda: False)
        reports = guard_reports(fleet, own)
    _show(own, reports, as_json=as_json)


def _show(found: tuple[Found, ...], reports: Mapping[str, list[str]], *, as_json: bool) -> None:
    services = [list(ranks) for _, ranks in groupby(found, key=lambda one: one.labels.service)]
    healthy = [all(one.state.runs for one in ranks) and is_healthy(ranks[0].labels.endpoint) for ranks in services]
    if as_json:
        documents = [_document(ranks, reports, well) for ranks, well in zip(services, healthy, strict=True)]
        print_json({"schema": "gb10/status/v1", "services": documents})
    else:
        for ranks, well in zip(services, healthy, strict=True):
            _print(ranks, reports, well)
        if not services:
            print("no services")
    if not all(healthy):
        raise typer.Exit(ServeError.code)


def _document(ranks: list[Found], reports: Mapping[str, list[str]], well: bool) -> dict[str, object]:
    labels = ranks[0].labels
    return {
        "name": labels.service,
        "model": labels.model,
        "runtime": labels.runtime,
        "endpoint": labels.endpoint,
        "healthy": well,
        "ranks": [{**found_document(one), "guard": reports.get(one.state.id, [])} for one in ranks],
    }


def _print(ranks: list[Found], reports: Mapping[str, list[str]], well: bool) -> None:
    labels = ranks[0].labels
    print(f"{labels.service}  {labels.endpoint}  {'healthy' if well else 'not healthy'}  {labels.model}")
    for one in ranks:
        state = one.state
        how = (
            f"{state.status} since {state.started[:19]}"
            if state.runs
            else ending_of(state.code, out_of_memory=state.out_of_memory)
        )
        print(f"  rank {one.labels.rank}  {one.host}  {state.name}  {how}")
        for line in reports.get(state.id, ()):
            print(f"    {line}")
