"""``pull``: one image to several machines."""

from dataclasses import asdict
from typing import Annotated

import typer

from gb10.cli import error_fields
from gb10.cli.common import JsonOption, opens, print_json, reported, verb_app
from gb10.cli.values import completer, platforms
from gb10.ship.pulling import Pull, pull_from_each
from gb10.workshop import Workshop

app = verb_app("""Pull an image to one or more machines at once; only missing layers travel.


\b
./build.py pull registry.example/gb10/vllm:0.33.0-cu130-sm121f
./build.py pull registry.example/gb10/vllm:stable --host me@spark-1 --host me@spark-2

Each machine pulls with its own Docker, reached by ssh with your keys and configuration. A host is user@name or
ssh://user@name:PORT; add /path/to/docker.sock when the socket is elsewhere. The tag is resolved once, so all machines
get the same digest. When a machine fails, run the same command again: it keeps the layers that arrived (in an image
named gb10/arriving) and fetches only the rest.
""")


@app.command(help=app.info.help)
@opens
def pull(
    *,
    shop: Workshop,
    reference: Annotated[str, typer.Argument(metavar="REF", help="REGISTRY/NAME[:TAG] or REGISTRY/NAME@sha256:…")],
    platform: Annotated[
        str | None,
        typer.Option(
            "--platform",
            metavar="OS/ARCH",
            autocompletion=completer(platforms),
            help="Pull the image for this platform. Default: each machine's own.",
        ),
    ] = None,
    host: Annotated[
        list[str] | None,
        typer.Option("--host", metavar="[USER@]NAME", help="A machine that pulls. Repeatable. Default: this one."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Pull an image to one or more machines."""
    done = pull_from_each(shop, reference, tuple(dict.fromkeys(host or ())), platform)
    if as_json:
        print_json(document(reference, done))
        with reported(as_json):
            done.require_all()
        return
    for node in done.nodes:
        shop.talk.say(
            f"{node.host}: {node.moved} layers pulled ({node.bytes / 1e6:,.1f} MB), {node.there} present, "
            f"{node.seconds:.1f} s"
        )
    done.require_all()
    print(f"{reference.partition('@')[0]}@{done.remote.digest}")


def document(reference: str, done: Pull) -> dict[str, object]:
    """The layers of every machine, and the error of every machine that failed."""
    return {
        "schema": "gb10/pull/v1",
        "reference": reference,
        "digest": done.remote.digest,
        "nodes": [asdict(node) for node in done.nodes],
        "failed": [{"host": host, **error_fields(error)} for host, error in done.failed.items()],
    }
