"""``publish``: push a proven image."""

from dataclasses import asdict
from typing import Annotated

import typer

from gb10.cli.common import (
    CompressionOption,
    JsonOption,
    QuietOption,
    VerboseOption,
    print_json,
    verb_app,
    workshop,
    zstd_level,
)
from gb10.cli.show import print_published
from gb10.ship.publishing import publish as push_proven

app = verb_app("""Push an image that was proven here to one or more registries; what was not proven is refused.

\b
./build.py publish gb10/vllm:0.33.0-cu130-sm121f registry.example/gb10/vllm
./build.py publish gb10/vllm:0.33.0-cu130-sm121f registry.example/gb10/vllm:stable other.example/vllm
./build.py publish gb10/vllm:0.33.0-cu130-sm121f registry.example/gb10/vllm --compression zstd

A target without a tag gets the image's own tags: first the one with the plan's key, which never moves, then the one
that does. Layers that the registry has are not sent again. Credentials are Docker's own: docker login.

The engine compresses layers by gzip. By zstd they are smaller, and sooner there; the image is the same, down to its
config's digest, and Docker 23 or newer pulls it. That needs Docker 25 here, 12 MB of Debian's packages (skopeo) once
and, while it runs, room on the disk for the unpacked image, twice with the store's own engine. A tag under which the
registry has the image by zstd, whatever the level, is left as it is.
""")


@app.command(help=app.info.help)
def publish(
    *,
    image: Annotated[str, typer.Argument(help="Reference of an image that `image` built.")],
    targets: Annotated[list[str], typer.Argument(metavar="REF...", help="REGISTRY/NAME[:TAG], one or more.")],
    compression: CompressionOption = None,
    as_json: JsonOption = False,
    verbose: VerboseOption = 0,
    quiet: QuietOption = False,
) -> None:
    """Push a proven image."""
    zstd = zstd_level(compression)
    shop = workshop(verbose, quiet)
    done = push_proven(shop, image, targets, zstd)
    if as_json:
        print_json({"schema": "gb10/publish/v1", "published": [asdict(one) for one in done]})
        return
    print_published(shop, done)
