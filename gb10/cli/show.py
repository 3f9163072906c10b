"""``show``: what an image holds, or what differs between two."""

import sys
from typing import Annotated

import typer

from gb10.about.any_image import portrait, sbom
from gb10.about.differences import differences
from gb10.about.differences import document as difference_document
from gb10.about.portrait import document
from gb10.cli.common import JsonOption, opens, print_json, verb_app
from gb10.cli.show_lines import difference_lines, portrait_lines
from gb10.cli.values import ArchOption
from gb10.errors import UsageError
from gb10.recipe.arch import parse_arch
from gb10.workshop import Workshop

app = verb_app("""Show what an image holds: versions, patches and why, mods, GPU code, the size of each layer.

\b
./build.py show gb10/vllm:0.33.0-cu130-sm121f                  # an image of the container engine
./build.py show registry.example/gb10/vllm:stable              # in a registry, without a pull
./build.py show gb10/vllm:old gb10/vllm:new                    # what changed, and what a pull would move
./build.py show gb10/vllm:0.33.0-cu130-sm121f --sbom > vllm.spdx.json

An image of gb10 is shown by the records that it holds; in a registry, by what `publish` attached to it. Any other image
of the engine is scanned: that takes minutes the first time, and shows packages, GPU code and layers. Of another image
in a registry, its layers and settings are shown. `verify IMAGE` believes no record: it reads the files.
""")


@app.command(help=app.info.help)
@opens
def show(
    *,
    shop: Workshop,
    image: Annotated[str, typer.Argument(metavar="IMAGE", help="A tag, an id, or a reference to a registry.")],
    other: Annotated[
        str | None, typer.Argument(metavar="OTHER", help="Another image: show what changed from the first to it.")
    ] = None,
    arch: ArchOption = "12.1f",
    only_sbom: Annotated[
        bool, typer.Option("--sbom", help="Print the SBOM, SPDX 2.3 in JSON, and nothing else.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Show what an image holds."""
    wanted = parse_arch(arch)
    if only_sbom:
        if other or as_json:
            raise UsageError("--sbom is for one image, and is JSON itself", hint=f"./build.py show {image} --sbom")
        sys.stdout.write(sbom(shop, image, wanted).decode())
        return
    one = portrait(shop, image, wanted)
    if other is None:
        print_json(document(one)) if as_json else print("\n".join(portrait_lines(one)))
        return
    found = differences(one, portrait(shop, other, wanted))
    print_json(difference_document(found)) if as_json else print("\n".join(difference_lines(found)))
