"""The placeholders of version 2: ``{key}`` until nothing changes, every other brace literal. Pure."""

import re
from collections.abc import Callable
from typing import Final

OPEN: Final = "\x00"
CLOSE: Final = "\x01"
"""Literal braces while placeholders are filled; YAML allows neither character in a text."""
PASSES: Final = 10
LONGEST: Final = 1 << 20
"""Characters of a filled text: a value that holds itself grows with each pass."""
PIECES: Final = re.compile(r"\{\{|\}\}|\{[^{}]*\}|[{}]")
FIELD: Final = re.compile(r"\{(.*?)\}")
NAMED: Final = re.compile(r"(?<!\$)\{([A-Za-z_][A-Za-z0-9_]*)\}")
"""What was meant as a placeholder; ``${NAME}`` is the shell's."""


def substitute(template: str, value_of: Callable[[str], object]) -> tuple[str, list[tuple[str, int]]]:
    """The filled text, and the names that stayed with their positions in the template.

    Each ``{key}`` is filled whose value is not None. ``{{`` anywhere makes ``}}`` one brace, too.
    """
    escapes = "{{" in template
    masked = PIECES.sub(lambda found: _masked(found[0], escapes), template)
    text = masked
    for _ in range(PASSES):
        filled = FIELD.sub(lambda found: _filled(found[0], value_of), text)
        if filled == text or len(filled) > LONGEST:
            break
        text = filled
    left = [found[1] for found in NAMED.finditer(text)]
    return unmasked(text), [(name, max(template.find(f"{{{name}}}"), 0)) for name in left]


def _masked(piece: str, escapes: bool) -> str:
    if piece in ("{{", "}}"):
        mask = OPEN if piece == "{{" else CLOSE
        return mask if escapes else mask * 2
    return {"{": OPEN, "}": CLOSE}.get(piece, piece)


def _filled(field: str, value_of: Callable[[str], object]) -> str:
    value = value_of(field.strip("}{"))
    return field if value is None else str(value)


def unmasked(text: str) -> str:
    """The text with its literal braces back."""
    return text.replace(OPEN, "{").replace(CLOSE, "}")


def unescaped(value: object) -> object:
    """A default whose text doubles its braces, with single ones; anything else as it is."""
    if isinstance(value, str) and "{{" in value:
        return value.replace("{{", "{").replace("}}", "}")
    return value
