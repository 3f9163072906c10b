"""Other spellings: ``--vllm-ref V`` is ``--ref vllm=V``, ``--rebuild-vllm`` is ``--rebuild vllm``.

``--no-slim`` is ``--slim none``.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from gb10.errors import UsageError

REF: Final = re.compile(r"--([a-z0-9][a-z0-9-]*)-ref(?:=(.*))?", re.DOTALL)
REBUILD: Final = re.compile(r"--rebuild-([a-z0-9][a-z0-9-]*)")


def respelled(arguments: Sequence[str]) -> list[str]:
    """The command line with ``--ref`` and ``--rebuild`` in place of the other spellings. Raises UsageError."""
    return list(_respelled(iter(arguments)))


def _release(word: str, text: str) -> str:
    if not text or text.startswith("-"):
        option = word.partition("=")[0]
        raise UsageError(f"{option} needs a release", hint=f"write {option} VERSION")
    return text


def _respelled(words: Iterator[str]) -> Iterator[str]:
    for word in words:
        if word == "--":
            yield word
            yield from words
        elif ref := REF.fullmatch(word):
            yield from ("--ref", f"{ref[1]}={_release(word, next(words, '') if ref[2] is None else ref[2])}")
        elif word == "--no-slim":
            yield from ("--slim", "none")
        elif rebuild := REBUILD.fullmatch(word):
            yield from ("--rebuild", rebuild[1])
        else:
            yield word
