"""Whole answers that people ask for and that look like collapses, and collapses of more kinds, both made by rule.

    python3 -m bootstrap benches/guard/answers.py 0 48      # the half that limits were chosen on
    python3 -m bootstrap benches/guard/answers.py 1 48      # the other half, 48 answers of a kind

Exits 1 when more than 1 in 1,000 answers is GARBAGE or LOOP, or fewer than 95 % of the collapses are.
"""

import base64
import json
import math
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benches.guard.collapse import WORDS, seeded
from gb10.image.plan.catalog import ROOT
from gb10.serving.guard.finding import Verdict
from gb10.serving.guard.limits import Limits, read_limits
from gb10.serving.guard.watch import Watch

Answer = Callable[[random.Random], str]
SIZE: Final = 4096
"""Characters of a collapse."""


def words(rng: random.Random, count: int) -> str:
    """So many common words."""
    return " ".join(rng.choices(WORDS, k=count))


def sentences(rng: random.Random, count: int) -> str:
    """So many sentences of common words."""
    return "".join(f"{words(rng, rng.randrange(6, 16)).capitalize()}. " for _ in range(count))


def rows(least: int, most: int, row: Callable[[random.Random, int], str], joint: str = "\n") -> Answer:
    """An answer of rows: ``row`` gets chance and its number."""
    return lambda rng: joint.join(row(rng, number) for number in range(rng.randrange(least, most)))


def characters(signs: str, width: int) -> Callable[[random.Random, int], str]:
    """A row of characters by chance."""
    return lambda rng, _: "".join(rng.choice(signs) for _ in range(width))


def matrix(rng: random.Random) -> str:
    """An identity matrix in LaTeX."""
    size = rng.randrange(6, 40)
    lines = (" & ".join(str(int(row == column)) for column in range(size)) for row in range(size))
    return "\\begin{pmatrix}\n" + " \\\\\n".join(lines) + "\n\\end{pmatrix}"


def dump(rng: random.Random, number: int) -> str:
    """A line of a hex dump, most bytes 0."""
    return f"{number * 16:08x}  " + " ".join(f"{rng.randrange(256) * (rng.random() < 0.3):02x}" for _ in range(16))


