"""``make soak``: image, publish, pull, the wheel cache and gc are killed, interrupted and starved at random moments.

``--seconds 3600 --blows 1000 --seed S --json FILE``: exit 1 when a result was wrong, or something was left behind.
After some blows on one command it runs again, undisturbed: it must succeed and end at the right result.
"""

import argparse
import json
import secrets
import signal
import sys
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from gb10.core.signals import end_as_by_ctrl_c
from gb10.image.plan.catalog import ROOT
from tests.bad_days.blows import ENGINE, End, Surroundings, struck
from tests.bad_days.left import RUN, kept_by, locks_held, mounts_below, processes_left, scratch_left
from tests.bad_days.works import Collecting, Images, Publishing, Pulling, Sharing, Taking, ThroughHead, Work, engines
from tests.bad_days.world import World, world
from tests.integration.nodes import wake

MEANT: Final = {0, 2, 5, 6, 7, 8, 9, 10, 130, -9, -15, -2}
"""Exit codes of a command that was struck: done, an error with a remedy, interrupted, ended by a signal."""
WRONG: Final = "wrong results"
LEFT: Final = "left behind"
BATCHES: Final = {
    "image": 1,
    "publish": 6,
    "pull": 5,
    "pull --via-head": 4,
    "cache push": 5,
    "cache pull": 4,
    "cache gc": 4,
}
"""How often a command gets something new to do before the next image is built."""
MOST: Final = 6
"""The most blows in a batch; the command runs undisturbed after it."""


@dataclass(slots=True)
class Tally:
    """What happened."""

    blows: Counter[tuple[str, str]] = field(default_factory=Counter)
    late: int = 0
    wrong: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    recovered: int = 0

    @property
    def count(self) -> int:
        """Blows that fell while a command ran."""
        return sum(self.blows.values())

    def document(self) -> dict[str, object]:
        """All of it, for a file."""
        return {
            "blows": self.count,
            "by command and kind": {f"{work}, {blow}": count for (work, blow), count in sorted(self.blows.items())},
            "commands that were over before": self.late,
            "commands that then succeeded undisturbed": self.recovered,
            WRONG: self.wrong,
            LEFT: self.left,
        }


