"""Two sides launched in turn, A B B A, each launch measured and kept at once; an interrupted run goes on."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from gb10.core.journal import Journal
from gb10.errors import ServeError
from gb10.image.context import Context
from gb10.serving.stats.comparison import Side, schedule
from gb10.serving.trial.launch_journal import MakeLauncher, launches_of, run_and_record
from gb10.serving.trial.launch_line import LaunchLine, Result
from gb10.serving.trial.measuring import Measure

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
