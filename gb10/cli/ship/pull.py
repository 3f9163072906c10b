"""``pull``: one image to several machines."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from gb10.cli import error_fields
from gb10.cli.common import JsonOption, print_json, reported, verb_app, with_context
from gb10.cli.values import platform_option
from gb10.errors import UsageError
from gb10.image.context import Context
from gb10.image.publish.pulling import Pull, pull_from_each
from gb10.image.publish.via_head import HeadPull, pull_via_head

app = verb_app("""Pull an image to one or more machines at once; only missing layers travel.


\b
./build.py pull registry.example/gb10/vllm:0.33.0-cu130-sm121f
./build.py pull registry.example/gb10/vllm:stable --host me@spark-1 --host me@spark-2
./build.py pull gb10/vllm:0.33.0-cu130-sm121f --via-head localhost --host me@spark-2 --host me@spark-3
./build.py pull registry.example/gb10/vllm:stable --host me@spark-1 --require-signer ~/.config/gb10/signers

Each machine pulls with its own Docker, reached by ssh with your keys and configuration. A host is user@name or
ssh://user@name:PORT; add /path/to/docker.sock when the socket is elsewhere. The tag is resolved once, so all machines
get the same digest. When a machine fails, run the same command again: it keeps the layers that arrived (in an image
named gb10/arriving) and fetches only the rest.

--via-head is for machines that reach no registry. The head has the image, or reaches the registry; each --host gets
the missing layers from it by ssh, under the image's own name. The head must reach each --host by ssh without a
question. It keeps the compressed layers of the last image, so the next pull compresses only what is new. With --k3s
containerd on the hosts takes the image: `k3s ctr` runs there as root or by sudo.

--require-signer takes ssh's allowed_signers file (man ssh-keygen). Nothing is pulled unless one of its keys signed this
very digest (`publish --sign`).
""")

PlatformOption = Annotated[
    str | None, platform_option("Pull the image for this platform. Default: each machine's own.")
]
HostOption = Annotated[
    list[str] | None,
    typer.Option("--host", metavar="[USER@]NAME", help="A machine that pulls. Repeatable. Default: this one."),
]
HeadOption = Annotated[
    str | None,
    typer.Option(
        "--via-head", metavar="HOST", help="Pull from this machine's Docker, not from a registry. localhost: this one."
    ),
]
K3sOption = Annotated[bool, typer.Option("--k3s", help="With --via-head: each --host runs K3s, not Docker.")]
SignerOption = Annotated[
    Path | None,
    typer.Option(
        "--require-signer", metavar="FILE", help="Pull only what a key in this allowed_signers file has signed."
    ),
]


@app.command(help=app.info.help)
@with_context
def pull(
    *,
    ctx: Context,
    reference: Annotated[str, typer.Argument(metavar="REF", help="REGISTRY/NAME[:TAG] or REGISTRY/NAME@sha256:…")],
    platform: PlatformOption = None,
    host: HostOption = None,
    via_head: HeadOption = None,
    k3s: K3sOption = False,
    require_signer: SignerOption = None,
    as_json: JsonOption = False,
) -> None:
    """Pull an image to one or more machines."""
    hosts = tuple(dict.fromkeys(host or ()))
    if via_head:
        wanted = HeadPull(
            reference=reference, head=via_head, hosts=hosts, platform=platform, signers=require_signer, k3s=k3s
        )
        done = pull_via_head(ctx, wanted)
    elif k3s:
        raise UsageError("--k3s needs --via-head", hint="K3s pulls from a registry by itself")
    else:
        done = pull_from_each(ctx, reference, hosts, platform, require_signer)
    if done.signer and not as_json:
        ctx.reporter.say(f"signed by {done.signer}")
    if as_json:
        print_json(document(reference, done))
        with reported(as_json):
            done.require_all()
        return
    for node in done.nodes:
        moved = "has it"
        if node.bytes is not None:
            moved = f"{node.moved} layers pulled ({node.bytes / 1e6:,.1f} MB), {node.there} present"
        ctx.reporter.say(f"{node.host}: {moved}, {node.seconds:.1f} s")
    done.require_all()
    print(reference if via_head else f"{reference.partition('@')[0]}@{done.remote.digest}")


def document(reference: str, done: Pull) -> dict[str, object]:
    """The layers of every machine, and the error of every machine that failed."""
    return {
        "schema": "gb10/pull/v1",
        "reference": reference,
        "digest": done.remote.digest,
        "signer": done.signer or None,
        "nodes": [asdict(node) for node in done.nodes],
        "failed": [{"host": host, **error_fields(error)} for host, error in done.failed.items()],
    }
