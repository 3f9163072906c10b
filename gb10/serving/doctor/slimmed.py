"""Libraries that slimming rules left out of an image, by the name that a loader's error has. Pure."""

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import PurePosixPath

from gb10.image.recipe.slim_rules import Rule


def left_out(library: str, applied: Iterable[str], rules: Sequence[Rule]) -> str | None:
    """``NAME, rule RULE``, when a rule that was applied to the image left the library out; else None."""
    names = set(applied)
    for rule in rules:
        patterns = [pattern for files in rule.files.values() for pattern in files]
        if rule.action == "drop" and rule.name in names and any(_names(pattern, library) for pattern in patterns):
            return f"{library}, rule {rule.name}"
    return None


def _names(pattern: str, library: str) -> bool:
    last = PurePosixPath(pattern).name
    return last != "**" and fnmatchcase(library, last)
