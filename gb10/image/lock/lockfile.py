"""Recipe and lock as files: read strictly, compared by digest, written whole or not at all."""

import json
import shlex
from functools import lru_cache
from pathlib import Path

from pydantic import ValidationError
from yaml import MappingNode, YAMLError

from gb10.core.document import compose, parse_document
from gb10.core.files import digest, write_whole
from gb10.errors import LockStaleError, UsageError
from gb10.image.recipe.image_recipe import Recipe, Source
from gb10.image.recipe.locked import Lock, LockedCheckout
from gb10.image.recipe.on_image import OnImage


def load_recipe(path: Path) -> Recipe:
    """The image recipe of a YAML file; raises a UsageError that lists every mistake."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read the image recipe {path}", where=str(error)) from error
    return parse_document(text, Recipe, where=str(path), what="image recipe")


def load_any(path: Path) -> Recipe | OnImage:
    """The same, or the recipe on an image of others, whose ``base`` has an ``image``."""
    try:
        root = compose(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, YAMLError):
        return load_recipe(path)  # which says what is wrong
    top = {key.value: value for key, value in root.value} if isinstance(root, MappingNode) else {}
    base = top.get("base")
    if not isinstance(base, MappingNode) or "image" not in [key.value for key, _ in base.value]:
        return load_recipe(path)
    text = path.read_text(encoding="utf-8")
    return parse_document(text, OnImage, where=str(path), what="recipe on an image of others")


def lock_path(recipe_path: Path) -> Path:
    """The lock beside a recipe."""
    return recipe_path.with_suffix(".lock.json")


def relock(path: Path) -> str:
    """The command that locks again, from the path of a recipe or of its lock."""
    recipe = path if path.suffix in (".yaml", ".yml") else path.with_name(path.name.replace(".lock.json", ".yaml"))
    known = recipe.parent.parts[-2:] == ("recipes", "images")
    return f"./build.py lock --engine {shlex.quote(recipe.stem if known else str(recipe))}"


def load_lock(path: Path) -> Lock:
    """The lock; raises LockStaleError when it is missing or unreadable."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise LockStaleError("the recipe was never locked", where=f"no file {path}", hint=relock(path)) from error
    except (OSError, UnicodeDecodeError) as error:
        raise LockStaleError(f"cannot read the lock {path}", where=str(error), hint=relock(path)) from error
    try:
        return _parsed(text)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        where = f"{path}: {place}: {first['msg']}" if place else f"{path}: {first['msg']}"
        raise LockStaleError(
            "this is not a lock that this version of gb10 can read", where=where, hint=relock(path)
        ) from error


@lru_cache(maxsize=4)  # `cache ls` plans each engine for all arches
def _parsed(text: str) -> Lock:
    return Lock.model_validate_json(text)


def write_lock(path: Path, lock: Lock) -> None:
    """Write sorted JSON, a line for each file. A reader sees the old lock or the new one. Raises UsageError."""
    write_whole(path, lock_text(lock), "the lock")


def lock_text(lock: Lock) -> str:
    """The text of the lock file. Pure."""
    return _layout(lock.model_dump(mode="json", by_alias=True, exclude_none=True)) + "\n"


def _layout(value: object, indent: str = "") -> str:
    """JSON with sorted keys; a mapping of plain values takes one line, so that a diff shows one file as one line."""
    deeper = indent + " "
    if isinstance(value, dict) and any(isinstance(item, dict | list) for item in value.values()):
        lines = [f"{deeper}{json.dumps(key)}: {_layout(value[key], deeper)}" for key in sorted(value)]
        return "{\n" + ",\n".join(lines) + f"\n{indent}}}"
    if isinstance(value, list) and value:
        return "[\n" + ",\n".join(deeper + _layout(item, deeper) for item in value) + f"\n{indent}]"
    return json.dumps(value, sort_keys=True)


def check_lock(recipe: Recipe, lock: Lock, path: Path) -> None:
    """Raises LockStaleError when the recipe in ``path`` changed since it was locked."""
    checkouts = {name: file.input_digest for name, file in lock.sdists.items() if isinstance(file, LockedCheckout)}
    wanted = {name: source_digest(source) for name, source in recipe.sources.items() if source.git}
    changed = sorted(name for name in {*checkouts, *wanted} if checkouts.get(name) != wanted.get(name))
    if changed:
        raise LockStaleError(
            f"the git sources of the recipe {path.name} changed since they were locked",
            where=f"{', '.join(changed)}: different from the lock",
            hint=relock(path),
        )
    if lock.input_digest != input_digest(recipe):
        raise LockStaleError(
            f"the recipe {path.name} changed since it was locked on {lock.created}",
            where=f"locked from {lock.input_digest}\nrecipe is   {input_digest(recipe)}",
            hint=relock(path),
        )


def input_digest(recipe: Recipe) -> str:
    """Digest of the fields that affect resolution; comments, order and reasons do not. Pure.

    Git sources do not either: an image with no wheels compiled from them does not depend on them.
    """
    wheels = sorted({source.wheel for source in recipe.sources.values() if source.wheel})
    return digest(
        {
            "python": recipe.python,
            "base": base_digest(recipe),
            "requirements": sorted(recipe.requirements),
            "constraints": sorted(recipe.constraints),
            "overrides": sorted(override.requirement for override in recipe.overrides),
            "exclude-newer": recipe.exclude_newer.isoformat() if recipe.exclude_newer else None,
            "tools": sorted(recipe.all_tools),
            "sdists": sorted({source.sdist for source in recipe.sources.values() if source.sdist}),
            **({"source-wheels": wheels} if wheels else {}),
            **({"indexes": recipe.index_of} if recipe.indexes else {}),
        }
    )


def source_digest(source: Source) -> str:
    """Digest of the fields that affect a git source. Pure."""
    return digest([source.git, source.pin, source.paths, source.submodules])


def base_digest(recipe: Recipe) -> str:
    """Digest of the fields that affect the Debian packages. Pure."""
    packages = recipe.base.packages
    cross = {architecture: sorted(names) for architecture, names in packages.cross.items()}
    return digest([recipe.base.suite, sorted(packages.image), sorted(packages.build), cross])
