"""A verdict read back from its document, as another machine published it. What is malformed is no verdict."""

from typing import Any

from gb10.errors import UsageError
from gb10.image.proof.arch_match import UNIT_FITS, Judged, Verdict
from gb10.image.proof.reading import CODE, MANY
from gb10.image.proof.report import SCHEMA
from gb10.image.recipe.arch import parse_arch
from gb10.inside.binary import Binary, Unit
from gb10.inside.loader import Fit

MOST = 1 << 16
"""Binaries of a document."""


def read_verdict(document: Any) -> Verdict | None:  # noqa: ANN401 - whatever JSON holds
    """The verdict of a document of `verify --json`; None for another document."""
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        return None
    try:
        rows = document["binaries"][:MOST]
        return Verdict(arch=parse_arch(document["arch"]), root=str(document["root"]), judged=tuple(map(_judged, rows)))
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError, UsageError):
        return None


def _judged(row: dict[str, Any]) -> Judged:
    codes = {str(code): int(count) for code, count in row["codes"].items()}
    if not all(CODE.fullmatch(code) and 0 < count < MANY for code, count in codes.items()):
        raise ValueError(codes)
    binary = Binary(
        path=str(row["path"]),
        kind=str(row["kind"]),
        size=int(row["size"]),
        units=(Unit(codes=codes, count=1),) if codes else (),
        error=str(row.get("error", "")),
    )
    units = {fit: int(row["units"].get(str(fit), 0)) for fit in UNIT_FITS}
    return Judged(binary=binary, fit=Fit(row["fit"]), units=units)
