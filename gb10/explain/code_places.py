"""Where a chosen kernel's code is in an image: its proof's scan, read by the places that are written down. Pure."""

from collections.abc import Iterable
from fnmatch import fnmatchcase

from gb10.explain.engine_facts import EngineFacts
from gb10.proof.fit import Judged

UNKNOWN = "unknown"


def code_of(kernel: str | None, facts: EngineFacts, judged: Iterable[Judged] | None) -> str:
    """``native``, ``family``, ``ptx``, …: the best of the libraries; who compiles it at first request; or unknown.

    ``judged`` is None where no image is named: then only what every image has in common is said.
    """
    place = facts.place_of(kernel) if kernel else None
    if place is None:
        return UNKNOWN
    late = f"compiled at first request by {place.jit}"
    if not place.library:
        return late
    if judged is None:
        return f"in {place.library.rpartition('/')[2]}, name an image (--image)"
    found = [one for one in judged if fnmatchcase(f"/{one.binary.path}", place.library)]
    if not found:
        return late if place.jit else f"nothing: no {place.library}"
    fits = sorted({str(one.fit) for one in found})
    return f"{', '.join(fits)} in {found[0].binary.path.rpartition('/')[2]}" + _more(len(found))


def _more(count: int) -> str:
    return f" and {count - 1} more" if count > 1 else ""
