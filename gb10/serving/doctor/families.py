"""Families of errors: each is seen by structure (exception, numbers, names), not by one wording. Pure.

A family takes a case and returns a verdict, or None when the case is not of it. Its remedy depends on what the log
and the image say.
"""

from collections.abc import Callable
from dataclasses import dataclass

from gb10.serving.doctor.diagnosis import Verdict
from gb10.serving.doctor.log_exceptions import Raised
from gb10.serving.doctor.log_scan import Scan


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """One error of a log. ``raised`` without a type is a line that is no exception."""

    raised: Raised
    chain: tuple[Raised, ...]
    scan: Scan


Family = Callable[[Case], Verdict | None]
FAMILIES: tuple[Family, ...] = ()


def verdict_of(case: Case) -> Verdict | None:
    """What the first family says that knows the error."""
    return next((verdict for family in FAMILIES if (verdict := family(case))), None)
