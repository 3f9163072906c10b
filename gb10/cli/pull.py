"""``pull``: one image to several machines."""

from dataclasses import asdict
from typing import Annotated

import typer

from gb10.cli.common import JsonOption, QuietOption, VerboseOption, print_json, verb_app, workshop
from gb10.ship.pulling import pull_everywhere

app = verb_app("""Pull an image to several machines at once: only missing layers travel, and all get the same digest.

\b
./build.py pull registry.example/gb10/vllm:0.33.0-cu130-sm121f
./build.py pull registry.example/gb10/vllm:stable --host me@spark-1 --host me@spark-2

Each machine pulls by itself, from its own engine, which ssh reaches with your own keys and configuration
(user@name, ssh://user@name:PORT, with /path/to/docker.sock behind it where it is elsewhere). The tag is asked once:
one that moves meanwhile divides nobody. A machine that failed is named; the same command again goes on where it was:
layers that arrived are held there by an image, gb10/arriving, until all of them have.
""")


@app.command(help=app.info.help)
def pull(
    *,
    reference: Annotated[str, typer.Argument(metavar="REF", help="REGISTRY/NAME[:TAG] or REGISTRY/NAME@sha256:…")],
    host: Annotated[
        list[str] | None,
        typer.Option("--host", metavar="[USER@]NAME", help="A machine; repeatable. Default: this one."),
    ] = None,
    platform: Annotated[
        str | None, typer.Option("--platform", help="Take the image for this platform, whatever the machines are.")
    ] = None,
    as_json: JsonOption = False,
    verbose: VerboseOption = 0,
    quiet: QuietOption = False,
) -> None:
    """Pull an image to several machines."""
    shop = workshop(verbose, quiet)
    remote, nodes = pull_everywhere(shop, reference, tuple(dict.fromkeys(host or ())), platform)
    if as_json:
        print_json(
            {
                "schema": "gb10/pull/v1",
                "reference": reference,
                "digest": remote.digest,
                "nodes": [asdict(node) for node in nodes],
            }
        )
        return
    for node in nodes:
        shop.talk.say(
            f"{node.host}: {node.moved} layers came ({node.bytes / 1e6:,.1f} MB), {node.there} were there, "
            f"{node.seconds:.1f} s"
        )
    print(f"{reference.partition('@')[0]}@{remote.digest}")
