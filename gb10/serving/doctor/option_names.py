"""Options of a log that are about the part of the engine where an error was raised, by their names. Pure."""

import re
from typing import Final

from gb10.serving.doctor.error_case import Case

GIVEN: Final = re.compile(r"(?<![\w.])['\"]?(?P<name>[a-z]\w{3,60})['\"]?(?:=|: )(?P<value>['\"]?[\w./-]{1,80})")
GENERAL: Final = frozenset(
    ("enable", "disable", "use", "model", "path", "size", "backend", "config", "config", "type", "mode", "max", "num")
)
"""Words of options that say nothing of a part."""
LEAST: Final = 5
"""Characters of a word of an option that may name a file or a function."""
OFF: Final = frozenset(("None", "False", "auto", "0", "{}", "[]"))


def option_of_this_part(case: Case) -> str:
    """Options that this log sets and whose own word the innermost files or functions have; empty without one."""
    frames = case.raised.frames[-3:]
    words = set(re.findall(r"[a-z0-9]+", " ".join(f"{one.path} {one.function}" for one in frames).lower()))
    found = []
    for one in GIVEN.finditer(case.scan.start.arguments):
        parts = [word for word in one["name"].split("_") if word not in GENERAL and len(word) >= LEAST]
        option = f"--{one['name'].replace('_', '-')}"
        if parts and words.issuperset(parts) and option in case.options and one["value"].strip("'\"") not in OFF:
            found.append(f"{option} left out (now {one['value'].strip(chr(39) + chr(34))})")
    return ", ".join(dict.fromkeys(found[:2]))
