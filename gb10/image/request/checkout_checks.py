"""Checks a checkout against the locked release, and reports its changes."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from packaging.version import InvalidVersion, Version

from gb10.errors import PatchError, UsageError
from gb10.image.recipe.image_recipe import Recipe
from gb10.image.recipe.layout import PLAIN, Layout
from gb10.image.request.checkout_files import Worktree
from gb10.patches.compare import Difference
from gb10.patches.releases import Told, check_told
from gb10.patches.selection import Place
from gb10.patches.source_tree import Tree

MOST_DIFFERENT: Final = 300
"""Files that may differ from the release; more differences mean that the checkout is of another release."""
TELLING: Final = {"PKG-INFO": r"(?m)^Version: (\S+)$", "version.txt": r"\A\s*(\S+)\s*\Z"}
REQUIRES: Final = re.compile(r"(^|/)(pyproject\.toml|setup\.(py|cfg)|requirements[^/]*(/.*)?\.txt)$")
"""Files that say what a project requires."""
TAG: Final = re.compile(r"v?(\d+\.\d[^-]*)(-\d+-g[0-9a-f]+)?")


@dataclass(frozen=True, kw_only=True, slots=True)
class Released:
    """A source in the image's lock.

    ``bundled`` maps folders to the other sources they contain; ``told`` is the file that must give the version.
    """

    source: str
    place: Place
    tree: Tree
    bundled: Mapping[str, str]
    layout: Layout = PLAIN
    told: Told | None = None
    required: bool = False
    """Whether the recipe requires it by name, so ``--ref`` can change its release."""

    def __str__(self) -> str:
        return f"{self.source} {self.place.version}"


def check_said(released: Released, checkout: Worktree, tree: Tree) -> None:
    """Raise UsageError for a checkout that names another release: in a file of it, or by git's nearest tag.

    Raise PatchError when the file that must give the version does not.
    """
    if released.told:
        check_told(released.source, released.told, tree, released.place.version, str(checkout))
        return
    for said in (*_files_say(checkout, tree), *_tag_says(checkout)):
        if Version(said.public) != Version(released.place.version.public):
            raise _stranger(released, checkout, f"its version is {said}")


def check_difference(
    recipe: Recipe, released: Released, checkout: Worktree, found: Difference, given: Collection[str]
) -> None:
    """Raise UsageError for a checkout of another release, or for changes that this build cannot use.

    Raise PatchError for changes that a diff cannot hold; ``given`` are the sources that the user named.
    """
    _check_near(released, checkout, found)
    _check_changes(released, checkout, found)
    _check_bundled(released, checkout, found, given)
    _check_compiled(recipe, released, checkout, found)


def _files_say(checkout: Worktree, tree: Tree) -> Iterable[Version]:
    for name, pattern in TELLING.items():
        text = (tree.read(name) or b"").decode("utf-8", "replace") if name in checkout.files else ""
        if found := re.search(pattern, text):
            yield from _version(found[1])


def _tag_says(checkout: Worktree) -> Iterable[Version]:
    if found := TAG.fullmatch(checkout.described):
        yield from _version(found[1])


def _version(text: str) -> Iterable[Version]:
    """The version in a text, or None: a fork's own tags are not versions."""
    try:
        yield Version(text)
    except InvalidVersion:
        return


def _check_near(released: Released, checkout: Worktree, found: Difference) -> None:
    """Raise UsageError when too many files differ: the checkout is of another release."""
    if len(found.differ) > MOST_DIFFERENT:
        many = f"{len(found.differ):,} of {found.known:,} files differ or are missing: {_some(found.differ)}"
        raise _stranger(released, checkout, many)


def _stranger(released: Released, checkout: Worktree, why: str) -> UsageError:
    git = f"git -C {checkout.root} switch --detach v{released.place.version}" if checkout.git else "unpack that release"
    git = (
        f"choose a commit on top of v{released.place.version}"
        if checkout.url
        else f"{git}, then apply your changes to it"
    )
    ref = f"\nor build that release: --ref {released.source}=VERSION" if released.required else ""
    at = f"\nit is at {_at(checkout)}" if checkout.git else ""
    return UsageError(
        f"{checkout} is not a checkout of {released}, the locked release",
        where=f"{why}{at}",
        hint=f"{git}{ref}",
    )


