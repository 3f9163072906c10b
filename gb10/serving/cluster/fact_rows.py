"""Lines that a script says of a machine: KEY<TAB>FIELD…. They come from elsewhere, so they are bounded. Pure."""

import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar

T = TypeVar("T")
Row = Sequence[str]
Rows = Mapping[str, Sequence[Row]]
NONE: Final = "-"
MOST: Final = 4096
"""Lines of one key."""
LONGEST: Final = 300
"""Characters of a field."""
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@+/=-]{0,127}")


def rows_of(text: str) -> Rows:
    """The fields of each line, by its key; a line that is too long, or cannot be printed, is left out."""
    found: dict[str, list[Row]] = defaultdict(list)
    for line in text.split("\n"):
        key, *fields = line.split("\t")
        if fields and len(found[key]) < MOST and all(len(one) <= LONGEST and one.isprintable() for one in fields):
            found[key].append(fields)
    return found


def each(rows: Rows, key: str, fields: int, read: Callable[[Row], T | None]) -> tuple[T, ...]:
    """What ``read`` makes of each line of a key that has so many fields; a line that it refuses is left out."""
    values = (read(row) for row in rows.get(key, ()) if len(row) == fields)
    return tuple(value for value in values if value is not None)


def one(rows: Rows, key: str, read: Callable[[str], T | None]) -> T | None:
    """The first line of a key with one field."""
    found = each(rows, key, 1, lambda row: read(row[0]))
    return found[0] if found else None


def name_in(text: str) -> str | None:
    """A name of a device, a kernel, a word."""
    return text if NAME.fullmatch(text) else None


def count_in(text: str) -> int | None:
    """A number without a sign."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else None
