"""``logs``: what the ranks of a service print."""

from typing import Annotated

import typer

from gb10.cli.common import JsonOption, opens, print_json, verb_app
from gb10.cli.serving import NodesOption, hosts_named
from gb10.engine.docker_containers import follow, tail_of
from gb10.errors import EmptySelectionError, UsageError
from gb10.serve.existing import services_on
from gb10.serve.fleet import open_fleet
from gb10.serve.stopping import hosts_of, require
from gb10.workshop import Workshop

app = verb_app("""Print the log of a service.


\b
./build.py logs qwen3-0.6b
./build.py logs deepseek-v4-flash --rank 1 --nodes me@spark-1,me@spark-2
./build.py logs qwen3-0.6b --follow
""")


@app.command(help=app.info.help)
@opens
def logs(
    *,
    shop: Workshop,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The service.")],
    nodes: NodesOption = None,
    rank: Annotated[int, typer.Option("--rank", metavar="N", min=0, help="The rank; 0 is the head.")] = 0,
    lines: Annotated[int, typer.Option("--lines", metavar="N", min=1, max=100_000, help="Last lines to print.")] = 200,
    following: Annotated[bool, typer.Option("--follow", "-f", help="Go on with new lines until it ends.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Print the log of a service."""
    if following and as_json:
        raise UsageError("--follow never ends, and --json prints one document", hint="leave one of them out")
    hosts = hosts_of(shop, hosts_named(shop, nodes), name)
    with open_fleet(shop, hosts) as fleet:
        own = require(services_on(fleet), name, hosts)
        found = next((one for one in own if one.labels.rank == rank), None)
        if found is None:
            raise EmptySelectionError(f"{name} has no rank {rank}", hint=f"it has ranks 0 to {len(own) - 1}")
        engine = fleet[found.host]
        if as_json:
            print_json({"schema": "gb10/logs/v1", "rank": rank, "lines": tail_of(engine, found.state.id, lines)})
            return
        for line in follow(engine, found.state.id, lines) if following else tail_of(engine, found.state.id, lines):
            print(line, flush=following)
