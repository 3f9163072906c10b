"""What a text's end looks like: repetition, variety, odd characters, mixed scripts. Pure; work in C where it can be."""

import re
import zlib
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from operator import ne
from typing import Final

PROBE: Final = 12
TRIES: Final = 8
ODD: Final = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u0378\u0379\u200b\u2060\ufdd0-\ufdef\ufeff\ufff0-\uffff\ue000-\uf8ff"
    "\ud800-\udfff\U000e0000-\U0010ffff]"
)
"""Control characters but tab and line ends, invisible ones, U+FFFD, private use, surrogates, noncharacters."""
DIGITS: Final = re.compile(r"\d+")
LETTERS: Final = re.compile(r"[^\W\d_]")
MANY_LETTERS: Final = 0.3
SCRIPTS: Final = {
    "latin": "A-Za-z\u00c0-\u024f",
    "greek": "\u0370-\u03ff",
    "cyrillic": "\u0400-\u052f",
    "armenian": "\u0530-\u058f",
    "hebrew": "\u0590-\u05ff",
    "arabic": "\u0600-\u06ff",
    "indic": "\u0900-\u0dff",
    "thai": "\u0e00-\u0eff",
    "georgian": "\u10a0-\u10ff",
    "cjk": "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af",
}
JOINED: Final = ({"latin", "greek"}, {"latin", "cjk"})
"""Scripts that writing joins without a blank: units and formulas, and Latin names in Chinese, Japanese and Korean."""


def _mixed() -> re.Pattern[str]:
    """A letter before one of a script that is not joined to its own; the group's name is the letter's script."""
    parts = []
    for name, own in SCRIPTS.items():
        others = [text for other, text in SCRIPTS.items() if other != name and {name, other} not in JOINED]
        parts.append(f"(?P<{name}>[{own}])(?=[{''.join(others)}])")
    return re.compile("|".join(parts))


MIXED: Final = _mixed()


def repeated(text: str, longest: int, times: int) -> tuple[int, int]:
    """The unit that ``text`` ends in ``times`` times or more, exactly: its length and all its characters; else 0, 0."""
    for unit in _units(text, longest):
        if text[-unit:] == text[-2 * unit : -unit]:
            extent = _extent(text, unit)
            if extent >= times * unit:
                return unit, extent
    return 0, 0


def _units(text: str, longest: int) -> Iterator[int]:
    """Lengths of units that may repeat at the end of ``text``: its last characters stand one unit earlier, too."""
    size = len(text)
    probe, end = text[-PROBE:], size - 1
    for _ in range(TRIES):
        at = text.rfind(probe, max(0, size - PROBE - longest), end)
        if at < 0:
            return
        yield size - PROBE - at
        end = at + PROBE - 1


def _extent(text: str, unit: int) -> int:
    """How many characters at the end of ``text`` have the period ``unit``."""
    size = len(text)
    low, high = unit, size - unit
    while low < high:
        middle = (low + high + 1) // 2
        if text[size - middle :] == text[size - middle - unit : size - unit]:
            low = middle
        else:
            high = middle - 1
    return low + unit


def pieces(text: str, size: int = 4) -> int:
    """How many different pieces of ``size`` characters there are."""
    return len({text[at : at + size] for at in range(len(text) - size + 1)})


def odd(text: str) -> int:
    """How many characters no text should have."""
    return 0 if text.isascii() and text.isprintable() else len(ODD.findall(text))


def mixed(text: str) -> tuple[int, int]:
    """How often a letter stands before one of a script that its own is never joined to, and of how many scripts.

    Two scripts are not enough for a verdict: some people write Cyrillic with the Latin letters that look alike.
    """
    scripts = [] if text.isascii() else [found.lastgroup for found in MIXED.finditer(text)]
    return len(scripts), len(set(scripts))


def zipped(text: str) -> float:
    """Compressed bytes a byte."""
    raw = text.encode("utf-8", "surrogatepass")
    return len(zlib.compress(raw, 1)) / max(1, len(raw))


def nearly_repeated(text: str, longest: int, share: float) -> int:
    """The unit that ``text`` repeats but for ``share`` of its characters, digits apart.

    0 for none, and for tables of numbers.
    """
    if len(LETTERS.findall(text)) < MANY_LETTERS * len(text):
        return 0
    folded = DIGITS.sub("0", text)
    fitting = (
        unit for unit in _units(folded, longest) if sum(map(ne, folded[unit:], folded)) <= share * (len(folded) - unit)
    )
    return next(fitting, 0)