@dataclass(slots=True)
class Soak:
    """One run, by one seed."""

    world: World
    chance: Random
    until: float
    most: int
    tally: Tally = field(default_factory=Tally)
    times: dict[str, list[float]] = field(default_factory=dict)
    begin: float = field(default_factory=time.monotonic)
    before: set[str] = field(init=False)

    def __post_init__(self) -> None:
        self.before = self._mounts()

    def over(self) -> bool:
        """Whether time or blows are used up."""
        return time.monotonic() > self.until or self.tally.count >= self.most

    def run(self) -> None:
        """Rounds: a new image, then everything that is done with it."""
        images = Images(self.world)
        publishing, sharing = Publishing(self.world, images), Sharing(self.world)
        pulling, taking = Pulling(self.world, images, publishing), Taking(self.world, sharing)
        through = ThroughHead(self.world, images, publishing)
        works: tuple[Work, ...] = (images, publishing, pulling, through, sharing, taking, Collecting(self.world))
        for work in works:
            work.renew(self.chance)
            self._ends_well(work)
        self.until += time.monotonic() - self.begin  # the time is that of blows; on a cold machine a base is made first
        while not self.over():
            for work in works:
                for _ in range(BATCHES[work.name]):
                    if self.over():
                        return
                    self._batch(work)
                self._say(work)

    def _batch(self, work: Work) -> None:
        work.renew(self.chance)
        for _ in range(self.chance.randint(1, MOST)):
            if self._blow(work) and work.name != "image":
                work.renew(self.chance)
        self._ends_well(work)

    def _say(self, work: Work) -> None:
        found = f"{len(self.tally.wrong)} wrong  {len(self.tally.left)} left"
        alone = f"{work.name} ({self.times[work.name][-1]:.1f} s undisturbed)"
        print(f"{time.monotonic() - self.begin:6.0f} s  {self.tally.count:4} blows  {found}  {alone}", flush=True)

    def _blow(self, work: Work) -> bool:
        """One blow; whether the command succeeded all the same."""
        around = work.around()
        blow = self.chance.choice(around.blows())
        moment = self.chance.uniform(0, min(self.times[work.name]))
        end = self._struck(work, around, blow, moment)
        if end.late:
            self.tally.late += 1
        else:
            self.tally.blows[work.name, blow] += 1
        what = f"{work.name}, {blow} after {moment:.2f} s"
        if not _unborn(end.err) and (end.code not in MEANT or "Traceback" in end.err):
            self._keep(self.tally.wrong, f"{what}: exit {end.code}: {end.err[-600:]}")
        if blow == ENGINE and around.engine:
            wake(around.engine)
        for wrong in work.wrong(done=end.code == 0):
            self._keep(self.tally.wrong, f"{what}: {wrong}")
        return end.code == 0

    def _ends_well(self, work: Work) -> None:
        end = self._struck(work, Surroundings(), "none", 0)
        self.times[work.name] = [*self.times.get(work.name, [])[-4:], end.seconds]
        if end.code:
            self._keep(self.tally.wrong, f"{work.name}, undisturbed: exit {end.code}: {end.err[-600:]}")
            return
        self.tally.recovered += 1
        for wrong in work.wrong(done=True):
            self._keep(self.tally.wrong, f"{work.name}, undisturbed: {wrong}")
        for left in self._left():
            self._keep(self.tally.left, f"{work.name}: {left}")

    def _struck(self, work: Work, around: Surroundings, blow: str, moment: float) -> End:
        run, (argv, more) = uuid.uuid4().hex, work.command()
        end = struck(argv, {**self.world.env, **more, RUN: run}, self.world.folder / "stderr", around, blow, moment)
        for left in processes_left(run, engines(self.world)):
            self._keep(self.tally.left, f"{work.name}, {blow} after {moment:.2f} s: {left}")
        return end

    def _left(self) -> Iterator[str]:
        yield from scratch_left(self.world.store, Path(self.world.env["TMPDIR"]))
        yield from locks_held(self.world.store)
        for engine in engines(self.world):
            yield from (f"{engine.endpoint.host}: {left}" for left in kept_by(engine))
        yield from (f"mount {point}" for point in self._mounts() - self.before)

    def _mounts(self) -> set[str]:
        return mounts_below(self.world.folder, Path(self.world.env["TMPDIR"]))

    def _keep(self, into: list[str], text: str) -> None:
        if text not in into:
            into.append(text)
            print(f"!! {text}", flush=True)


def _unborn(err: str) -> bool:
    """Whether Ctrl-C fell into Python's own start: its traceback is there, and no line of ours in it but line 0."""
    ours = f'File "{ROOT}/'
    return err.rstrip().endswith("KeyboardInterrupt") and err.count(ours) == err.count("line 0, in <module>")


def soaked(seconds: float, blows: int, seed: str) -> dict[str, object]:
    """One soak: its figures."""
    with world() as machines:
        begin = time.monotonic()
        soak = Soak(machines, Random(seed), begin + seconds, blows)  # noqa: S311 - not a secret
        soak.run()
        return {"seed": seed, "minutes": round((time.monotonic() - begin) / 60, 1), **soak.tally.document()}


def main() -> int:
    """One soak."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--blows", type=int, default=10_000)
    parser.add_argument("--seed", default=secrets.token_hex(4))
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background it is ignored, by each command, too
    end_as_by_ctrl_c()
    found = soaked(options.seconds, options.blows, options.seed)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(found, indent=1))
    return 1 if found[WRONG] or found[LEFT] else 0


if __name__ == "__main__":
    sys.exit(main())
