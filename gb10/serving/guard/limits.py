"""The limits of the guard, as data: one frozen value, read strictly from TOML."""

import tomllib
from dataclasses import dataclass, fields

from gb10.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """`recipes/guard/limits.toml` says what each one means; lengths in characters, shares from 0 to 1."""

    flood_unit: int
    flood: int
    flood_drawn: int
    flood_digits: int
    drawn: str
    flood_short: int
    flood_short_drawn: int
    flood_short_share: float
    loop_unit: int
    loop_times: int
    loop: int
    own: int
    few_window: int
    few: int
    few_short: int
    few_short_share: float
    share: float
    share_letter: float
    share_lines: int
    share_pieces: int
    share_of_pieces: float
    numeric: float
    lines_share: float
    blanks_share: float
    word_share: float
    bytes_share: float
    odd_window: int
    odd_share: float
    odd_least: int
    mixed: int
    mixed_scripts: int
    mixed_short_share: float
    zipped_window: int
    zipped_share: float
    words_window: int
    words: int
    phrases: float
    phrases_least: int
    fuzzy: int
    fuzzy_share: float
    alike: float
    alike_from: int

    @property
    def window(self) -> int:
        """Characters of a stream's end that the signs look at."""
        return max(self.loop_unit * self.loop_times + 1, self.flood_drawn, self.few_window, self.zipped_window)


def read_limits(text: str, where: str = "limits.toml") -> Limits:
    """The limits that a TOML text states. Raises UsageError for a key too many, too few, or of another type. Pure."""
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError("the guard's limits are no TOML", where=f"{where}: {error}") from error
    wanted = {field.name: field.type for field in fields(Limits)}
    odd = sorted(found.keys() ^ wanted.keys())
    odd += [name for name, type_ in wanted.items() if name in found and type(found[name]) is not type_]
    if odd:
        raise UsageError(f"unknown, missing or wrong limits: {', '.join(odd)}", where=where)
    return Limits(**found)
