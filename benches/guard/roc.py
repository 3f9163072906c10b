"""False alarms, misses and cost of the guard: the tables of docs/guard.md.

    python3 -m bootstrap benches/guard/roc.py                  # 26,000 real streams, 18 collapses; 3 CPU minutes
    python3 -m bootstrap benches/guard/roc.py --streams 100    # of each kind

Exits 1 when a bar is not met: 0 GARBAGE in running text, at most 1 in 1,000 over all, 0 misses within 1,600
characters, at most 2 us a character.
"""

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benches.guard.collapse import COLLAPSES, SALADS, Maker, collapsed, seeded
from benches.guard.corpus import documents, kinds, streams
from gb10.core.store import open_store
from gb10.image.plan.catalog import ROOT
from gb10.serving.guard.finding import Verdict
from gb10.serving.guard.limits import Limits, read_limits
from gb10.serving.guard.watch import Watch

LIMITS = ROOT / "recipes/guard/limits.toml"
ONSETS = (0, 5, 60, 400)
BATCHES = (1, 4, 8)
WITHIN = 1600
SEED = 13
BAR_US = 2.0


@dataclass(slots=True)
class Row:
    """What one kind of real text gave."""

    streams: int = 0
    characters: int = 0
    verdicts: Counter[Verdict] = field(default_factory=Counter)
    signs: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    shown: list[str] = field(default_factory=list)


def verdict_of(limits: Limits, pieces: Sequence[str]) -> tuple[Verdict, str, int]:
    """The verdict of a stream's text, its sign, and the character at which it was seen."""
    watch = Watch(limits)
    for piece in pieces:
        watch.feed(piece)
        if watch.sure:
            break
    found = watch.end()
    if found:
        return found[0].verdict, found[0].sign, found[0].at
    return Verdict.OK, "", watch.characters


def real(limits: Limits, texts: Sequence[str], count: int) -> Row:
    """Judge ``count`` real streams, five characters at a time."""
    row = Row()
    for text in streams(texts, count, SEED):
        pieces = [text[at : at + 5] for at in range(0, len(text), 5)]
        began = time.process_time()
        verdict, sign, at = verdict_of(limits, pieces)
        row.seconds += time.process_time() - began
        row.streams += 1
        row.characters += len(text)
        row.verdicts[verdict] += 1
        row.signs[sign] += 1
        if verdict in (Verdict.GARBAGE, Verdict.LOOP):
            row.shown.append(f"{verdict} {sign} at {at}: {text[max(0, at - 90) : at]!r}")
    return row


def missed(limits: Limits, good: Sequence[str], make: Maker, seeds: int, characters: int) -> tuple[int, int, int]:
    """Streams, misses, and the most characters of garbage before one was seen, over onsets, batch sizes and seeds."""
    total = misses = latest = 0
    for onset in ONSETS:
        for batch in BATCHES:
            for seed in range(seeds):
                rngs = [seeded(f"{onset} {batch} {seed} {at}") for at in range(batch)]
                for rng in rngs:
                    pieces = collapsed(rng.choice(good), onset, make, rng, characters)
                    start = sum(map(len, pieces[:onset]))
                    verdict, _, at = verdict_of(limits, pieces)
                    total += 1
                    caught = verdict in (Verdict.GARBAGE, Verdict.LOOP) or not "".join(pieces).strip()
                    misses += not caught
                    latest = max(latest, at - start if caught else 0)
    return total, misses, latest


def main() -> None:
    """Print both tables; exit 1 when a bar is not met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, default=1300, help="real streams of each kind")
    parser.add_argument("--seeds", type=int, default=3, help="streams of each collapse, onset and batch position")
    parser.add_argument("--show", action="store_true", help="print each false alarm")
    asked = parser.parse_args()
    limits = read_limits(LIMITS.read_text(encoding="utf-8"))
    found = documents(open_store(os.environ), os.environ)
    rows = {kind: real(limits, found[kind.name], asked.streams) for kind in kinds()}
    print("| real text | streams | characters | GARBAGE | LOOP | SUSPECT |\n|---|---|---|---|---|---|")
    for kind, row in rows.items():
        counts = " | ".join(str(row.verdicts[name]) for name in (Verdict.GARBAGE, Verdict.LOOP, Verdict.SUSPECT))
        print(f"| {kind.name} | {row.streams:,} | {row.characters:,} | {counts} |")
        for line in row.shown if asked.show else ():
            print("   ", line)
    good = [text for text in streams(found["prose"], 200, SEED) if len(text) > 4000]
    print("\n| collapse | streams | missed | seen within | answers of 64, 128, 200 characters: missed |")
    print("|---|---|---|---|---|")
    misses = 0
    for name, make in {**COLLAPSES, **SALADS}.items():
        total, lost, latest = missed(limits, good, make, asked.seeds, WITHIN)
        misses += lost if name in COLLAPSES else 0
        short = [short_missed(limits, make, size) for size in (64, 128, 200)]
        print(f"| {name} | {total:,} | {lost} | {latest:,} | {', '.join(map(str, short))} |")
    sys.exit(summary(list(rows.items()), misses))


def short_missed(limits: Limits, make: Maker, characters: int) -> str:
    """Misses among 20 answers that end after so many characters of garbage."""
    lost = 0
    for seed in range(20):
        pieces = collapsed("", 0, make, seeded(seed), characters)
        verdict, _, _ = verdict_of(limits, pieces)
        lost += verdict not in (Verdict.GARBAGE, Verdict.LOOP) and bool("".join(pieces).strip())
    return f"{lost} of 20"


def summary(rows: Sequence[tuple[object, Row]], misses: int) -> int:
    """Print the bars; the exit status."""
    running = [row for kind, row in rows if getattr(kind, "class_", "") == "running"]
    every = [row for _, row in rows]

    def bad(some: Sequence[Row]) -> int:
        return sum(row.verdicts[Verdict.GARBAGE] for row in some)

    characters = sum(row.characters for row in every)
    us = sum(row.seconds for row in every) / max(1, characters) * 1e6
    total, texts = sum(row.streams for row in every), sum(row.streams for row in running)
    suspects = sum(row.verdicts[Verdict.SUSPECT] for row in every)
    print(f"\nGARBAGE in running text: {bad(running)} of {texts:,}; over all: {bad(every)} of {total:,}")
    print(f"SUSPECT over all: {suspects} of {total:,} ({suspects / total:.2%}); {characters:,} characters")
    print(f"missed within {WITHIN:,} characters: {misses}; {us:.2f} us a character, five at a time")
    return int(bad(running) > 0 or bad(every) > total / 1000 or misses > 0 or us > BAR_US)


if __name__ == "__main__":
    main()
