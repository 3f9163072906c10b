"""``logs``: what the ranks of a service print."""

from typing import Annotated

import typer

from gb10.cli.common import JsonOption, print_json, verb_app, with_context
from gb10.cli.models.options import NodesOption
from gb10.cli.models.serving import end_with, parse_hosts, silence_of
from gb10.containers.docker_containers import follow, tail_of
from gb10.core.printing import visible
from gb10.errors import EmptySelectionError, UsageError
from gb10.image.context import Context
from gb10.serving.run.overview import look_at, not_looked_at

app = verb_app("""Print the log of a service.


\b
./build.py logs qwen3-0.6b
./build.py logs deepseek-v4-flash --rank 1 --nodes me@spark-1,me@spark-2
./build.py logs qwen3-0.6b --follow

Colours are left out, and other control characters are escaped. Without --nodes it looks at this machine, and at the
nodes on which you started services; exit 2 when the service has others, by its labels.
""")


@app.command(help=app.info.help)
@with_context
def logs(
    *,
    ctx: Context,
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
    with look_at(ctx, parse_hosts(ctx, nodes), name) as seen:
        own = seen.require(name)
        left = not_looked_at("logs", {name: own}, seen)
        found = next((one for one in own if one.labels.rank == rank), None)
        if found is None:
            none = EmptySelectionError(f"{name} has no rank {rank}", hint=f"it has ranks 0 to {len(own) - 1}")
            raise silence_of(seen) or left or none
        engine = seen.fleet[found.host]
        if as_json:
            print_json({"schema": "gb10/logs/v1", "rank": rank, "lines": tail_of(engine, found.state.id, lines)})
        else:
            for line in follow(engine, found.state.id, lines) if following else tail_of(engine, found.state.id, lines):
                print(visible(line), flush=following)
    end_with(left)