ACCENTS: Final = ("été", "déjà", "élève", "père", "forêt", "être", "garçon", "naïf", "voilà", "créé")
ANSWERS: Final[dict[str, Answer]] = {
    "bits": lambda rng: "Bits:\n" + "".join(rng.choice("01") for _ in range(rng.randrange(200, 6000))),
    "bytes of bits": rows(30, 500, characters("01", 8), " "),
    "lines of bits": rows(20, 300, characters("01", 16)),
    "a matrix in LaTeX": matrix,
    "a matrix in Python": rows(
        6, 40, lambda rng, _: "[" + ", ".join(str(rng.choice((0, 0, 0, 1))) for _ in range(24)) + "],"
    ),
    "a power of ten": lambda rng: f"10^{(n := rng.randrange(50, 1400))} is 1{'0' * n}.",
    "a power of ten, grouped": lambda rng: "It is\n\n1" + ",000" * rng.randrange(30, 330) + "\n\n" + sentences(rng, 2),
    "a factorial": lambda rng: f"{(n := rng.randrange(50, 500))}! = {math.factorial(n)}\n" + sentences(rng, 1),
    "digits of pi": lambda rng: "3." + "".join(rng.choice("0123456789") for _ in range(rng.randrange(200, 6000))),
    "a third": lambda rng: "1/3 = 0." + "3" * rng.randrange(100, 900) + "… and so on.",
    "products": rows(8, 30, lambda _, row: " ".join(f"{row * column:4d}" for column in range(1, 20))),
    "a table of yes and no": rows(
        10, 120, lambda rng, _: "| " + " | ".join(rng.choice(("yes", "no", "-", "✓", "✗")) for _ in range(5)) + " |"
    ),
    "comma-separated values": rows(
        30, 400, lambda rng, row: f"{row},{rng.random():.3f},{rng.choice(('true', 'false'))}"
    ),
    "records in JSON": lambda rng: json.dumps([{"id": row, "name": words(rng, 2)} for row in range(90)], indent=2),
    "zeros in JSON": lambda rng: json.dumps([round(rng.random() * (rng.random() < 0.2), 2) for _ in range(600)]),
    "fizz and buzz": rows(100, 700, lambda _, row: "Fizz" * (row % 3 == 0) + "Buzz" * (row % 5 == 0) or str(row)),
    "counting": rows(100, 1500, lambda _, row: str(row + 1), ", "),
    "a board": lambda rng: rows(8, 9, characters(".PpRrNnBbQqKk........", 8))(rng) + "\n" + sentences(rng, 3),
    "cells": rows(10, 60, characters("..#", 40)),
    "a maze": rows(10, 60, characters("##  ", 40)),
    "a sequence of bases": rows(10, 100, characters("ACGT", 60)),
    "a hex dump": rows(10, 150, dump),
    "coded bytes": lambda rng: base64.b64encode(rng.randbytes(rng.randrange(200, 4000))).decode(),
    "coded zeros": lambda rng: base64.b64encode(
        bytes(rng.randrange(256) * (rng.random() < 0.3) for _ in range(1500))
    ).decode(),
    "contents with dots": rows(
        10, 80, lambda rng, row: f"{row}. {words(rng, 3).title()} {'.' * rng.randrange(20, 60)} {row * 7}"
    ),
    "a song with its chorus": lambda rng: ("\n\nChorus:\n" + sentences(rng, 3)).join(
        sentences(rng, 4) for _ in range(rng.randrange(2, 6))
    ),
    "bottles": rows(
        5, 90, lambda _, row: f"{99 - row} bottles of beer on the wall, {99 - row} bottles of beer. Take one down."
    ),
    "letters by a form": rows(
        5,
        40,
        lambda rng, _: (
            f"Dear {words(rng, 1).title()},\n\nthank you for your order {rng.randrange(1000, 9999)}. It will "
            f"arrive on {rng.randrange(1, 28)} May. Best regards, the {words(rng, 1)} team.\n\n"
        ),
    ),
    "style sheets": rows(10, 120, lambda rng, row: f".c{row} {{ margin: {rng.randrange(9)}px; padding: 0 1px; }}"),
    "rows of SQL": rows(10, 120, lambda rng, row: f"INTO t VALUES ({row}, '{words(rng, 2)}');"),
    "tests": rows(10, 100, lambda rng, row: f"def test_{row}():\n    assert f({rng.randrange(99)}) == {row}\n"),
    "shapes": rows(10, 120, lambda rng, row: f'<rect x="{rng.randrange(99)}" y="{row}" width="10" height="10"/>'),
    "Morse": rows(50, 800, lambda rng, _: "".join(rng.choice(".-") for _ in range(rng.randrange(1, 5))), " "),
    "far to the right": rows(10, 60, lambda rng, _: " " * rng.choice((60, 80, 100)) + words(rng, 2)),
    "a wide table": rows(10, 80, lambda rng, row: f"{words(rng, 1):60}{words(rng, 1):60}{row}"),
    "a form to fill in": rows(10, 80, lambda rng, _: f"{words(rng, 2).title()}: {'_' * rng.randrange(20, 60)}"),
    "accents": rows(200, 300, lambda rng, _: rng.choice(ACCENTS), " "),
    "all byte tokens": rows(256, 257, lambda _, row: f"<0x{row:02X}>"),
    "true and false": rows(40, 300, lambda rng, row: f"{row}. {rng.choice(('True', 'False'))}"),
    "a picture of characters": rows(20, 40, characters(" .:-=+*#%@", 70)),
    "bars": rows(10, 60, lambda rng, _: "█" * rng.randrange(1, 60) + f" {words(rng, 1)}"),
    "stars": rows(10, 80, lambda rng, _: "⭐" * rng.randrange(1, 6) + f" {words(rng, 4)}"),
}
"""By what was asked for."""


def stream(token: Callable[[random.Random], str]) -> Answer:
    """Tokens until there are SIZE characters."""

    def make(rng: random.Random) -> str:
        pieces: list[str] = []
        size = 0
        while size < SIZE:
            pieces.append(token(rng))
            size += len(pieces[-1])
        return "".join(pieces)

    return make


