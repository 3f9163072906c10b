"""YAML 1.1 as PyYAML's safe loader reads it, with the line of every part, in bounded time and memory. Pure.

Unlike image recipes, model recipes may have aliases, merge keys and the tags that the safe loader knows.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import yaml
from yaml._yaml import CParser
from yaml.composer import Composer
from yaml.constructor import SafeConstructor
from yaml.resolver import Resolver

from gb10.models.load.model_recipe import At

LARGEST: Final = 256 << 10
"""Characters of a file; the longest recipe of the community has 30,000."""
MOST: Final = 20_000
"""Values of a file, each counted as often as an alias repeats it."""
DEEPEST: Final = 32
"""Levels of nesting."""
LONGEST: Final = 256
"""Characters of a value that is not text: a number, a date."""
HALF: Final = re.compile("[\ud800-\udfff]")
CONTROL: Final = re.compile("[\x00-\x03]")
"""Such characters mark places while a recipe is rendered."""
"""Halves of characters beyond U+FFFF: nothing can write them into a file."""
TEXT: Final = "tag:yaml.org,2002:str"
MERGE: Final = "tag:yaml.org,2002:merge"
BROKEN: Final = (yaml.YAMLError, ValueError, OverflowError, TypeError, AttributeError, LookupError)
"""What PyYAML raises: its constructors take apart what a tag or a date claims to be, without a look first."""


class UnreadableError(Exception):
    """The text is no YAML, or more than a recipe needs. ``line`` starts at 1, 0 is the whole file."""

    def __init__(self, line: int, text: str) -> None:
        super().__init__(text)
        self.line = line
        self.text = text


@dataclass(kw_only=True, slots=True)
class SafeDocument:
    """A document's value, the lines (from 1) of its keys and values, and its duplicate keys as (place, line, first)."""

    value: object = None
    keys: dict[At, int] = field(default_factory=dict)
    lines: dict[At, int] = field(default_factory=dict)
    texts: dict[At, int] = field(default_factory=dict)
    duplicates: list[tuple[At, int, int]] = field(default_factory=list)


class _Bounded(Composer):
    """Composes nodes, and refuses deep or many ones before Python's stack or the time ends."""

    depth = count = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        self.depth += 1
        self.count += 1
        if self.depth > DEEPEST or self.count > MOST:
            line = self.peek_event().start_mark.line + 1  # type: ignore[attr-defined]
            many = f"the file has more than {MOST} values"
            deep = f"the values are nested more than {DEEPEST} levels deep"
            raise UnreadableError(line, deep if self.depth > DEEPEST else many)
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node


class _Quick(_Bounded, CParser, SafeConstructor, Resolver):
    """libyaml's parser; the rest is PyYAML's own, so the values are the same."""

    def __init__(self, text: str) -> None:
        CParser.__init__(self, text)
        Composer.__init__(self)
        SafeConstructor.__init__(self)
        Resolver.__init__(self)


class _Whole(_Bounded, yaml.SafeLoader):
    """PyYAML's own parser: it accepts some texts that libyaml does not."""


def read_yaml(text: str) -> SafeDocument:
    """The document of a text; raises UnreadableError. An empty text has the value None."""
    if len(text) > LARGEST:
        raise UnreadableError(0, f"it has {len(text)} characters; the limit is {LARGEST}")
    try:
        return _read(_Quick(text))
    except BROKEN:
        return _surely(text)


def _surely(text: str) -> SafeDocument:
    try:
        return _read(_Whole(text))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise UnreadableError(mark.line + 1 if mark else 0, f"this is not YAML: {error.problem}") from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise UnreadableError(line, f"the character {chr(error.character)!r} is not allowed in YAML") from error
    except BROKEN as error:
        raise UnreadableError(0, f"this is not YAML: {str(error).partition(chr(10))[0]}") from error


