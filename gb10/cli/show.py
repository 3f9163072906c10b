"""``show``: what an image holds, or what differs between two."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from gb10.cli.common import JsonOption, print_json, verb_app, with_context
from gb10.cli.show_lines import difference_lines, portrait_lines
from gb10.cli.values import ArchOption
from gb10.errors import UsageError
from gb10.image.context import Context
from gb10.image.inspect.any_image import portrait, sbom
from gb10.image.inspect.differences import differences
from gb10.image.inspect.differences import document as difference_document
from gb10.image.inspect.remote import Trust
from gb10.image.inspect.summary import document
from gb10.image.publish.signing import check_signers, signer_of
from gb10.image.recipe.arch import parse_arch

app = verb_app("""Show what an image holds: versions, patches and why, mods, GPU code, the size of each layer.

\b
./build.py show gb10/vllm:0.33.0-cu130-sm121f                  # an image of the container engine
./build.py show registry.example/gb10/vllm:stable              # in a registry, without a pull
./build.py show gb10/vllm:old gb10/vllm:new                    # what changed, and what a pull would move
./build.py show gb10/vllm:0.33.0-cu130-sm121f --sbom > vllm.spdx.json
./build.py show registry.example/gb10/vllm:stable --sbom --require-signer ~/.config/gb10/signers

An image of gb10 is shown by the records that it holds; in a registry, by what `publish` attached to it. Any other image
of the engine is scanned: that takes minutes the first time, and shows packages, GPU code and layers. Of another image
in a registry, its layers and settings are shown. `verify IMAGE` believes no record: it reads the files.

--require-signer reads the registry, and takes ssh's allowed_signers file (man ssh-keygen). It shows nothing unless one
of its keys signed the image, and only documents that one of them signed (`publish --sign`).
""")


@app.command(help=app.info.help)
@with_context
def show(
    *,
    ctx: Context,
    image: Annotated[str, typer.Argument(metavar="IMAGE", help="A tag, an id, or a reference to a registry.")],
    other: Annotated[
        str | None, typer.Argument(metavar="OTHER", help="Another image: show what changed from the first to it.")
    ] = None,
    arch: ArchOption = "12.1f",
    only_sbom: Annotated[
        bool, typer.Option("--sbom", help="Print the SBOM, SPDX 2.3 in JSON, and nothing else.")
    ] = False,
    signers: Annotated[
        Path | None,
        typer.Option("--require-signer", metavar="FILE", help="Show only what a key in this file has signed."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show what an image holds."""
    wanted, trust = parse_arch(arch), _trust(ctx, signers)
    if only_sbom:
        if other or as_json:
            raise UsageError("--sbom is for one image, and is JSON itself", hint=f"./build.py show {image} --sbom")
        sys.stdout.write(sbom(ctx, image, wanted, trust).decode())
        return
    one = portrait(ctx, image, wanted, trust)
    if other is None:
        print_json(document(one)) if as_json else print("\n".join(portrait_lines(one)))
        return
    found = differences(one, portrait(ctx, other, wanted, trust))
    print_json(difference_document(found)) if as_json else print("\n".join(difference_lines(found)))


def _trust(ctx: Context, signers: Path | None) -> Trust | None:
    """What must be signed, by a key of a file. Raises UsageError for a file that is not there."""
    if signers is None:
        return None
    check_signers(signers)
    return lambda name, digest, beside: signer_of(ctx, name, digest, beside, signers)
