"""Two sides launched in turn, A B B A, each launch measured and kept at once; an interrupted run goes on."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

from gb10.core.fetch import redact
from gb10.core.journal import Journal
from gb10.errors import ServeError, UsageError
from gb10.image.context import Context
from gb10.serving.benchmark.compared import Unit
from gb10.serving.benchmark.launch_journal import launches_of, run_and_record
from gb10.serving.benchmark.launch_line import LaunchLine, Result
from gb10.serving.benchmark.launcher import MakeLauncher, Parameters, Starting, parameters_of, running_already
from gb10.serving.benchmark.measuring import Measure
from gb10.serving.stats.comparison import Side, schedule

MOST_FAILED: Final = 2
"""Launches of a side that may fail one after the other, before the whole is given up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contest:
    """Two sides, and how often each is launched. More launches may be asked for later: those before them stay."""

    names: tuple[str, str]
    launchers: Mapping[Side, MakeLauncher]
    launches: int
    measure: Measure


def run_comparison(ctx: Context, contest: Contest, journal: Journal) -> list[LaunchLine]:
    """Run what the journal lacks, and what failed. Raises ServeError when a side does not start, FetchError."""
    known = {one.number: one for one in launches_of(journal)}
    order = schedule(contest.launches)
    done = [number for number, one in known.items() if one.result is not Result.FAIL]
    if done:
        ctx.reporter.say(f"{len(done)} of {len(order)} launches were measured before")
    for number, (side, _) in enumerate(order):
        if any(one.result is Result.GARBAGE for one in known.values()):
            break
        if number not in done:
            with ctx.reporter.task(f"launch {number + 1} of {len(order)}, {side}: {contest.names[side == 'B']}"):
                known[number] = run_and_record(
                    ctx,
                    partial(contest.launchers.__getitem__, side),
                    contest.measure,
                    journal,
                    name=side,
                    number=number,
                )
            own = [known[number] for number in sorted(known) if known[number].name == side][-MOST_FAILED:]
            if len(own) == MOST_FAILED and all(one.result is Result.FAIL for one in own):
                last = own[-1]
                raise ServeError(
                    f"{side} failed {MOST_FAILED} times in turn: {last.why}",
                    where=last.cause or None,
                    hint="the launches before it are kept: mend it, then run the same command with the same --out",
                )
    blocks = {number: block for number, (_, block) in enumerate(order)}
    return [known[number].model_copy(update={"block": blocks[number]}) for number in sorted(known) if number in blocks]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sides:
    """Both sides as launchers, and all that names them."""

    names: tuple[str, str]
    launchers: tuple[MakeLauncher, MakeLauncher]
    unit: Unit
    what: dict[str, object]

    def contest(self, launches: int, measure: Measure) -> Contest:
        """So many launches of each."""
        launchers: dict[Side, MakeLauncher] = {"A": self.launchers[0], "B": self.launchers[1]}
        return Contest(names=self.names, launchers=launchers, launches=launches, measure=measure)


def sides_of_compare(ctx: Context, starting: Starting, texts: tuple[str, str], folder: Path) -> Sides:
    """The launchers of both sides. Raises UsageError."""
    if not starting.recipe and not starting.launch:
        return _sides(ctx, starting, texts, folder)
    if texts[0] == texts[1]:
        ctx.reporter.say("both sides are the same: what is found is the noise of this machine")
    made = [_launcher(ctx, starting, parameters_of(text), side, folder) for text, side in zip(texts, "ab", strict=True)]
    return Sides(names=texts, launchers=(made[0], made[1]), unit="launches", what=starting.document)


def _sides(ctx: Context, starting: Starting, texts: tuple[str, str], folder: Path) -> Sides:
    """Two endpoints, or two recipes."""
    urls = [_is_url(text) for text in texts]
    if all(urls):
        a, b = map(running_already, texts)
        what: dict[str, object] = {"endpoints": [redact(text) for text in texts]}
        return Sides(names=texts, launchers=(lambda *_: a, lambda *_: b), unit="passes", what=what)
    if any(urls):
        raise UsageError("one side is an endpoint, and the other is none", hint="name two endpoints, or two recipes")
    made = [
        _launcher(ctx, replace(starting, recipe=text), {}, side, folder) for text, side in zip(texts, "ab", strict=True)
    ]
    return Sides(names=texts, launchers=(made[0], made[1]), unit="launches", what=starting.document)


def _launcher(ctx: Context, starting: Starting, parameters: Parameters, side: str, folder: Path) -> MakeLauncher:
    return starting.launcher(ctx, parameters, f"bench-{side}", folder / "logs")


def _is_url(text: str) -> bool:
    """``http://…``, or ``host:8000`` when no file has that name."""
    host, colon, port = text.rpartition(":")
    return "://" in text or (bool(host and colon) and port.isdigit() and not Path(text).exists())
