"""``publish``: push a proven image."""

from dataclasses import asdict
from typing import Annotated

import typer

from gb10.cli.common import CompressionOption, JsonOption, opens, print_json, verb_app, zstd_level
from gb10.cli.show import print_published
from gb10.ship.publishing import publish as push_proven
from gb10.workshop import Workshop

app = verb_app("""Push an image that was proven here to one or more registries; any other image is refused.

\b
./build.py publish gb10/vllm:0.33.0-cu130-sm121f registry.example/gb10/vllm
./build.py publish gb10/vllm:0.33.0-cu130-sm121f registry.example/gb10/vllm:stable other.example/vllm
./build.py publish gb10/vllm:0.33.0-cu130-sm121f registry.example/gb10/vllm --compression zstd

A target without a tag gets both tags of the image: first the one with the plan's key, then the one that moves.
The registry gets only the layers that it lacks. Log in with `docker login`.

The default compression is gzip. zstd layers are smaller and pull faster; the image and its config digest are the
same. Docker 23 or newer pulls them. zstd needs Docker 25 here, 12 MB of Debian packages (skopeo) once, and disk space
for the unpacked image, twice that with the embedded engine. If the registry has the image with zstd,
at any level, it is not sent again.
""")


@app.command(help=app.info.help)
@opens
def publish(
    *,
    shop: Workshop,
    image: Annotated[str, typer.Argument(metavar="IMAGE", help="A tag of an image that `image` built.")],
    targets: Annotated[list[str], typer.Argument(metavar="REF", help="REGISTRY/NAME[:TAG], one or more.")],
    compression: CompressionOption = None,
    as_json: JsonOption = False,
) -> None:
    """Push a proven image."""
    zstd = zstd_level(compression)
    done = push_proven(shop, image, targets, zstd)
    if as_json:
        print_json({"schema": "gb10/publish/v1", "published": [asdict(one) for one in done]})
        return
    print_published(shop.talk, done)
