"""Names of recipes and mods in registries: ``@REGISTRY/NAME``, as sparkrun writes them."""

import difflib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

from gb10.errors import UsageError
from gb10.models.registries.recipe_file import SUFFIXES, RecipeFile, last_part, recipe_files, short_names
from gb10.models.registries.registry import Registry

Roots = Callable[[Registry], Path]
"""The folder of a registry's content."""
SHOWN: Final = 5
"""Names that an error lists."""


def named_registry(registries: Sequence[Registry], text: str) -> Registry:
    """The registry of ``@NAME`` or ``@NAME/…``; raises UsageError with the closest names."""
    name = text.removeprefix("@").partition("/")[0]
    found = next((one for one in registries if one.name == name), None)
    if found is not None:
        return found
    names = [one.name for one in registries]
    known = f"known: {', '.join(f'@{one}' for one in names)}" if names else "there is none yet"
    raise UsageError(
        f"no registry @{name[:80]}", hint=f"{_meant(name, names)}{known}; ./build.py recipe add URL adds one"
    )


def find_in_registry(root_of: Roots, registries: Sequence[Registry], text: str) -> RecipeFile:
    """The recipe of ``@REGISTRY/NAME``: by its path, or by the end of it. Raises UsageError, FetchError."""
    registry = named_registry(registries, text)
    files = recipe_files(root_of(registry), registry)
    wanted = text.partition("/")[2]
    bare = next((wanted.removesuffix(suffix) for suffix in SUFFIXES if wanted.endswith(suffix)), wanted)
    exact = [file for name, file in files.items() if bare in (name, _whole(file))]
    found = exact or [file for file in files.values() if _whole(file).endswith(f"/{bare}")]
    if len(found) == 1:
        return found[0]
    if found:
        where = "\n".join(file.shown for file in found[:SHOWN])
        raise UsageError(f"{text[:80]} names {len(found)} recipes", where=where, hint="name its path")
    guess = _meant(bare, list(short_names(files)), f"@{registry.name}/")
    raise UsageError(
        f"no model recipe {text[:80]!r}", hint=f"{guess}./build.py recipe list @{registry.name} shows its recipes"
    )


def _whole(file: RecipeFile) -> str:
    """The path of a file in its registry, without the suffix."""
    return file.shown.partition("/")[2].rpartition(".")[0]


def find_registry_mod(root_of: Roots, registries: Sequence[Registry], text: str) -> Path | None:
    """The folder of the mod ``@REGISTRY/NAME``; None when that registry, or the mod in it, is unknown."""
    name, _, mod = text.removeprefix("@").partition("/")
    registry = next((one for one in registries if one.name == name), None)
    return mod_in(root_of(registry), registry, mod) if registry else None


def mod_in(root: Path, registry: Registry, written: str) -> Path | None:
    """The folder of a mod in the registry's own folder of mods; None when there is none."""
    name = written.rstrip("/").rpartition("/")[2]
    folder = root / (registry.mods or "mods") / name
    return folder if name not in ("", ".", "..") and (folder / "run.sh").is_file() else None


def _meant(name: str, names: Iterable[str], prefix: str = "@") -> str:
    close = difflib.get_close_matches(last_part(name), list(names), n=3, cutoff=0.4)
    return f"did you mean {' or '.join(prefix + one for one in close)}? " if close else ""
