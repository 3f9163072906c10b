"""``plan``: what would happen."""

from typing import Annotated

import typer

from gb10.build.grafts import try_patches
from gb10.build.survey import survey
from gb10.cli.asking import asks_for, of_image
from gb10.cli.common import JsonOption, print_json, verb_app, workshop
from gb10.cli.show import print_plan
from gb10.errors import UsageError
from gb10.plan.render import bake, dockerfile
from gb10.request.planning import Request, make_plan

app = verb_app("""Show every step, its key, and whether its result is already there. Changes nothing.

\b
./build.py plan                    a table
./build.py plan --json             the same as data (schema: docs/schemas/plan-v1.schema.json)
./build.py plan --dockerfile       the Dockerfile that would be built
./build.py plan --bake             docker-bake.json
""")


@app.command(help=app.info.help)
@asks_for(of_image)
def plan(
    *,
    asked: Request,
    as_json: JsonOption = False,
    as_dockerfile: Annotated[bool, typer.Option("--dockerfile", help="Print the Dockerfile.")] = False,
    as_bake: Annotated[bool, typer.Option("--bake", help="Print docker-bake.json.")] = False,
) -> None:
    """Show what would happen."""
    if as_json + as_dockerfile + as_bake > 1:
        raise UsageError("--json, --dockerfile and --bake are three different outputs", hint="choose one of them")
    shop = workshop()
    made = make_plan(shop, asked)
    if as_dockerfile:
        print(dockerfile(made, shop.catalog.templates))
    elif as_bake:
        print_json(bake(made))
    else:
        try_patches(shop, made)
        print_plan(shop, made, survey(shop, made), as_json=as_json)
