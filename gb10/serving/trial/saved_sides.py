"""Two sides that were measured before: a result, or a folder of results, one of each launch."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from gb10.errors import UsageError
from gb10.serving.trial.comparability import unlike
from gb10.serving.trial.launch_line import LaunchLine, Result, result_of
from gb10.serving.trial.saved_serve import SavedServe, read_serve_file

MOST: Final = 500
"""Results of a folder."""


def is_saved(a: str, b: str) -> bool:
    """Whether both sides are saved results. Raises UsageError when only one is."""
    found = [Path(text).is_dir() or (text.endswith(".json") and Path(text).is_file()) for text in (a, b)]
    if any(found) and not all(found):
        hint = "name two results, or two folders of them; ./build.py bench replay repeats a bundle against a server"
        raise UsageError("one side is a saved result, and the other is none", hint=hint)
    return all(found)


def saved_launches(a: str, b: str) -> list[LaunchLine]:
    """The launches of both sides by when they were measured, as one block. Raises UsageError."""
    sides = {"A": read_side(Path(a)), "B": read_side(Path(b))}
    first = [side[0].settings for side in sides.values()]
    different = unlike(first[0], first[1])
    if different:
        raise UsageError("the two were measured differently", where="\n".join(different), hint="measure one again")
    ordered = sorted(
        ((one.started, name, one) for name, side in sides.items() for one in side), key=lambda found: found[:2]
    )
    return [_line(name, number, one) for number, (_, name, one) in enumerate(ordered)]


def read_side(path: Path) -> Sequence[SavedServe]:
    """The results of a side, each launch once. Raises UsageError."""
    paths = sorted(path.glob("*.json"))[: MOST + 1] if path.is_dir() else [path]
    if not 0 < len(paths) <= MOST:
        raise UsageError(f"{path} has {'no' if not paths else 'too many'} results", hint="bench serve URL --out FILE")
    found = [read_serve_file(one) for one in paths]
    boots = [one.boot for one in found]
    twice = next((boot for boot in boots if boots.count(boot) > 1), None)
    if twice:
        raise UsageError(
            f"{path} has {boots.count(twice)} results of the launch {twice!r}",
            hint="runs of one launch are no new launches: name each launch by bench serve --boot NAME",
        )
    return found


def _line(name: str, number: int, served: SavedServe) -> LaunchLine:
    result = result_of(served.verdict, "")
    why = "" if result is Result.STABLE else served.why
    return LaunchLine(
        kind="launch",
        name=name,
        block=0,
        number=number,
        result=result,
        why=why,
        cause="",
        seconds=0.0,
        facts={},
        serve=served,
    )
