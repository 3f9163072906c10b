"""What canaries catch: batches of eight in which one answer is salad, soup, a collapse, or another request's.

    python3 -m bootstrap benches/guard/canaries.py

100 batches of each. Found means: that answer is called wrong (or crossed), and the seven others right. Exits 1 below
100 of 100.
"""

import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benches.guard.collapse import COLLAPSES, SALADS, Maker, collapsed, seeded
from gb10.image.plan.catalog import ROOT
from gb10.serving.guard.canary import AnswerKind, Canary, judge_canary, make_canaries, read_facts

BATCHES, SIZE = 100, 8
FORMS = ("{nonce}\n{fact}.", "Code: **{nonce}**\n\nThe answer is {fact}.", "`{nonce}` - {fact}!")
Spoil = Callable[[list[str], int, int], str]


def right(canary: Canary, number: int) -> str:
    """A right answer, in one of the forms that models use."""
    return FORMS[number % len(FORMS)].format(nonce=canary.nonce, fact=canary.fact.accept[0])


def of(make: Maker) -> Spoil:
    """Garbage instead of the answer."""
    return lambda answers, place, batch: "".join(collapsed("", 0, make, seeded(f"{batch}"), 300))


def swapped(answers: list[str], place: int, batch: int) -> str:
    """The answer of the next request: a wrong row of the batch."""
    return answers[(place + 1) % len(answers)]


def found(spoil: Spoil) -> int:
    """In how many of the batches exactly the spoilt answer is found."""
    facts = read_facts((ROOT / "recipes/guard/facts.toml").read_text(encoding="utf-8"))
    hits = 0
    for batch in range(BATCHES):
        canaries = make_canaries(SIZE, facts, f"batch {batch}")
        answers = [right(canary, place + batch) for place, canary in enumerate(canaries)]
        place = batch % SIZE
        answers[place] = spoil(answers, place, batch)
        nonces = [canary.nonce for canary in canaries]
        judged = [
            judge_canary(canary, answer, "", "stop", nonces) for canary, answer in zip(canaries, answers, strict=True)
        ]
        wrong = [at for at, one in enumerate(judged) if one.answered is not AnswerKind.RIGHT]
        hits += wrong == [place]
    return hits


def main() -> None:
    """Print the table; exit 1 below 100 of 100."""
    spoils: dict[str, Spoil] = {name: of(make) for name, make in {**SALADS, **COLLAPSES}.items()}
    hits = {name: found(spoil) for name, spoil in {**spoils, "answer of another request": swapped}.items()}
    print(f"| in one of {SIZE} answers | batches | found |\n|---|---|---|")
    for name, count in hits.items():
        print(f"| {name} | {BATCHES} | {count} |")
    sys.exit(int(min(hits.values()) < BATCHES))


if __name__ == "__main__":
    main()
