"""``recipe import``: a file of another form becomes a recipe of version 2 with our section."""

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from packaging.version import InvalidVersion, Version

from gb10.cli.verb import JsonOption, inject, print_json, with_reporter
from gb10.containers.reference import HINT, is_reference, registry_of
from gb10.core.installation import ROOT
from gb10.core.reporter import Reporter
from gb10.errors import UsageError
from gb10.image.lock.lockfile import load_recipe
from gb10.models.importing.import_result import ImportChoices, recipe_text
from gb10.models.importing.importing import engine_of_form, import_recipe
from gb10.models.issue import errors_of
from gb10.models.lint.engine_words import ENGINES
from gb10.models.lint.served import release_in_tag
from gb10.models.load.loading import load_model_recipe
from gb10.models.needs.image_need import known_engine
from gb10.models.registries.recipe_file import dotenv_beside, read_text


def wanted_of(
    *,
    variant: Annotated[
        str | None,
        typer.Option("--variant", metavar="NAME", help="Its variant, or its model. Default: the largest that fits."),
    ] = None,
    nodes: Annotated[
        int | None, typer.Option("--nodes", metavar="N", min=1, max=64, help="Sparks. Default: the fewest that fit.")
    ] = None,
    features: Annotated[
        list[str] | None, typer.Option("--with", metavar="FEATURE", help="A feature that is off by itself. Repeatable.")
    ] = None,
    image: Annotated[
        str | None, typer.Option("--image", metavar="REF", help="The image, if the file names none. Default: ours.")
    ] = None,
    release: Annotated[
        str | None,
        typer.Option("--release", metavar="VERSION", help="The engine's release, if the file names none."),
    ] = None,
) -> ImportChoices:
    """What a command line chooses; raises UsageError for an image or a release that cannot be."""
    named = release_in_tag(image or "")
    if image is not None and not is_reference(image):
        raise UsageError(f"not an image reference: {image!r}", hint=HINT)
    try:
        Version(release or "0")
        differs = release is not None and bool(named) and Version(release) != Version(named)
    except InvalidVersion:
        raise UsageError(f"{release!r} is no release", hint="write it as 0.33.0") from None
    if differs:
        raise UsageError(f"{image} is of {named}, and --release is {release}", hint="leave one of them out")
    return ImportChoices(
        variant=variant,
        nodes=nodes,
        features=tuple(features or ()),
        image=image or "",
        release=release or named or None,
    )


@with_reporter
@inject("wanted", wanted_of, first=True)
def import_file(
    *,
    reporter: Reporter,
    wanted: ImportChoices,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to import.")],
    write: Annotated[
        Path | None, typer.Option("--write", metavar="PATH", help="Write the recipe there, in place of printing it.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Make a recipe of a file of another form.

    Read are `docker run` and servers in a script, compose files, objects of Kubernetes, KServe and Ray Serve, vLLM's
    official recipes, and profiles of Ansible for SGLang. The source stands in the recipe. What each line became and
    what was left out is printed. Exit 2 with one sentence when a file becomes no recipe.

    \b
    ./build.py recipe import start.sh > mine.yaml
    ./build.py recipe import compose.yaml --variant vllm --write mine.yaml
    ./build.py recipe import models/Qwen/Qwen3-8B.yaml > qwen3-8b.yaml
    ./build.py recipe import models/deepseek-ai/DeepSeek-V4-Flash.yaml --nodes 2 --with spec_decoding
    ./build.py recipe import profile.yml --image docker.io/scitrera/dgx-spark-sglang:0.5.10 > glm.yaml
    """
    text, wanted = read_text(file), replace(wanted, beside=lambda: dotenv_beside(file))
    engine = engine_of_form(text, str(file), wanted)
    image = wanted.image or (image_of(engine, wanted.release) if engine in ENGINES else "")
    found = import_recipe(text, str(file), replace(wanted, image=image))
    recipe = recipe_text(found, str(file))
    errors = errors_of(load_model_recipe(recipe, str(file)).issues)
    if errors:
        raise UsageError(f"{file} becomes no recipe: {errors[0].text}", hint="correct it there, or write one by hand")
    if write is not None:
        _write(write, recipe)
    if as_json:
        print_json({"schema": "gb10/recipe-import/v1", "recipe": recipe, "said": list(found.said)})
    elif write is None:
        sys.stdout.write(recipe)
    for line in (*found.said, *_about_the_image(str(found.values["container"]), wanted, engine)):
        reporter.say(line)


def image_of(engine: str, release: str | None = None) -> str:
    """The name of our image for GB10, of an engine's locked release or of another one."""
    recipe = load_recipe(ROOT / f"recipes/images/{engine}.yaml")
    return f"{recipe.repository}:{release or recipe.version}-cu{recipe.cuda.replace('.', '')}-sm121f"


def _about_the_image(image: str, wanted: ImportChoices, engine: str) -> Iterator[str]:
    """What became of the two options, and who has the image."""
    if wanted.image and image != wanted.image:
        yield f"--image is for a file that names none: this one names {image}"
    elif engine in ENGINES and wanted.release and image not in (wanted.image, image_of(engine, wanted.release)):
        yield f"--release is for a file that names no image: this one names {image}"
    elif wanted.image and registry_of(image) is None and known_engine(image) is None:
        yield f"{image} names no registry, so no node pulls it: bring it there first, or write docker.io/{image}"
    elif engine in ENGINES and not wanted.image and image == image_of(engine, wanted.release) != image_of(engine):
        call = f"./build.py image --engine {engine} --ref {engine}={wanted.release}"
        yield f"the image is ours of another release, which {call} makes"


def _write(path: Path, text: str) -> None:
    if path.exists():
        raise UsageError(f"{path} is there already", hint="remove it, or write to another path")
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {path}", where=error.strerror or str(error)) from error
