"""How values get into a command: in its placeholders, the user's with the quotation marks that each needs. Pure."""

import json
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
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
    return text.replace(OPEN, "{").replace(CLOSE, "}"), [(name, max(template.find(f"{{{name}}}"), 0)) for name in left]


def _masked(piece: str, escapes: bool) -> str:
    if piece in ("{{", "}}"):
        mask = OPEN if piece == "{{" else CLOSE
        return mask if escapes else mask * 2
    return {"{": OPEN, "}": CLOSE}.get(piece, piece)


def _filled(field: str, value_of: Callable[[str], object]) -> str:
    value = value_of(field.strip("}{"))
    return field if value is None else str(value)


def unescaped(value: object) -> object:
    """A default whose text doubles its braces, with single ones; anything else as it is."""
    if isinstance(value, str) and "{{" in value:
        return value.replace("{{", "{").replace("}}", "}")
    return value


PLAIN: Final = re.compile(r"[A-Za-z0-9_@%+=:,./-]*")
"""What every shell reads as it is."""
MARK: Final = re.compile("\x02(\\d+)\x03")
"""YAML allows neither character in a text."""
OPTION: Final = re.compile(r"\s*(?:--[A-Za-z]|-[a-z]{1,3}(?:\s|$))")


@dataclass(frozen=True, kw_only=True, slots=True)
class UserValues:
    """The values that need quotation marks, by the number of their mark; ``several`` are lists of options."""

    texts: tuple[str, ...] = ()
    several: frozenset[int] = field(default=frozenset())

    @property
    def any(self) -> bool:
        """Whether there is one."""
        return bool(self.texts)

    def quoted(self, command: str) -> str:
        """The command with each value in place of its mark, quoted for where it stands."""
        if not self.texts:
            return command
        parts: list[str] = []
        position = 0
        for found in MARK.finditer(command):
            parts.append(command[position : found.start()])
            position = found.end()
            parts.append(self._at(int(found[1]), quote_open_after("".join(parts))))
        return "".join([*parts, command[position:]])

    def plain(self, value: object) -> object:
        """A value as the user wrote it."""
        found = MARK.fullmatch(value) if isinstance(value, str) else None
        return self.texts[int(found[1])] if found else value

    def _at(self, number: int, quote: str) -> str:
        text = self.texts[number]
        if quote == "'":
            return text.replace("'", "'\\''")
        if quote == '"':
            return re.sub(r'([\\"$`])', r"\\\1", text)
        return shlex.join(option_words(text)) if number in self.several else shlex.quote(text)


def with_marks(
    values: Mapping[str, object], given: Sequence[str], written: Mapping[str, Sequence[object]]
) -> tuple[dict[str, object], UserValues]:
    """The values with a mark for each that the user gave and that is no plain word.

    ``written`` are the values that the recipe itself has for a parameter: where one is empty, or several words, the
    parameter takes options.
    """
    changed, several = dict(values), set()
    texts: list[str] = []
    for name in given:
        value = values.get(name)
        if not isinstance(value, str) or PLAIN.fullmatch(value):
            continue
        if OPTION.match(value) or any(map(_takes_options, written.get(name, ()))):
            several.add(len(texts))
        changed[name] = f"\x02{len(texts)}\x03"
        texts.append(NAMED.sub(lambda found: _filled(found[0], values.get), value))
    return changed, UserValues(texts=tuple(texts), several=frozenset(several))


def _takes_options(value: object) -> bool:
    text = value.strip() if isinstance(value, str) else "x"
    return not text or OPTION.match(text) is not None or (" " in text and text[0] not in "{[")


def option_words(text: str) -> list[str]:
    """The words of options: JSON is one word, in quotation marks or without; so is what stands in them."""
    words: list[str] = []
    position = 0
    while position < len(text):
        if text[position].isspace():
            position += 1
            continue
        word, position = _word(text, position)
        words.append(word)
    return words


def _word(text: str, position: int) -> tuple[str, int]:
    word = ""
    while position < len(text) and not text[position].isspace():
        char = text[position]
        end = text.find(char, position + 1) if char in "'\"" else -1
        if end > 0:
            word, position = word + text[position + 1 : end], end + 1
        elif char in "{[" and (json_end := _json_end(text, position)) is not None:
            word, position = word + text[position:json_end], json_end
        else:
            word, position = word + char, position + 1
    return word, position


def _json_end(text: str, position: int) -> int | None:
    try:
        return json.JSONDecoder().raw_decode(text, position)[1]
    except (ValueError, RecursionError):
        return None


def quote_open_after(command: str) -> str:
    """The quotation mark in which a shell would read what follows; empty outside of them."""
    quote, escaped = "", False
    for char in command:
        if escaped:
            escaped = False
        elif char == "\\" and quote != "'":
            escaped = True
        elif quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
    return quote