def numeric(text: str) -> float:
    """The share of digits and of what separates them.

    Random bits, a matrix of 0 and 1, ten to the 300th: people ask for these.
    """
    return 1 - len(NO_NUMBER.findall(text)) / len(text) if text and DIGIT.search(text) else 0.0


def digits(text: str) -> int:
    """How many different digits there are."""
    return len(set(DIGIT.findall(text)))


NO_NUMBER: Final = re.compile(r"[^\d\s,.;:|&\\\[\](){}+\-_'x*/]")
DIGIT: Final = re.compile(r"\d")
LATIN_1: Final = re.compile("[\u00a0-\u00ff]")
BYTE_TOKENS: Final = re.compile(r"<0x([0-9A-Fa-f]{2})>")
BLANKS_OF_TOKENS: Final = re.compile("[\u0120\u010a]")
"""What byte-level tokenizers write for a blank and a line end, where nobody turned them back."""


def commonest_pieces(text: str, most: int = 8, size: int = 4) -> float:
    """The share of the commonest pieces of ``size`` characters: a token over and over, with other tokens in it.

    Pieces of digits, of drawn lines and of one Latin letter are left out: tables, rulers and coded zeros have them.
    """
    found = Counter(text[at : at + size] for at in range(len(text) - size + 1))
    counted = [(piece, count) for piece, count in found.most_common(3 * most) if not PLAIN_PIECE.fullmatch(piece)]
    return sum(count for _, count in counted[:most]) / max(1, len(text) - size + 1)


PLAIN_PIECE: Final = re.compile(r"[\d\s,.;:|&=_*#~+/\\\-·•…\u2500-\u25ff]+|([A-Za-z])\1+")


def plain(sign: str) -> bool:
    """Whether people draw, count or fill with a character: its share alone says nothing."""
    return PLAIN_PIECE.fullmatch(sign) is not None


def commonest_word(text: str, last: int) -> tuple[str, float]:
    """The commonest of the last words, and its share; nothing where there are fewer, or it has no letter."""
    words = text.split()[-last:]
    if len(words) < last:
        return "", 0.0
    word, count = Counter(words).most_common(1)[0]
    return (word, count / last) if LETTERS.search(word) else ("", 0.0)


def raw_bytes(text: str) -> float:
    """The share of a text that is bytes: ``<0xE4>``, Latin-1 without words, blanks as a tokenizer writes them.

    Byte tokens in their own order are a list that somebody asked for.
    """
    if text.isascii():
        tokens = [int(found, 16) for found in BYTE_TOKENS.findall(text)] if "<0x" in text else []
        rising = sum(two == one + 1 for one, two in pairwise(tokens))
        return 0.0 if rising > len(tokens) / 2 else 6 * len(tokens) / len(text)
    blanks = len(BLANKS_OF_TOKENS.findall(text))
    tokens_left = 6 * blanks / len(text) if text.count(" ") < blanks / 8 else 0.0
    return max(len(LATIN_1.findall(text)) / len(text), tokens_left)


def far_loop(text: str, times: int) -> tuple[int, int]:
    """The unit of any length that ``text`` ends in ``times`` times or more, exactly, and its extent; else 0, 0.

    The last FAR characters are looked for before them; a unit that passes is compared whole.
    """
    size = len(text)
    probe, end = text[-FAR:], size - 1
    for _ in range(TRIES):
        at = text.rfind(probe, max(0, size - FAR - size // times), end)
        if at < 0:
            return 0, 0
        unit = size - FAR - at
        if text[-unit:] == text[-2 * unit : -unit]:
            extent = _extent(text, unit)
            if extent >= times * unit:
                return unit, extent
        end = at + FAR - 1
    return 0, 0


FAR: Final = 48
"""Characters that are looked for."""


def same_phrases(text: str, least: int) -> float:
    """The share of different ones among the phrases of three words; 1 where there are fewer than ``least`` words.

    Digits count as one: a paragraph with another number in it is the same. Tables of numbers are left out.
    """
    if len(LETTERS.findall(text)) < MANY_LETTERS * len(text):
        return 1.0
    words = DIGITS.sub("0", text).split()
    if len(words) < least:
        return 1.0
    phrases = list(zip(words, words[1:], words[2:], strict=False))
    return len(set(phrases)) / len(phrases)
