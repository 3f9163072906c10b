"""Which GPU code the driver loads: how well code fits a compute capability, and what of one fatbin it may choose. Pure.

Rules: CUDA C++ programming guide, "Binary compatibility", "PTX compatibility" and "Family-specific features".
"""

import re
from collections.abc import Sequence
from enum import StrEnum

CODE = re.compile(r"(sm|compute|lto|kind[0-9]+)_([0-9]+)([af]?)")


class Fit(StrEnum):
    """How well code fits a capability, best first; a binary has the best fit of its units."""

    NATIVE = "native"  # SASS of exactly this capability
    FAMILY = "family"  # family SASS (120f on 12.1), with the family's tensor-core instructions
    COMPATIBLE = "compatible"  # plain SASS of an earlier minor (120 on 12.1), without them
    PTX = "ptx"  # the driver compiles it on first use
    NOTHING = "nothing"  # code for other GPUs only: a launch fails
    NONE = "none"  # no GPU code
    DAMAGED = "damaged"  # unknown: the file contradicts itself or cannot be read


CHOICES = ({Fit.NATIVE}, {Fit.FAMILY, Fit.COMPATIBLE}, {Fit.PTX})
"""The driver loads from a fatbin the first of these kinds that it holds."""


def code_fit(code: str, capability: str) -> Fit:
    """``sm_120f`` on ``12.1`` -> family. Link-time IR (``lto_…``) is nothing to the driver."""
    match = CODE.fullmatch(code)
    if not match:
        return Fit.NOTHING
    kind, number, suffix = match[1], int(match[2]), match[3]
    wanted = int(capability.replace(".", ""))
    same, earlier = number == wanted, number < wanted
    sibling = earlier and number // 10 == wanted // 10
    if kind == "sm":
        if same:
            return Fit.NATIVE
        return {"f": Fit.FAMILY, "": Fit.COMPATIBLE}.get(suffix, Fit.NOTHING) if sibling else Fit.NOTHING
    runs = same or {"f": sibling, "": earlier, "a": False}[suffix]
    return Fit.PTX if kind == "compute" and runs else Fit.NOTHING


def chosen(codes: Sequence[str], capability: str) -> list[bool]:
    """Of the codes of one fatbin, those from which the driver takes one; none when it can load none of them.

    SASS for exactly this capability; else SASS of its family and of an earlier minor; else every PTX that it can
    compile. All of a fatbin that holds something else, such as link-time IR: a library reads that itself.
    """
    if any(not code.startswith(("sm_", "compute_")) for code in codes):
        return [True] * len(codes)
    fits = [code_fit(code, capability) for code in codes]
    best = next((choice for choice in CHOICES if choice.intersection(fits)), frozenset[Fit]())
    return [fit in best for fit in fits]
