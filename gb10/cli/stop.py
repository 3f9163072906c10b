"""``stop``: end services on all of their nodes."""

from typing import Annotated

import typer

from gb10.cli.common import JsonOption, opens, print_json, verb_app
from gb10.cli.serving import NodesOption, found_document, hosts_named
from gb10.errors import UsageError
from gb10.serve.existing import services_on
from gb10.serve.fleet import open_fleet
from gb10.serve.stopping import end_service, hosts_of, require
from gb10.workshop import Workshop

app = verb_app("""Stop a service on all of its nodes.


\b
./build.py stop qwen3-0.6b
./build.py stop deepseek-v4-flash --nodes me@spark-1,me@spark-2   # from a machine that is no node
./build.py stop --all

A server gets SIGTERM, and SIGKILL after 10 seconds. All that gb10 knows of a service stands in the labels of its
containers: it can be stopped after a crash of the tool, and from another machine.
""")


@app.command(help=app.info.help)
@opens
def stop(
    *,
    shop: Workshop,
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
    hosts = hosts_of(shop, hosts_named(shop, nodes), name)
    with open_fleet(shop, hosts) as fleet, shop.talk.task(f"stop {name or 'all services'}"):
        found = services_on(fleet)
        own = require(found, name, hosts) if name else found
        end_service(fleet, own, name or "every service")
    if as_json:
        print_json({"schema": "gb10/stop/v1", "stopped": [found_document(one) for one in own]})
        return
    for one in own:
        print(f"{one.labels.service} {one.host} {one.state.name}")