def _read(loader: _Quick | _Whole) -> SafeDocument:
    root = loader.get_single_node()
    found = SafeDocument()
    if root is not None:
        places = _Places(loader, found)
        places.measure(root, set())
        places.find_duplicates(root, set())
        found.value = loader.construct_document(root)
        places.walk(root, ())
    return found


class _Places:
    """Walks the nodes of a document."""

    def __init__(self, loader: SafeConstructor, found: SafeDocument) -> None:
        self.loader = loader
        self.found = found
        self.sizes: dict[int, int] = {}

    def measure(self, node: yaml.Node, above: set[int]) -> int:
        """Values below a node, aliases resolved; raises UnreadableError when there are too many or they recur."""
        if id(node) in above:
            raise UnreadableError(node.start_mark.line + 1, "an alias (*name) stands inside of what it names")
        if id(node) not in self.sizes:
            _check_scalar(node)
            below = above | {id(node)}
            self.sizes[id(node)] = 1 + sum(self.measure(child, below) for child in _children(node))
        if self.sizes[id(node)] > MOST:
            raise UnreadableError(node.start_mark.line + 1, f"the file has more than {MOST} values")
        return self.sizes[id(node)]

    def find_duplicates(self, node: yaml.Node, seen: set[int], at: At = ()) -> None:
        """Record each key that a mapping has twice as written; of those, PyYAML takes the last."""
        if id(node) in seen:
            return
        seen.add(id(node))
        first: dict[str, int] = {}
        for step, key, child in self.steps(node):
            if key is not None and key.tag != MERGE:
                line = key.start_mark.line + 1
                if step in first:
                    self.found.duplicates.append(((*at, step), line, first[str(step)]))
                first.setdefault(str(step), line)
            self.find_duplicates(child, seen, (*at, step))

    def walk(self, node: yaml.Node, at: At) -> None:
        """Record the lines of everything below a node; after construction, so merge keys are merged."""
        self.found.lines[at] = node.start_mark.line + 1
        if isinstance(node, yaml.ScalarNode) and node.style in ("|", ">"):
            self.found.texts[at] = node.start_mark.line + 2
        for step, key, child in self.steps(node):
            if key is not None:
                self.found.keys[(*at, step)] = key.start_mark.line + 1
            self.walk(child, (*at, step))

    def steps(self, node: yaml.Node) -> Iterator[tuple[str | int, yaml.Node | None, yaml.Node]]:
        """(step, key, value) of each entry; keys that are no scalars are left out.

        A key is a step as Python spells its value: ``8`` for 010.
        """
        if isinstance(node, yaml.SequenceNode):
            yield from ((index, None, child) for index, child in enumerate(node.value))
        elif isinstance(node, yaml.MappingNode):
            for key, child in node.value:
                if isinstance(key, yaml.ScalarNode):  # as Python spells its value: ``8`` for 010
                    step = key.value if key.tag in (TEXT, MERGE) else self.loader.construct_object(key)
                    yield str(step), key, child


def _children(node: yaml.Node) -> Iterator[yaml.Node]:
    if isinstance(node, yaml.SequenceNode):
        yield from node.value
    elif isinstance(node, yaml.MappingNode):
        for key, child in node.value:
            yield key
            yield child


def _check_scalar(node: yaml.Node) -> None:
    if not isinstance(node, yaml.ScalarNode):
        return
    if half := HALF.search(node.value):
        raise UnreadableError(node.start_mark.line + 1, f"U+{ord(half[0]):04X} is half of a character, and no text")
    if control := CONTROL.search(node.value):
        raise UnreadableError(node.start_mark.line + 1, f"U+{ord(control[0]):04X} is a control character, and no text")
    if node.tag != TEXT and len(node.value) > LONGEST:
        raise UnreadableError(node.start_mark.line + 1, "a number or date is too long; for text, put it in quotes")


def mapping_of(document: SafeDocument) -> Mapping[object, object] | None:
    """The document's mapping; None when it is something else."""
    return document.value if isinstance(document.value, dict) else None
