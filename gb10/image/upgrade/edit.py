"""A recipe's text with some values changed in place: comments, order and layout of all else stay. Pure."""

import re
from collections.abc import Iterable, Sequence

import yaml

from gb10.core.document import Location, parse_document
from gb10.core.yaml_nodes import TEXT, compose
from gb10.errors import UsageError
from gb10.image.recipe.image_recipe import Recipe
from gb10.image.upgrade.moves import BY_HAND, Move


def edited(text: str, recipe: Recipe, moves: Sequence[Move], where: str) -> tuple[str, Recipe]:
    """The text and the recipe after some moves. Raises UsageError when the text cannot be changed in place."""
    root = compose(text)
    spans = sorted(((*_span(root, move, where), move) for move in moves), key=lambda span: span[0], reverse=True)
    for start, end, move in spans:
        text = text[:start] + _replaced(text[start:end], move, where) + text[end:]
    made = parse_document(text, Recipe, where=where, what="image recipe")
    if made != _expected(recipe, moves):
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


def _expected(recipe: Recipe, moves: Iterable[Move]) -> Recipe:
    document: object = recipe.model_dump(by_alias=True)
    for move in moves:
        document = _with(document, move.at, move)
    return Recipe.model_validate(document)


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
