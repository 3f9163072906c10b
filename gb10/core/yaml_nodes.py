"""YAML text to nodes within limits: no aliases, no tags, no deep nesting; hostile files cost little time. Pure."""

from typing import Final

import yaml
from yaml.composer import Composer
from yaml.cyaml import CParser  # type: ignore[attr-defined]  # its stub does not export it
from yaml.resolver import Resolver

LARGEST: Final = 256 << 10
"""Characters of a document; the longest recipe here has 7,000."""
MOST: Final = 20_000
"""Values of a document."""
DEEPEST: Final = 32
"""Levels of nesting."""
LONGEST: Final = 64
"""Characters of a number, a date or a switch."""
WIDEST: Final = 64
"""Bits of a whole number."""
TEXT: Final = "tag:yaml.org,2002:str"
DATE: Final = "tag:yaml.org,2002:timestamp"


class RefusedError(yaml.MarkedYAMLError):
    """Valid YAML that is not accepted."""


class Limited(Composer, Resolver, CParser):
    """PyYAML's composer above libyaml's parser, which rejects features that only an attacker needs."""

    def __init__(self, text: str) -> None:
        CParser.__init__(self, text)
        Composer.__init__(self)
        Resolver.__init__(self)
        self.depth = self.count = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """The next node; raises RefusedError."""
        event: yaml.Event = self.peek_event()  # type: ignore[assignment]  # None only after the last one
        self.count += 1
        self.depth += 1
        reason = _refusal(event, self.depth, self.count)
        if reason:
            raise RefusedError(problem=reason, problem_mark=event.start_mark)  # type: ignore[arg-type]  # libyaml's
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node


def _refusal(event: yaml.Event, depth: int, count: int) -> str | None:
    if isinstance(event, yaml.AliasEvent):
        return "aliases (*name) are not allowed: write the value again"
    if getattr(event, "tag", None) not in (None, "!"):
        return "tags (!name) are not allowed: write plain values"
    if depth > DEEPEST:
        return f"the values are nested more than {DEEPEST} levels deep"
    return f"the document has more than {MOST} values" if count > MOST else None


def compose(text: str) -> yaml.Node | None:
    """The root node of a document, None when it is empty; raises YAMLError."""
    try:
        return Limited(text).get_single_node()
    except (ValueError, OverflowError) as error:  # an invalid escape
        raise yaml.YAMLError(str(error)) from error


def scalar(node: yaml.Node) -> object:
    """The value of a scalar node; raises YAMLError or ValueError."""
    if node.tag == TEXT:
        return str(node.value)
    if len(node.value) > LONGEST:
        raise ValueError("the number or date is too long; for text, put it in quotes")
    try:
        value: object = yaml.SafeLoader("").construct_object(node)
    except OverflowError as error:
        raise ValueError("the number is too large") from error
    except ValueError as error:
        if node.tag != DATE:
            raise
        # Python's own words differ between its versions.
        raise ValueError(f"{node.value} is no date") from error
    if isinstance(value, int) and value.bit_length() > WIDEST:
        raise ValueError("the number is too large")
    return value
