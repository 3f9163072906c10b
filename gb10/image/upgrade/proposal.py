"""A recipe's next release, end to end: what moves, whether it locks, what becomes of our patches, what is new."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from packaging.version import Version

from gb10.core.document import parse_document
from gb10.core.machine import MACHINES
from gb10.errors import UsageError
from gb10.image.context import Context
from gb10.image.lock.lockfile import check_lock, load_lock, lock_path
from gb10.image.lock.relock import resolve_lock
from gb10.image.lock.torch_cuda import TORCH
from gb10.image.recipe.image_recipe import Recipe
from gb10.image.recipe.locked import Lock, LockedWheel
from gb10.image.upgrade.afterwards import steps_of
from gb10.image.upgrade.demands import demands, metadata_of
from gb10.image.upgrade.edit import edited, left_over
from gb10.image.upgrade.moves import BY_HAND, Move, Next, no_longer, pins
from gb10.image.upgrade.nested import nested_moves
from gb10.image.upgrade.news import News, news
from gb10.image.upgrade.offered import Offered, choose, newest_of, offered, opened
from gb10.image.upgrade.outcomes import Checked, check_series
from gb10.patches.release_files import Library


@dataclass(frozen=True, kw_only=True, slots=True)
class Proposal:
    """A recipe that locks, and its lock. ``moves`` is empty when no newer release can be proposed.

    ``notes`` say what is not proposed, and why; ``lines`` of the text still name a release that moved; ``steps`` are
    what a maintainer does before an image can be built.
    """

    path: Path
    engine: str
    old: Version
    new: Version
    before: str
    """The text that was read."""
    text: str
    lock: Lock
    moves: tuple[Move, ...] = ()
    wheels: tuple[tuple[str, str, str], ...] = ()
    """Wheels of the arm64 image: project, its release before (empty: not there) and after."""
    checked: Checked = field(default_factory=Checked)
    news: News = field(default_factory=News)
    notes: tuple[str, ...] = ()
    lines: tuple[tuple[int, str], ...] = ()
    steps: tuple[str, ...] = ()


def propose(ctx: Context, path: Path, asked: str | None, others: tuple[str, ...] = ()) -> Proposal:
    """The engine's newest release, or the one that was asked for, in the recipe. Writes nothing but the store.

    ``others`` are projects of the lock to upgrade with it. Raises UsageError, LockStaleError, FetchError.
    """
    text, recipe = read_recipe(path)
    lock = load_lock(lock_path(path))
    check_lock(recipe, lock, path)
    found = offered(ctx, recipe, path)
    chosen = choose(found, asked)
    same = Proposal(
        path=path,
        engine=recipe.engine,
        old=found.current,
        new=chosen.version,
        before=text,
        text=text,
        lock=lock,
        notes=chosen.notes,
    )
    return same if chosen.version == found.current else _moved(ctx, found, same, others)


def read_recipe(path: Path) -> tuple[str, Recipe]:
    """A recipe's text as it is, line ends included, and what it says. Raises UsageError."""
    try:
        text = path.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read the image recipe {path}", where=str(error)) from error
    return text, parse_document(text, Recipe, where=str(path), what="image recipe")


def _moved(ctx: Context, found: Offered, same: Proposal, others: tuple[str, ...]) -> Proposal:
    """The proposal of another release."""
    recipe, trees = found.recipe, [opened(ctx, found, version) for version in (same.old, same.new)]
    named = zip(trees, (same.old, same.new), strict=True)
    old, new = (
        demands(metadata_of(tree, f"{recipe.engine} {version}"), recipe.python, MACHINES["arm64"])
        for tree, version in named
    )
    release = Next(engine=recipe.engine, version=same.new, old=old, new=new)
    moves = pins(recipe, release, lambda project, accepted: newest_of(found, project, accepted))
    nested, notes = nested_moves(recipe, trees[1], ctx.store, release.name)
    moves += nested
    text, made = edited(same.text, recipe, moves, str(same.path))
    lock = _relocked(ctx, made, same.lock, others, release.name)
    library = Library(root=ctx.catalog.patches, store=ctx.store, env=ctx.env, reporter=ctx.reporter)
    checked = check_series(library, (recipe, made), (same.lock, lock))
    with ctx.reporter.task(f"compare {recipe.engine} {same.old} with {same.new}"):
        fresh = news(recipe.engine, trees[0], trees[1], (old, new))
    gone = (f"{release.name} no longer requires {name}: its pin stays" for name in no_longer(recipe, release))
    return Proposal(
        path=same.path,
        engine=same.engine,
        old=same.old,
        new=same.new,
        before=same.before,
        text=text,
        lock=lock,
        moves=moves,
        wheels=tuple(_wheels(same.lock, lock)),
        checked=checked,
        news=fresh,
        notes=(*same.notes, *notes, *gone),
        lines=left_over(text, moves),
        steps=tuple(steps_of(ctx, made, lock, checked)),
    )


def _relocked(ctx: Context, recipe: Recipe, lock: Lock, others: tuple[str, ...], what: str) -> Lock:
    """The new lock. Raises UsageError, in one sentence, when nothing fits, or torch needs another CUDA."""
    try:
        with ctx.reporter.task(f"resolve {what}"):
            made = resolve_lock(recipe, lock, store=ctx.store, env=ctx.env, upgrade=others)
    except UsageError as error:
        raise UsageError(f"{what} is not proposed: {error.message}", where=error.where, hint=error.hint) from error
    old, new = _torch(lock), _torch(made)
    if new and new.cuda not in (None, recipe.cuda, old.cuda if old else None):
        raise UsageError(
            f"{what} is not proposed: its torch {new.version} is built with CUDA {new.cuda}, and the recipe has "
            f"{recipe.cuda}",
            hint=f"cuda and the CUDA wheels in constraints move together: {BY_HAND}",
        )
    return made


def _torch(lock: Lock) -> LockedWheel | None:
    return next((wheel for wheel in lock.wheels.image["arm64"] if wheel.name == TORCH), None)


def _wheels(old: Lock, new: Lock) -> Iterator[tuple[str, str, str]]:
    """The wheels of the arm64 image that differ."""
    before, after = ({wheel.name: wheel.version for wheel in lock.wheels.image["arm64"]} for lock in (old, new))
    for name in sorted({*before, *after}):
        if before.get(name) != after.get(name):
            yield name, before.get(name, ""), after.get(name, "")
