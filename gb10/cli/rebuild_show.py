"""How the comparison of an image with the one that was built again is shown."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Final

from gb10.cli.common import print_json
from gb10.core.printing import printable
from gb10.core.reporter import Reporter
from gb10.errors import VerifyError
from gb10.image.build.reproducing import Comparison

SHOWN: Final = 20
"""Files that are listed for people."""


def print_comparison(reporter: Reporter, target: str, found: Comparison, *, as_json: bool) -> None:
    """The layers on stderr, the digest of what was built again on stdout."""
    if as_json:
        print_json(document(target, found))
        return
    for pair in found.layers:
        state = "same" if pair.same else "built" if not found.compared else "differs"
        reporter.say(f"  {state:8} {pair.name:32} {(pair.after or pair.before or '')[:19]}")
    if found.same:
        reporter.say(f"{target} is reproduced: {len(found.layers)} of {len(found.layers)} layers have the same bytes")
    elif not found.compared:
        reporter.say("there is no image to compare with: compare the digest with one of another machine")
    print(found.digest)


def document(target: str, found: Comparison) -> dict[str, object]:
    """The comparison as data."""
    return {
        "schema": "gb10/rebuild/v1",
        "target": target,
        "digest": found.digest,
        "compared": found.compared,
        "same": found.same,
        "layers": [{**asdict(pair), "same": pair.same} for pair in found.layers],
        "settings": list(found.settings),
        "files": [asdict(one) for one in found.files],
        "count": found.count,
        "report": found.report,
    }


def refuse(target: str, found: Comparison) -> None:
    """Raise VerifyError when there is a difference."""
    if found.same or not found.compared:
        return
    other = sum(not pair.same for pair in found.layers)
    what = f"{other} of {len(found.layers)} layers differ" if other else "its settings differ"
    raise VerifyError(
        f"{target} is not reproduced: {what}",
        where="\n".join(_lines(found)),
        hint="a file of a compiled wheel: does --rebuild NAME give it again, here and on the first machine?\n"
        "a file of a mod with the network: what it fetched may be another today",
    )


def _lines(found: Comparison) -> Iterator[str]:
    for pair in found.layers:
        if not pair.same:
            yield f"{pair.name}: {pair.before or 'no such layer'}, now {pair.after or 'no such layer'}"
    yield from (f"setting: {name}" for name in found.settings)
    yield from (printable(f"/{one.path}: {', '.join(one.differs)}") for one in found.files[:SHOWN])
    if found.count > SHOWN:
        yield f"and {found.count - SHOWN} more files"
    if not found.count and not all(pair.same for pair in found.layers):
        yield "no file differs: the order or the form of an archive does"
    yield from map(printable, found.report.splitlines())