def flood(token: str, others: float) -> Answer:
    """One token, with a share of other words."""
    return stream(lambda rng: f" {rng.choice(WORDS)}" if rng.random() < others else token)


def loop(length: int) -> Answer:
    """A text of so many characters, six times and more."""
    return lambda rng: (sentences(rng, length // 30 + 2)[: length - 2] + "\n\n") * max(6, 8000 // length + 5)


def word_with_others(rng: random.Random) -> str:
    """Nine of ten words are the same."""
    word = rng.choice(WORDS)
    return stream(lambda chance: f" {word if chance.random() < 0.9 else chance.choice(WORDS)}")(rng)


def pair(rng: random.Random) -> str:
    """Two words by chance."""
    two = rng.sample(WORDS, 2)
    return stream(lambda chance: f" {chance.choice(two)}")(rng)


TOKENS: Final = (
    *("!", "?", "的", " the", ".", "\n", " ", "ing", " model", "<|im_end|>", "\ufffd", "0", "、", "🙂", " I", "</s>"),
    *("\\n", "{", "}}"),
)
MORE: Final[dict[str, Answer]] = {
    **{
        f"flood of {token!r}, {others:.0%} others": flood(token, others)
        for token in TOKENS
        for others in (0, 0.03, 0.1)
    },
    **{f"loop of {length:,}": loop(length) for length in (40, 150, 500, 1000, 1300, 2500, 6000)},
    "blanks by chance": stream(lambda rng: rng.choice((" ", "\n", "\t", "  ", "\n\n"))),
    "line ends and few words": stream(lambda rng: rng.choice(WORDS) if rng.random() < 0.05 else "\n"),
    "byte tokens": stream(lambda rng: f"<0x{rng.randrange(256):02X}>"),
    "Latin-1 of random bytes": stream(lambda rng: chr(rng.randrange(0xA0, 0x100))),
    "blanks of a tokenizer": stream(lambda rng: f"\u0120{rng.choice(WORDS)}"),
    "private characters": stream(lambda rng: chr(rng.randrange(0xE000, 0xF8FF))),
    "one word with others": word_with_others,
    "two words": pair,
}
"""Collapses beside the 18 kinds of collapse.py."""
BAD: Final = (Verdict.GARBAGE, Verdict.LOOP)


def verdict_of(limits: Limits, text: str) -> tuple[Verdict, str, int]:
    """The verdict of a text in pieces of five characters, its sign, and the character at which it was seen."""
    watch = Watch(limits)
    for at in range(0, len(text), 5):
        watch.feed(text[at : at + 5])
        if watch.sure:
            break
    found = watch.end()
    return (found[0].verdict, found[0].sign, found[0].at) if found else (Verdict.OK, "", 0)


def main() -> None:
    """Both counts of one half; exit 1 where a goal is missed."""
    half, each = int(sys.argv[1]), int(sys.argv[2])
    limits = read_limits((ROOT / "recipes/guard/limits.toml").read_text(encoding="utf-8"))
    answers = [
        (name, make(seeded(f"{name} {2 * one + half}"))) for name, make in ANSWERS.items() for one in range(each)
    ]
    start = time.process_time()
    wrong = Counter(name for name, text in answers if verdict_of(limits, text)[0] in BAD)
    cost = (time.process_time() - start) / sum(len(text) for _, text in answers) * 1e6
    print(f"answers {len(answers)}, called bad {wrong.total()} {dict(wrong)}, {cost:.2f} us a character")
    missed: Counter[str] = Counter()
    count = 0
    for name, make in MORE.items():
        for one in range(max(1, each // 8)):
            rng = seeded(f"{name} {2 * one + half}")
            bad = make(rng)
            for good in (0, 60, 400):
                count += 1
                missed[name] += verdict_of(limits, sentences(rng, 60)[: 4 * good] + bad)[0] not in BAD
    print(f"collapses {count}, seen {count - missed.total()} ({1 - missed.total() / count:.1%}), missed {+missed}")
    sys.exit(int(wrong.total() > len(answers) / 1000 or missed.total() > 0.05 * count))


if __name__ == "__main__":
    main()
