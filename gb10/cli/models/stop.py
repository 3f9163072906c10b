"""``stop``: end services on all of their nodes."""

from collections.abc import Mapping, Sequence
from typing import Annotated

import typer

from gb10.cli.common import JsonOption, print_json, verb_app, with_context
from gb10.cli.models.options import NodesOption
from gb10.cli.models.serving import end_with, found_document, parse_hosts, silence_of, silent_document
from gb10.core.printing import printable
from gb10.errors import UsageError
from gb10.image.context import Context
from gb10.serving.run.existing import Found
from gb10.serving.run.overview import Overview, look_at, not_looked_at, why
from gb10.serving.run.watching import end_service

app = verb_app("""Stop a service on all of its nodes.


\b
./build.py stop qwen3-0.6b
./build.py stop deepseek-v4-flash --nodes me@spark-1,me@spark-2   # started by another user, or from another machine
./build.py stop --all

A server gets SIGTERM, and SIGKILL after 10 seconds. Without --nodes it looks at this machine, and at the nodes on which
you started services. A service that its labels place on other nodes, too, is left as it is: exit 2, and the line to
paste is printed. Exit 7 when a node does not answer.
""")


@app.command(help=app.info.help)
@with_context
def stop(
    *,
    ctx: Context,
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="The service; ./build.py status lists them.")
    ] = None,
    nodes: NodesOption = None,
    everything: Annotated[bool, typer.Option("--all", help="Stop every service of these nodes.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Stop a service on all of its nodes."""
    if (name is None) != everything:
        raise UsageError("name a service, or all of them", hint="./build.py stop NAME, or ./build.py stop --all")
    with look_at(ctx, parse_hosts(ctx, nodes), name) as seen, ctx.reporter.task(f"stop {name or 'all services'}"):
        wanted = {name: seen.require(name)} if name else seen.services
        left = not_looked_at("stop", wanted, seen)
        own = [one for ranks in wanted.values() if not seen.unseen(ranks) for one in ranks]
        end_service(seen.fleet, own, name or "every service")
        seen.clear_notes(of=name, ended=own)
    _show(own, wanted, seen, as_json=as_json)
    end_with(silence_of(seen), left)


def _show(own: Sequence[Found], wanted: Mapping[str, Sequence[Found]], seen: Overview, *, as_json: bool) -> None:
    unseen = {service: nodes for service, ranks in wanted.items() if (nodes := seen.unseen(ranks))}
    if as_json:
        document = {"schema": "gb10/stop/v1", "stopped": [found_document(one) for one in own]}
        print_json({**document, "not_looked_at": unseen, "silent": silent_document(seen)})
        return
    for one in own:
        print(printable(f"{one.labels.service} {one.host} {one.state.name}"))
    for service, ranks in wanted.items():
        if seen.unseen(ranks):
            print(printable(f"{service} is left as it is: not looked at {', '.join(seen.unseen(ranks))}"))
    for node, error in seen.silent.items():
        print(printable(f"{node} does not answer: {why(error)}"))
