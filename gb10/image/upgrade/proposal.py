"""A recipe's next release, end to end: what moves, whether it locks, what becomes of our patches, what is new."""

import contextlib
import os
import re
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import yaml
from packaging.version import Version

from gb10.core.document import TEXT, Location, compose, parse_document
from gb10.core.machine import MACHINES
from gb10.errors import UsageError
from gb10.image.context import Context
from gb10.image.lock.lockfile import check_lock, load_lock, lock_path, write_lock
from gb10.image.lock.moves import BY_HAND, Move, Next, demands, metadata_of, nested_moves, no_longer, pins
from gb10.image.lock.offered import Offered, choose, newest_of, offered, open_release
from gb10.image.lock.relock import TORCH, resolve_lock
from gb10.image.patches.release_files import Library
from gb10.image.recipe.image_recipe import Recipe
from gb10.image.recipe.locked import Lock, LockedWheel
from gb10.image.upgrade.news import News, news
from gb10.image.upgrade.outcomes import Checked, check_series, steps_of


def edited(text: str, recipe: Recipe, moves: Sequence[Move], where: str) -> tuple[str, Recipe]:
    """The text and the recipe after some moves. Raises UsageError when the text cannot be changed in place."""
    root = compose(text)
    spans = sorted(((*_span(root, move, where), move) for move in moves), key=lambda span: span[0], reverse=True)
    for start, end, move in spans:
        text = text[:start] + _replaced(text[start:end], move, where) + text[end:]
    made = parse_document(text, Recipe, where=where, what="image recipe")
    expected: object = recipe.model_dump(by_alias=True)
    for move in moves:
        expected = _with(expected, move.at, move)
    if made != Recipe.model_validate(expected):
        raise UsageError(f"{where}: the pins cannot be changed in place", hint=BY_HAND)
    return text, made


def _span(root: yaml.Node | None, move: Move, where: str) -> tuple[int, int]:
    """Where a value begins and ends in the text, in characters."""
    node = root
    for part in move.at:
        node = _child(node, part)
    if not isinstance(node, yaml.ScalarNode):
        raise UsageError(f"{where}: {move.what} is not where the recipe's text is expected to have it", hint=BY_HAND)
    return node.start_mark.index, node.end_mark.index


def _child(node: yaml.Node | None, part: str | int) -> yaml.Node | None:
    if isinstance(node, yaml.MappingNode):
        return next((child for key, child in node.value if key.value == part), None)
    if isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
        found: yaml.Node = node.value[part]
        return found
    return None


def _replaced(value: str, move: Move, where: str) -> str:
    """The text of a value with its new part; in quotes when YAML would read a number."""
    made = _swapped(value, move)
    if made is None:
        raise UsageError(f"{where}: {value!r} does not hold {move.before} once", hint=BY_HAND)
    found = compose(made)
    return f'"{made}"' if isinstance(found, yaml.ScalarNode) and found.tag != TEXT else made


def _swapped(value: str, move: Move) -> str | None:
    """A value with its new part; in a requirement that follows ``==``. None when the old part is not there once."""
    before = f"=={move.before}" if f"=={move.before}" in value else move.before
    after = before.removesuffix(move.before) + move.after
    return value.replace(before, after) if value.count(before) == 1 else None


def _with(value: object, at: Location, move: Move) -> object:
    if not at:
        return _swapped(str(value), move)
    if isinstance(value, dict):
        return {key: _with(item, at[1:], move) if key == at[0] else item for key, item in value.items()}
    items = value if isinstance(value, tuple) else ()
    return tuple(_with(item, at[1:], move) if index == at[0] else item for index, item in enumerate(items))


def left_over(text: str, moves: Iterable[Move]) -> tuple[tuple[int, str], ...]:
    """The lines (number, text) that still name a release that moved: comments and reasons, for people to read."""
    old = {move.before for move in moves}
    named = re.compile("|".join(rf"(?<![\w.]){re.escape(version)}(?![\w]|\.\w)" for version in sorted(old)) or r"(?!)")
    lines = enumerate(text.split("\n"), 1)
    return tuple((number, line.strip()) for number, line in lines if named.search(line))


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
    recipe, trees = found.recipe, [open_release(ctx, found, version) for version in (same.old, same.new)]
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


def check_writable(path: Path) -> None:
    """Raise UsageError for a recipe that cannot be written, before anything is asked of an index."""
    target = path.resolve()
    for place in (target, target.parent, lock_path(path).parent):
        if place.exists() and not os.access(place, os.W_OK):
            raise UsageError(f"cannot write the image recipe {path}", where=f"{place} is read-only", hint=_copy(path))


def write(found: Proposal) -> None:
    """Write both, as ``write_recipe``."""
    write_recipe(found.path, found.before, found.text, found.lock)


def write_recipe(path: Path, before: str, text: str, lock: Lock) -> None:
    """Write a recipe and its lock.

    Raises UsageError, and leaves both as they were, when one cannot be written, or the recipe was changed since it was
    ``before``.
    """
    if read_recipe(path)[0] != before:
        raise UsageError(f"{path} changed while its next release was looked for", hint="run the command again")
    target = path.resolve()
    try:
        _replace(target, text)
        write_lock(lock_path(path), lock)
    except OSError as error:
        raise UsageError(f"cannot write the image recipe {path}", where=str(error), hint=_copy(path)) from error
    except UsageError:
        _replace(target, before)
        raise


def _replace(target: Path, text: str) -> None:
    """Write a file aside and rename it, with the mode of the old one. Raises OSError."""
    part = target.with_name(f".{target.name}.{uuid.uuid4().hex}.part")
    try:
        part.write_bytes(text.encode())
        part.chmod(target.stat().st_mode & 0o777)
        part.replace(target)
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)


def _copy(path: Path) -> str:
    return f"upgrade a copy: cp {path} {lock_path(path)} DIR, then --engine DIR/{path.name}"
