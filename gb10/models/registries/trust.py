"""Trust: what a recipe of somebody else may do is shown, and the user allows it before anything of it runs."""

from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Final

from gb10.containers.container_options import HostMount
from gb10.errors import UsageError
from gb10.models.load.host_access import HostRequest
from gb10.models.load.model_recipe import ModelRecipe
from gb10.models.recipe_privileges import Power, mod_powers, powers_of
from gb10.models.registries.recipe_file import RecipeFile, registries
from gb10.models.render.rendered import RenderedRecipe

FLAGGED: Final = frozenset(("volumes", "devices", "cap_add", "security_opt", "privileged", "extra_hosts", "labels"))
"""What a recipe of somebody else gets of the host by a flag for each entry alone."""
DEVICES: Final = ("/dev/infiniband", "/dev/dri")
"""Devices of the network and of the display: those that it may have with trust."""
MOST = 40
"""Powers that an error lists."""
UNUSED = " (not by gb10)"


def mods_here(recipe: ModelRecipe, file: RecipeFile, mods: Sequence[str]) -> tuple[Power, ...]:
    """What these mods of a recipe may do that the user has not allowed: they are of registries without trust."""
    if file.trusted:
        named = [mod for mod in mods if mod.startswith("@")]
        doubted = {one.name for one in registries() if not one.trusted} if named else set()
        mods = [mod for mod in named if mod[1:].partition("/")[0] in doubted]
    return tuple(mod_powers(recipe, mods))


def powers_here(
    recipe: ModelRecipe,
    file: RecipeFile,
    mods: Sequence[str],
    rendered: RenderedRecipe | None = None,
    *,
    chosen_image: bool = False,
) -> tuple[Power, ...]:
    """What a recipe may do that the user has not allowed: nothing for ours and the user's own.

    ``mods`` are those of its mods that run from a folder of somebody else; ``rendered`` is what runs. ``chosen_image``:
    the image is the user's choice.
    """
    if not file.trusted:
        return powers_of(recipe, mods, rendered, chosen_image=chosen_image)
    return mods_here(recipe, file, mods)


def lines_of_powers(recipe: ModelRecipe, powers: tuple[Power, ...]) -> list[str]:
    """``FILE:LINE: TEXT``, one for each; what gb10 itself does not do is said so."""
    more = [f"and {len(powers) - MOST} more"] if len(powers) > MOST else []
    shown = (f"{recipe.file}:{power.line}: {power.text}{'' if power.used else UNUSED}" for power in powers[:MOST])
    return [*shown, *more]


def require_trust(recipe: ModelRecipe, file: RecipeFile, powers: tuple[Power, ...], *, trust: bool) -> None:
    """Raise UsageError for what the user has not allowed, with every part of it."""
    if not powers or trust:
        return
    name = f"@{file.registry.name}" if file.registry else file.shown
    raise UsageError(
        f"{file.shown} does more than start an engine, and {name} is not trusted",
        where="\n".join(lines_of_powers(recipe, powers)),
        hint="read it, then add --trust; ./build.py recipe add --trust allows it for a registry's present pin",
    )


def require_allowed(
    recipe: ModelRecipe,
    file: RecipeFile,
    asked: HostRequest,
    files: Sequence[HostMount],
    *,
    allowed: Sequence[str],
    paths: Sequence[str],
) -> None:
    """Raise UsageError for what a recipe of somebody else gets of the host without a flag of the user's own.

    ``files`` are the model's, by absolute paths; ``allowed`` are ``KEY=VALUE`` of ``--allow``, ``paths`` the folders of
    ``--allow-path``. A named volume needs none: it is one of the service's own. Links are not followed here: the node
    does it before it starts anything.
    """
    unknown = [one for one in allowed if one not in {asked.text for asked in asked.asked}]
    if unknown:
        listed = "\n".join(one.text for one in asked.asked if one.key in FLAGGED)
        raise UsageError(
            f"--allow {unknown[0]}: the recipe asks for no such thing", where=listed or None, hint="write it as listed"
        )
    if file.trusted:
        return
    missing = []
    for one in asked.asked:
        source = one.value.partition(":")[0]
        folder = one.key == "volumes" and source.startswith("/")
        free = one.key not in FLAGGED or (one.key == "volumes" and not folder) or (one.text in allowed and not folder)
        device = one.key == "devices" and is_below(source, DEVICES)
        if not (free or device or (folder and is_below(source, paths))):
            way = f"--allow-path {source}" if folder else f"--allow {one.text}"
            missing.append(f"{recipe.file}:{one.line}: {one.text}: {way}")
    for mount in files:
        if not is_below(mount.source, paths):
            missing.append(f"{recipe.file}: the model's {mount.source}: --allow-path {mount.source}")
    if missing:
        raise UsageError(
            f"{file.shown} gets more of the host than you have allowed",
            where="\n".join(missing[:MOST]),
            hint="read it, then add the flag of each line",
        )


def is_below(path: str, folders: Sequence[str]) -> bool:
    """Whether a path is one of the folders, or in one of them; a path with a step up is in none."""
    return ".." not in path.split("/") and any(PurePosixPath(path).is_relative_to(folder) for folder in folders)
