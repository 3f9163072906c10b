"""``image --recipe``: a model recipe, or an image recipe of another builder, becomes a request of ours."""

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from gb10.cli.recipe_files import find_recipe, read_text
from gb10.cli.recipe_image import with_model_recipe
from gb10.errors import UsageError
from gb10.image.plan.catalog import DEFAULT_ENGINE
from gb10.image.request.planning import Request
from gb10.models.load.image_key_values import image_wish, read_key_values
from gb10.models.registries.recipe_file import SUFFIXES


def with_recipe(asked: Request, name: str, *, trust: bool) -> Request:
    """The request of a model recipe (ours, of a registry, a YAML file), or of a file of KEY=VALUE lines."""
    file = find_recipe(name)
    yaml = file.path.suffix in SUFFIXES
    return with_model_recipe(asked, file, trust=trust) if yaml else with_wish(asked, file.path)


def with_wish(asked: Request, path: Path) -> Request:
    """The request with the file's engine and releases; ``--ref`` wins. Raises UsageError when it cannot be built."""
    wish = image_wish(read_key_values(read_text(path), str(path)), str(path))
    if asked.engine not in (DEFAULT_ENGINE, wish.engine):
        raise UsageError(f"{path} is for {wish.engine}, and --engine names {asked.engine}", hint="leave out --engine")
    refs: Mapping[str, str] = {**wish.refs, **asked.refs}
    releases = " ".join(f"--ref {name}={release}" for name, release in refs.items())
    print(f"{path}: the same as --engine {wish.engine} {releases}", file=sys.stderr)
    if wish.ignored:
        print(f"{path}: our lock decides instead of {', '.join(wish.ignored)}", file=sys.stderr)
    return replace(asked, engine=wish.engine, refs=refs)
