"""``--without-patch``: patches of ours that a build does not get, and those that go with them. Pure."""

import re
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Final

from gb10.errors import UsageError
from gb10.image.plan.options import PatchUse
from gb10.image.recipe.image_recipe import Recipe
from gb10.patches.series import load_series

BUNDLED: Final = "cutlass"
NUMBER: Final = re.compile(r"[a-z0-9-]+/\d{4}")


def left_out(root: Path, names: Sequence[str], planned: Sequence[PatchUse]) -> tuple[str, ...]:
    """The planned patches that go with these, as SOURCE/NNNN-slug: each that is named, and those that need one of them.

    A name is SOURCE/NNNN, with or without the rest. Raises UsageError for one that is not planned.
    """
    ours = {use.patch for use in planned if use.path is None}
    gone = {_planned_patch(name, ours) for name in names}
    needs = {
        f"{patch.source}/{patch.id}": patch.record.needs
        for use in ours
        for patch in load_series(root, use.partition("/")[0])
    }
    while more := {name for name in ours - gone if not gone.isdisjoint(needs[name])}:
        gone |= more
    return tuple(sorted(gone))


def require_stand_in(recipe: Recipe, gone: Collection[str], planned: Sequence[PatchUse]) -> None:
    """Raise UsageError when kernels of ours would be compiled without what a patch adds, and nothing in its place."""
    extensions = {name: wheel for name, wheel in recipe.built.items() if wheel.method == "extension"}
    by_hand = {use.source for use in planned if use.path is not None}
    for name in gone:
        source = name.partition("/")[0]
        if extensions and source == BUNDLED and source not in by_hand:
            raise UsageError(
                f"--without-patch {name}: {', '.join(extensions)} cannot be compiled without what it adds",
                hint=f"give the change that takes its place: --patch {source}=DIFF",
            )


def _planned_patch(name: str, ours: Collection[str]) -> str:
    """The one patch that a name means."""
    wanted = name.removeprefix("patches/").removesuffix("/").removesuffix(".patch").partition("@")[0]
    found = [one for one in ours if wanted in (one, one.partition("/")[2])]
    found = found or [one for one in ours if NUMBER.fullmatch(wanted) and one.startswith(f"{wanted}-")]
    if len(found) == 1:
        return found[0]
    what = "several patches are called so" if found else "this build has no such patch of ours"
    raise UsageError(
        f"--without-patch {name}: {what}",
        hint=f"it has {', '.join(sorted(found or ours)) or 'none'}",
    )
