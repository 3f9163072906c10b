"""What a release's own CMake files pin: commits of nested projects, and CUTLASS."""

from collections.abc import Iterator
from typing import Final

from gb10.core.store import Store
from gb10.errors import UsageError
from gb10.image.recipe.builds import Source
from gb10.image.recipe.image_recipe import Recipe
from gb10.image.upgrade.moves import BY_HAND, Move
from gb10.inside.cmake_nested import FOLDER, Nested, kind, meets, read
from gb10.inside.cmake_targets import PINNED
from gb10.patches.source_tree import Tree

LARGEST: Final = 1 << 20
"""Bytes of a CMake file."""


def nested_moves(recipe: Recipe, tree: Tree, store: Store, what: str) -> tuple[tuple[Move, ...], tuple[str, ...]]:
    """The pins of nested projects and of CUTLASS that move, and notes on those that cannot be compared.

    There are none where the release is a wheel. Raises UsageError for a pin that a recipe cannot hold.
    """
    found: list[Move | str] = []
    for name, wheel in recipe.wheels.items() if not tree.installed else ():
        if wheel.method == "source":
            for nested in wheel.nested:
                found += _nested(nested, recipe.sources[nested], tree, store, what)
            if wheel.cutlass and wheel.cutlass.instead_of:
                found += _cutlass(name, wheel.cutlass.instead_of, tree, what)
    moves = tuple(dict.fromkeys(one for one in found if isinstance(one, Move)))
    return moves, tuple(dict.fromkeys(one for one in found if isinstance(one, str)))


def _nested(name: str, source: Source, tree: Tree, store: Store, what: str) -> Iterator[Move | str]:
    read_as = _read(name, tree, store)
    if read_as is None or not read_as.pin:
        raise UsageError(f"{what} names no commit of {name} in {FOLDER}/{name}.cmake", hint=BY_HAND)
    if meets(source.pin, read_as.pin):
        if not kind(read_as.pin) and not source.pin.startswith(read_as.pin):
            yield f"{what} names {name} {read_as.pin}, which is no commit: check that {source.pin} is it"
        return
    key = "tag" if source.tag else "commit"
    if kind(read_as.pin) != key:
        raise UsageError(f"{what} names {name} {read_as.pin}, and the recipe has a {key} of it", hint=BY_HAND)
    yield Move(
        at=("sources", name, key),
        what=name,
        before=source.pin,
        after=read_as.pin,
        why=f"{what} names it in {FOLDER}/{name}.cmake",
    )


def _read(name: str, tree: Tree, store: Store) -> Nested | None:
    """A nested project's file, as the build stage reads it."""
    content = tree.read(f"{FOLDER}/{name}.cmake")
    if content is None or len(content) > LARGEST:
        return None
    with store.folder("cmake") as work:
        path = work / f"{name}.cmake"
        path.write_text(content.decode("utf-8", "replace"), encoding="utf-8")
        return read(path)


def _cutlass(wheel: str, accepted: str, tree: Tree, what: str) -> Iterator[Move | str]:
    text = (tree.read("CMakeLists.txt") or b"")[:LARGEST].decode("utf-8", "replace")
    found = PINNED.search(text)
    if found is None:
        raise UsageError(f"{what} names no CUTLASS_REVISION in CMakeLists.txt", hint=BY_HAND)
    if found[1] != accepted:
        yield Move(
            at=("wheels", wheel, "cutlass", "instead-of"),
            what="CUTLASS of the engine",
            before=accepted,
            after=found[1],
            why=f"{what} names it in CMakeLists.txt",
        )
