"""A bundle repeated: the same load on another server or machine, held against what the bundle measured."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from gb10.core.journal import Journal
from gb10.errors import UsageError
from gb10.image.context import Context
from gb10.serving.benchmark.bench_bundle import Bundle
from gb10.serving.benchmark.compared import Compared, Unit, compare_launches
from gb10.serving.benchmark.launch_journal import launches_of, run_and_record
from gb10.serving.benchmark.launch_line import LaunchLine, Result
from gb10.serving.benchmark.launcher import MakeLauncher, Starting, parameters_of, running_already
from gb10.serving.benchmark.matrix import read_matrix, rows_of
from gb10.serving.benchmark.measuring import Measure

NAMES = ("the bundle", "here")


def sides_of(bundle: Bundle) -> dict[str, list[LaunchLine]]:
    """What a bundle measured, by name: A and B, the rows of a matrix, or one endpoint. Only stable launches. Pure."""
    found: dict[str, list[LaunchLine]] = {}
    for one in bundle.launches:
        if one.result is Result.STABLE:
            found.setdefault(one.name, []).append(one)
    return found


def chosen_side(bundle: Bundle, wanted: str | None) -> tuple[str, list[LaunchLine]]:
    """The side to repeat; without a wish the only one. Raises UsageError."""
    found = sides_of(bundle)
    if wanted is None and len(found) == 1:
        return next(iter(found.items()))
    if wanted in found:
        return str(wanted), found[str(wanted)]
    names = ", ".join(found) or "none"
    what = f"the bundle has no stable launch of {wanted!r}" if wanted else f"the bundle has {len(found)} sides"
    raise UsageError(what, where=names, hint="choose one: --side NAME")


def compare_with_bundle(
    before: Sequence[LaunchLine], here: Sequence[LaunchLine], *, margin: float, unit: Unit
) -> Compared:
    """The launches here against those of the bundle: two groups, since they did not run in turn."""
    lines = [_line(one, "A", number) for number, one in enumerate(before)]
    lines += [_line(one, "B", len(before) + number) for number, one in enumerate(here)]
    return compare_launches(lines, NAMES, margin=margin, unit=unit)


def _line(one: LaunchLine, side: str, number: int) -> LaunchLine:
    return one.model_copy(update={"name": side, "block": 0, "number": number})


def settings_of_side(head: Mapping[str, Any], side: str) -> Mapping[str, str]:
    """What a row of a matrix sets; none for others. Raises UsageError. Pure."""
    if head.get("kind") != "matrix":
        return {}
    rows = rows_of(read_matrix(json.dumps(head.get("matrix")), "the matrix of the bundle"))
    return next((row.settings for row in rows if row.name == side), {})


def text_of_side(head: Mapping[str, Any], side: str) -> str:
    """What a side of a comparison sets, as it was typed; empty for others. Pure."""
    names = head.get("names")
    if head.get("kind") != "compare" or not isinstance(names, list) or len(names) != 2:
        return ""
    return str(names[0 if side == "A" else 1])


def measured_here(
    ctx: Context, make: MakeLauncher, measure: Measure, journal: Journal, launches: int
) -> list[LaunchLine]:
    """So many launches here; those that the folder has stay."""
    known = {one.number: one for one in launches_of(journal) if one.result is not Result.FAIL}
    for number in range(launches):
        if number not in known:
            with ctx.reporter.task(f"launch {number + 1} of {launches}"):
                known[number] = run_and_record(ctx, lambda: make, measure, journal, name="here", number=number)
    return [known[number] for number in sorted(known)]


def launcher_of_url(url: str) -> MakeLauncher:
    launcher = running_already(url)
    return lambda journal, name: launcher


def started_as_bundle(ctx: Context, starting: Starting, bundle: Bundle, side: str, folder: Path) -> MakeLauncher:
    """How servers are started here. Raises UsageError."""
    parameters = {**settings_of_side(bundle.head, side), **parameters_of(text_of_side(bundle.head, side))}
    if starting.recipe is None and starting.launch is None:
        starting = _of_bundle(ctx, starting, bundle, folder)
    elif parameters and not starting.request.trust:
        raise UsageError(
            "the bundle sets parameters of the server, and they are another's",
            where="\n".join(f"{name}={value}" for name, value in parameters.items())[:4000],
            hint="read them; then --trust uses them",
        )
    return starting.launcher(ctx, parameters, "bench-here", folder / "logs")


def _of_bundle(ctx: Context, starting: Starting, bundle: Bundle, folder: Path) -> Starting:
    """The command or the recipe that the bundle has; only when the user trusts it."""
    launch, recipe = bundle.head.get("launch"), bundle.recipe
    said = str(launch) if launch else recipe
    if said is None:
        raise UsageError("the bundle does not say how its server was started", hint="name a server: replay BUNDLE URL")
    if not starting.request.trust:
        raise UsageError(
            "the bundle says how to start its server, and that is another's command",
            where=said[:4000],
            hint="read it; then --trust starts it. Or start a server yourself: replay BUNDLE URL, --launch COMMAND",
        )
    if launch:
        return replace(starting, launch=str(launch), endpoint=str(bundle.head.get("endpoint") or starting.endpoint))
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "recipe.yaml"
    path.write_text(said, encoding="utf-8")
    ctx.reporter.say(f"the recipe of the bundle: {path}")
    return replace(starting, recipe=str(path))
