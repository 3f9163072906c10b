"""How models collapse: 18 kinds of garbage as a server sends them, token by token, after any number of good ones."""

import random
from collections.abc import Callable, Iterator
from itertools import cycle, islice
from typing import Final

Maker = Callable[[random.Random], Iterator[str]]
SCRIPTS: Final = [
    line.split()
    for line in (
        "the ing tion ver pro con str able ould ther Read out return lambda",
        "при ние ова ств тель про раз общ ского",
        "الم عال كان هذا التي ون ية",
        "的 是 在 有 我们 这个 时间 可以",
        "です ます した から こと",
        "에서 하는 으로 했다",
        "है के में और नहीं",
        "ความ การ ที่ ของ",
        "και του στην που",
        "של את על לא",
    )
]
PAIR: Final = ("!", "?", " yes", " no", "的", " the", " a", "\n", "...", " 1", "0", "_", "<unk>", " model", "ом", "🙂")
COMMON: Final = """
time year people way day man thing woman life child world school state family student group country problem hand part
place case week company system program question work government number night point home water room mother area money
story fact month lot right study book eye job word business issue side kind head house
"""
WORDS: Final = COMMON.split()


def seeded(seed: str | int) -> random.Random:
    """Chance that is the same in every run."""
    return random.Random(seed)  # noqa: S311


def flood(token: str) -> Maker:
    """One token, for ever."""
    return lambda rng: cycle((token,))


def loop(length: int) -> Maker:
    """A text of ``length`` characters, for ever, in tokens of words."""

    def make(rng: random.Random) -> Iterator[str]:
        text = ""
        while len(text) < length:
            text += rng.choice(WORDS).capitalize() + " " + " ".join(rng.choices(WORDS, k=9)) + ". "
        text = text[: length - 1] + "\n"
        return cycle([text[at : at + 5] for at in range(0, length, 5)])

    return make


def two(rng: random.Random) -> Iterator[str]:
    """Two tokens in random order; two digits would be random bits, which people ask for."""
    pair = rng.sample(PAIR, 2)
    while all(token.strip().isdecimal() for token in pair):
        pair = rng.sample(PAIR, 2)
    while True:
        yield rng.choice(pair)


def soup_of_bytes(rng: random.Random) -> Iterator[str]:
    """Random bytes, decoded as servers do: what is no UTF-8 becomes U+FFFD."""
    while True:
        yield rng.randbytes(4).decode("utf-8", "replace")


def soup_of_scripts(rng: random.Random) -> Iterator[str]:
    """Random tokens of many scripts; half of the Latin ones start with a blank, as in a vocabulary."""
    while True:
        script = rng.choice(SCRIPTS)
        yield (" " if script is SCRIPTS[0] and rng.random() < 0.5 else "") + rng.choice(script)


COLLAPSES: Final[dict[str, Maker]] = {
    "!": flood("!"),
    "line end": flood("\n"),
    "blank": flood(" "),
    "NUL": flood("\0"),
    "U+FFFD": flood("\ufffd"),
    "...": flood("..."),
    "word": flood(" the"),
    "Chinese character": flood("的"),
    "emoji": flood("🙂"),
    "end mark": flood("<|endoftext|>"),
    "digit": flood("0"),
    "invisible": flood("\u200b"),
    "two tokens": two,
    "bytes": soup_of_bytes,
    "scripts": soup_of_scripts,
    "loop of 80": loop(80),
    "loop of 200": loop(200),
    "loop of 300": loop(300),
}
"""The 18 kinds that text alone shows."""


def words(rng: random.Random) -> Iterator[str]:
    """Common words in random order: no text metric tells it from prose; a canary does."""
    while True:
        yield f" {rng.choice(WORDS)}"


def dozen(rng: random.Random) -> Iterator[str]:
    """A dozen words in random order."""
    some = rng.sample(WORDS, 12)
    while True:
        yield f" {rng.choice(some)}"


SALADS: Final[dict[str, Maker]] = {"word salad": words, "soup of a dozen tokens": dozen}
"""What only a canary catches."""


def tokens(text: str, rng: random.Random) -> Iterator[str]:
    """A good text in pieces of two to seven characters, four on average."""
    at = 0
    while at < len(text):
        step = rng.choice((2, 3, 4, 4, 5, 7))
        yield text[at : at + step]
        at += step


def collapsed(good: str, onset: int, make: Maker, rng: random.Random, characters: int) -> list[str]:
    """``onset`` good tokens, then garbage until it has ``characters`` of its own."""
    out = list(islice(tokens(good, rng), onset))
    got = 0
    for token in make(rng):
        out.append(token)
        got += len(token)
        if got >= characters:
            return out
    return out
