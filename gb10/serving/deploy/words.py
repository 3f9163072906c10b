"""One word, as each reader must be given it to see that word: systemd, Kubernetes, compose. Pure."""

import re
from typing import Final, TypeVar

T = TypeVar("T")
PLAIN: Final = re.compile(r"[A-Za-z0-9_./:@=,+-]+")
REFERENCES: Final = re.compile(r"\$+(?=\()|\$\$+")
"""Dollars that Kubernetes reads: those before a parenthesis, and two or more."""
ESCAPES: Final = {"\\": r"\\", '"': r"\"", "\n": r"\n", "\t": r"\t", "%": "%%", "$": "$$"}


def systemd_word(word: str) -> str:
    """A word of ``ExecStart``: no specifier, no variable, no line break is left in it."""
    if PLAIN.fullmatch(word):
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
