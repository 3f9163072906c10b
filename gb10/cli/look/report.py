"""``report``: one HTML page about an image."""

from pathlib import Path
from typing import Annotated

import typer

from gb10.cli.common import JsonOption, print_json, verb_app, with_context
from gb10.cli.values import ArchOption
from gb10.errors import UsageError
from gb10.image.context import Context
from gb10.image.inspect.any_image import portrait
from gb10.image.inspect.build_log import Build, saved_builds
from gb10.image.inspect.report_page import page
from gb10.image.inspect.summary import ImageSummary
from gb10.image.recipe.arch import parse_arch

app = verb_app("""Write one HTML page about an image: layers, GPU code, its build, patches, what was left out.

\b
./build.py report                                    # the image that was built last
./build.py report gb10/vllm:0.33.0-cu130-sm121f --out vllm.html
./build.py report registry.example/gb10/vllm:stable

The page is one file: no script, nothing from the network. It has the times of the build if this machine built the
image, and compares its size with the build before. stdout is the path of the page.
""")
PAGE = Path("report.html")


@app.command(help=app.info.help)
@with_context
def report(
    *,
    ctx: Context,
    image: Annotated[
        str | None, typer.Argument(metavar="IMAGE", help="As for `show`. Default: the image that was built last.")
    ] = None,
    arch: ArchOption = "12.1f",
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="Where to write the page.")] = PAGE,
    as_json: JsonOption = False,
) -> None:
    """Write one HTML page about an image."""
    builds = saved_builds(ctx.store)
    one = portrait(ctx, image or last_tag(builds), parse_arch(arch))
    built, before = build_of(one, builds)
    text = page(one, ctx.catalog.templates, built=built, before=before)
    write(out, text)
    document = {"schema": "gb10/report/v1", "page": str(out), "image": one.digest, "bytes": len(text.encode())}
    print_json(document) if as_json else print(out)


def last_tag(builds: list[Build]) -> str:
    """The tag of the last build. Raises UsageError when none is kept."""
    if not builds:
        raise UsageError("no build is kept on this machine", hint="name an image: ./build.py report IMAGE")
    return builds[0].tag


def build_of(one: ImageSummary, builds: list[Build]) -> tuple[Build | None, Build | None]:
    """The build that made an image, and the last one before it of the same repository."""
    key = one.plan.key if one.plan else ""
    built = next((build for build in builds if build.key == key), None)
    if built is None:
        return None, None
    name = built.tag.partition(":")[0]
    older = (build for build in builds if build.ended < built.ended and build.tag.partition(":")[0] == name)
    return built, next(older, None)


def write(out: Path, text: str) -> None:
    """Write the page, whole or not at all. Raises UsageError."""
    aside = out.with_name(f".{out.name}.part")
    try:
        aside.write_text(text, encoding="utf-8")
        aside.replace(out)
    except OSError as error:
        aside.unlink(missing_ok=True)
        raise UsageError(
            f"{out} cannot be written", where=str(error.strerror), hint="--out names another file"
        ) from error