def _check_changes(released: Released, checkout: Worktree, found: Difference) -> None:
    """Raise PatchError for a missing file or a file that is not text."""
    if found.gone:
        raise PatchError(
            f"{checkout} lacks files of {released}",
            where=_listed(found.gone),
            hint="a layer on top of upstream's cannot remove a file: keep the file, or empty it",
        )
    changed = {**found.installed, **found.compiled}
    binary = [path for path, both in changed.items() if any(b"\0" in (side or b"") for side in both)]
    if binary:
        raise PatchError(
            f"{checkout} changes files of {released} that are not text",
            where=_listed(binary),
            hint="revert them, or add your files with --overlay DIR",
        )


def _check_bundled(released: Released, checkout: Worktree, found: Difference, given: Collection[str]) -> None:
    """Raise UsageError for changes to a bundled source that the user did not name."""
    for folder, source in released.bundled.items():
        theirs = [path for path in found.elsewhere if path.startswith(f"{folder}/")]
        if theirs and source not in given:
            raise UsageError(
                f"{checkout} changes {source}, which {released} bundles",
                where=_listed(theirs),
                hint=f"add --source {source}={'DIR, with these files' if checkout.url else checkout.root / folder}",
            )


def _check_compiled(recipe: Recipe, released: Released, checkout: Worktree, found: Difference) -> None:
    """Raise UsageError for changes to compiled files when this build does not compile the source."""
    project = released.place.project
    here = {recipe.project(wheel.source) for wheel in recipe.built.values() if wheel.method != "extension"}
    if not found.compiled or released.place.folder or project in here:
        return
    could = project in {recipe.project(wheel.source) for wheel in recipe.wheels.values()}
    hint = "name the CMake targets to compile: --targets A,B" if could else "revert these changes in the checkout"
    if could and checkout.url:
        hint = "compile the whole project from it: --targets all\nor only what it changes: --targets A,B"
    raise UsageError(
        f"{checkout} changes what {released.source} compiles, but this build compiles nothing of it",
        where=_listed([*found.compiled]),
        hint=hint,
    )


def told(released: Released, checkout: Worktree, found: Difference) -> Iterable[str]:
    changed = sorted({**found.installed, **found.compiled})
    if changed:
        yield f"{released}: {checkout} ({_at(checkout)}) changes {len(changed):,} of its files: {_some(changed)}"
    else:
        yield f"{released}: {checkout} ({_at(checkout)}) has no changes that affect the build"
    lines = {
        "ignored, the build does not use them": found.unread,
        "may change requirements (the lock keeps those of the release)": [*filter(REQUIRES.search, found.unread)],
        "ignored, new and not text (add them with --overlay DIR)": found.binary,
        "not compared, not in the locked wheel": found.outside,
        "not compared, submodules (the build uses the release's)": checkout.modules,
    }
    yield from (f"{released}: {text}: {len(paths):,} ({_some(paths)})" for text, paths in lines.items() if paths)


def _at(checkout: Worktree) -> str:
    if not checkout.git:
        return "a plain folder"
    commit = f"commit {checkout.commit[:12]}" if checkout.commit else "no commit yet"
    named = f", {checkout.described}" if checkout.described and checkout.described not in checkout.commit else ""
    return f"{commit}{named}{', with uncommitted changes' if checkout.dirty else ''}"


def _listed(paths: Sequence[str], most: int = 10) -> str:
    more = [f"and {len(paths) - most} more"] if len(paths) > most else []
    return "\n".join((*paths[:most], *more))


def _some(paths: Sequence[str], most: int = 3) -> str:
    return ", ".join(paths[:most]) + (", …" if len(paths) > most else "")
