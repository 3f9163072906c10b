"""Where a chosen kernel's code is in an image: its proof's scan, read by the places that are written down. Pure."""

from collections.abc import Iterable
from fnmatch import fnmatchcase

from gb10.errors import UsageError
from gb10.image.explain.engine_facts import EngineFacts
from gb10.image.proof.arch_match import Judged
from gb10.inside.installed import Distribution

UNKNOWN = "unknown"


def check_engine(image: str, distributions: Iterable[Distribution], facts: EngineFacts) -> None:
    """Raise UsageError for an image with another engine, or another release of it, than the facts are of."""
    name = facts.from_image[0]
    found = {one.version for one in distributions if one.name == name}
    if found != {facts.engine}:
        raise UsageError(
            f"explain knows {name} {facts.engine}, {image} has {', '.join(sorted(found)) or 'none'}",
            hint="name the image's engine with --engine; recipes/explain has the facts of one release each",
        )


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
