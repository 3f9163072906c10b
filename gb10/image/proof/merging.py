"""One scan of an image from the scans of its layers. Pure."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar

from gb10.inside.scan import Scan


class Placed(Protocol):
    """An entry of a scan that lies at a path."""

    @property
    def path(self) -> str:
        """Relative to the root."""


P = TypeVar("P", bound=Placed)


def merge_layers(root: str, scans: Sequence[Scan]) -> Scan:
    """The scan of these layers, lowest first: a path in a later layer hides the earlier ones, or removes them.

    Sizes are of all layers: what is hidden takes room, too.
    """
    merged = Scan(root=root)
    for scan in scans:
        gone = {*scan.gone}
        merged = Scan(
            root=root,
            binaries=_over(merged.binaries, scan.binaries, gone),
            distributions=_over(merged.distributions, scan.distributions, gone),
            hazards=_over(merged.hazards, scan.hazards, gone),
            contents={path: one for path, one in merged.contents.items() if path not in gone} | scan.contents,
            sizes=dict(Counter(merged.sizes) + Counter(scan.sizes)),
        )
    return merged


def _over(below: Iterable[P], above: Sequence[P], gone: set[str]) -> tuple[P, ...]:
    """All entries, those of the layer above instead of those at the same paths."""
    hidden = gone.union(entry.path for entry in above)
    return tuple(sorted((*(one for one in below if one.path not in hidden), *above), key=lambda one: one.path))
