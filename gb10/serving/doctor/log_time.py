"""Times of lines of a log: engines print neither year nor zone. Pure."""

import re
from dataclasses import dataclass
from typing import Final

CLOCK: Final = r"(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d(?:[.,]\d{1,9})?)"
NUMBERS: Final = re.compile(rf"(?<!\d)(?:\d{{4}}-)?(?P<month>\d\d)-(?P<day>\d\d)[T ]{CLOCK}")
MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
NAMED: Final = re.compile(rf"\b(?P<month>{'|'.join(MONTHS)}) {{1,2}}(?P<day>\d{{1,2}}) {CLOCK}")
HEAD: Final = 160
"""A stamp stands within so many characters of a line."""
NEAR: Final = 60.0
BEFORE: Final = 1 << 16
"""Bytes before a line in which a stamp is sought."""


@dataclass(frozen=True, order=True, slots=True)
class Moment:
    """A time as a log tells it, without year and zone: engines print neither."""

    month: int
    day: int
    clock: float
    """Seconds since midnight."""

    def __str__(self) -> str:
        whole = int(self.clock)
        return f"{self.month:02}-{self.day:02} {whole // 3600:02}:{whole // 60 % 60:02}:{whole % 60:02}"


def moment_of(text: str) -> Moment | None:
    """The stamp of a line; None for a line without one."""
    found = NUMBERS.search(text[:HEAD]) or NAMED.search(text[:HEAD])
    if found is None:
        return None
    month = MONTHS.index(found["month"]) + 1 if found["month"] in MONTHS else int(found["month"])
    hour, minute, second = int(found["hour"]), int(found["minute"]), float(found["second"].replace(",", "."))
    possible = 1 <= month <= 12 and 1 <= int(found["day"]) <= 31 and hour < 24 and minute < 60 and second < 61
    return Moment(month, int(found["day"]), hour * 3600 + minute * 60 + second) if possible else None


def last_moment(before: bytes) -> Moment | None:
    """The stamp of the last line that has one."""
    for line in reversed(before[-BEFORE:].decode("utf-8", "replace").split("\n")):
        found = moment_of(line)
        if found:
            return found
    return None


def near(one: Moment | None, other: Moment | None) -> bool:
    """Whether two times are at most a minute apart; unknown ones are."""
    if one is None or other is None:
        return True
    return (one.month, one.day) == (other.month, other.day) and abs(one.clock - other.clock) <= NEAR
