"""``adopt``: somebody's Dockerfile or patches become an image recipe."""

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from gb10.cli.build.image_options import releases
from gb10.cli.common import DryRunOption, JsonOption, print_json, reported, verb_app, with_context
from gb10.cli.patch.patches import library
from gb10.cli.verb import print_table
from gb10.errors import UsageError
from gb10.image.adopt.adopted import Adopted
from gb10.image.adopt.adopting import Wanted, base_environment, import_names, unchecked_error
from gb10.image.adopt.adopting import adopt as adopted_of
from gb10.image.adopt.recipe_files import Written, check_absent, one_line, places, rows_of, text_of, write_recipe
from gb10.image.context import Context
from gb10.image.patches.release_files import parse_version

WIDTH = 40
"""Characters of an instruction in the table."""
WORDS = {
    "taken": "taken",
    "mod": "as a mod",
    "no-effect": "without effect",
    "not-taken": "not taken",
    "other-stage": "of another stage",
    "unchecked": "not checked",
    "unread": "not read",
}

app = verb_app("""Make an image recipe of somebody's Dockerfile, or of a folder of patches.

\b
./build.py adopt ~/their-repo                       # its Dockerfile; writes adopted-their-repo.yaml
./build.py adopt docker/Dockerfile --context . -o theirs.yaml
./build.py adopt Dockerfile --build-arg BASE=NAME@sha256:… --target runner
./build.py adopt Dockerfile --ref vllm=0.25.1       # files copied over vLLM become a patch
./build.py adopt Dockerfile --trust                 # sed and scripts run once: their changes are patches
./build.py adopt patches/ --from NAME@sha256:… -o patched.yaml
./build.py adopt Dockerfile --dry-run --json        # every line with its verdict, nothing written

\b
taken           in the recipe: base, requirements, env, patches, files (overlay)
as a mod        commands that run in the image: read mods/NAME-1/run.sh before you build
without effect  it changes nothing that an image keeps
not taken       left out, with the reason; the recipe lists it in comments
not checked     what it needs is not here; then the exit code is 13, and the recipe is written all the same

Nothing of theirs is run without --trust, and no link is followed out of the folder. With it, commands run in a build
stage without a network, bounded in time, memory, processes and bytes, on the base and what the recipe lays over it.
""")


@app.command(help=app.info.help)
@with_context
def adopt(
    *,
    ctx: Context,
    place: Annotated[Path, typer.Argument(metavar="DIR|DOCKERFILE", help="Their Dockerfile, or its folder.")],
    ref: Annotated[
        list[str] | None,
        typer.Option(
            "--ref", metavar="SOURCE=VERSION", help="The release in the base: what is copied over it is a patch."
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="NAME.yaml", help="The recipe. Default: adopted-FOLDER.yaml, here."),
    ] = None,
    context: Annotated[
        Path | None,
        typer.Option("--context", metavar="DIR", help="The build's folder. Default: that of the file."),
    ] = None,
    argument: Annotated[
        list[str] | None, typer.Option("--build-arg", metavar="NAME=VALUE", help="The value of an ARG. Repeatable.")
    ] = None,
    target: Annotated[str, typer.Option("--target", metavar="STAGE", help="The stage. Default: the last one.")] = "",
    base: Annotated[str, typer.Option("--from", metavar="IMAGE", help="This image in place of FROM.")] = "",
    trust: Annotated[
        bool,
        typer.Option("--trust", help="Run their commands once, bounded, on the base; record what they change."),
    ] = False,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Adopt a Dockerfile."""
    wanted = Wanted(
        place=place,
        context=context,
        arguments=dict(_argument(text) for text in argument or ()),
        target=target,
        base=base,
        refs={name: parse_version(text) for name, text in releases(ref or ()).items()},
    )
    folder = place if place.is_dir() else place.parent
    recipe = output or Path(f"adopted-{folder.resolve().name or 'root'}.yaml")
    check_absent(recipe)
    found = adopted_of(library(ctx), wanted, partial(base_environment, ctx), partial(import_names, ctx.env))
    if trust:
        from gb10.image.adopt.trusting import with_trust  # noqa: PLC0415 - what builds images, for this option

        found = with_trust(ctx, found)
    written = bool(found.base) and not dry_run
    made = write_recipe(recipe, found, str(place)) if written else places(recipe, found)
    if as_json:
        print_json(document(found, made if written else None))
    else:
        print_lines(ctx, found, place)
    for remark in found.remarks:
        ctx.reporter.say(one_line(remark))
    if written:
        ctx.reporter.say(f"wrote {made.recipe}; read it, then\n./build.py lock --engine {made.recipe}\n{made.command}")
    with reported(as_json):
        if not found.base:
            raise UsageError(
                f"{place} does not name its image: no recipe is written",
                hint="give the value of its ARG, --build-arg NAME=VALUE, or the image: --from NAME@sha256:…",
            )
        if unchecked := unchecked_error(found, place):
            raise unchecked


def _argument(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise UsageError(f"--build-arg {text} has no value", hint="write --build-arg NAME=VALUE")
    return name, value


def print_lines(ctx: Context, found: Adopted, place: Path) -> None:
    """A row for each line, then the counts."""
    table = Table(box=None, pad_edge=False)
    for name in ("line", "verdict", "what", "why"):
        table.add_column(name, no_wrap=name != "why")
    for line in found.lines:
        what = one_line(text_of(line)).replace(" \\ ", " ")[:WIDTH].rstrip()
        table.add_row(rows_of(line), WORDS[line.verdict], escape(what), escape(one_line(line.why)))
    print_table(ctx.env, table, 100)
    counts = ", ".join(f"{count} {WORDS[verdict]}" for verdict, count in found.counts.items())
    print(f"{place}: {sum(found.counts.values())} lines: {counts}")


def document(found: Adopted, made: Written | None) -> dict[str, object]:
    """All that was found as data, schema gb10/adopt/v1."""
    return {
        "schema": "gb10/adopt/v1",
        "base": found.base,
        "recipe": str(made.recipe) if made else None,
        "command": made.command if made else None,
        "counts": dict(found.counts),
        "requirements": list(found.requirements),
        "constraints": list(found.constraints),
        "env": dict(found.env),
        "overlay": list(found.overlay),
        "patches": list(found.patches),
        "mods": [{"network": mod.network, "script": mod.script, "files": list(mod.files)} for mod in found.mods],
        "wheels": [asdict(wheel) for wheel in found.wheels],
        "remarks": list(found.remarks),
        "lines": [asdict(line) for line in found.lines],
    }
