"""YAML that every reader takes for the same values: YAML 1.1 and 1.2, of Python, Go and C. Pure.

A text is plain only when no reader can take it for anything else; one of several lines of printable ASCII is a block.
In a block readers take other characters, such as U+0085, for line breaks.
"""

import re
from collections.abc import Iterable
from typing import Any, Final, TypeVar

import yaml

PLAIN: Final = re.compile(r"[A-Za-z_/][A-Za-z0-9_./@-]*")
BLOCK: Final = re.compile(r"[ -~\n]*")
WORDS: Final = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf"})
"""What some reader takes for a boolean, a number or nothing."""


class Unsafe(str):
    """A text that Ansible must not expand."""

    __slots__ = ()


class _Dumper(yaml.SafeDumper):
    """Lists are indented below their key, and nothing is an alias."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)

    def ignore_aliases(self, data: object) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    tag = "!unsafe" if isinstance(value, Unsafe) else "tag:yaml.org,2002:str"
    plain = PLAIN.fullmatch(value) and value.lower() not in WORDS and not isinstance(value, Unsafe)
    style = "|" if "\n" in value and BLOCK.fullmatch(value) else "" if plain else '"'
    return dumper.represent_scalar(tag, str(value), style=style)


_Dumper.add_representer(str, _text)
_Dumper.add_representer(Unsafe, _text)


def yaml_text(*documents: object, head: Iterable[str] = ()) -> str:
    """Documents as YAML, with lines of comment before them."""
    lines = "".join(f"# {' '.join(line.split())}\n" for line in head)
    options: dict[str, Any] = {"sort_keys": False, "allow_unicode": True, "width": 1 << 20}
    text: str = yaml.dump_all(documents, Dumper=_Dumper, explicit_start=len(documents) > 1, **options)
    return lines + text


T = TypeVar("T")
PLAIN_WORD: Final = re.compile(r"[A-Za-z0-9_./:@=,+-]+")
REFERENCES: Final = re.compile(r"\$+(?=\()|\$\$+")
"""Dollars that Kubernetes reads: those before a parenthesis, and two or more."""
ESCAPES: Final = {"\\": r"\\", '"': r"\"", "\n": r"\n", "\t": r"\t", "%": "%%", "$": "$$"}


def systemd_word(word: str) -> str:
    """A word of ``ExecStart``: no specifier, no variable, no line break is left in it."""
    if PLAIN_WORD.fullmatch(word):
        return word
    return f'"{"".join(ESCAPES.get(sign, sign if sign.isprintable() else _bytes(sign)) for sign in word)}"'


def systemd_line(line: str) -> str:
    """A line of a quoted word that goes on over many lines: systemd drops those that begin with ``;`` or ``#``."""
    text = systemd_word(f"{line}\n")[1:-1]
    rest = text.lstrip()
    return f"{text[: len(text) - len(rest)]}{_bytes(rest[0])}{rest[1:]}" if rest[0] in ";#" else text


def _bytes(sign: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in sign.encode())


def kubernetes_text(text: str) -> str:
    """A text of ``args``, ``command`` or ``env``, in which no ``$(NAME)`` is expanded."""
    return REFERENCES.sub(lambda found: found[0] * 2, text)


def compose_value(value: T) -> T:
    """A value of a compose file, in which no variable is expanded; keys are never expanded."""
    if isinstance(value, str):
        return value.replace("$", "$$")  # type: ignore[return-value]
    if isinstance(value, dict):
        return {key: compose_value(one) for key, one in value.items()}  # type: ignore[return-value]
    if isinstance(value, list | tuple):
        return [compose_value(one) for one in value]  # type: ignore[return-value]
    return value
