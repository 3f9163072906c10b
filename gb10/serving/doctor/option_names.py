"""Options of a log that are about the part of the engine where an error was raised, by their names. Pure."""

import re
from typing import Final

from gb10.serving.doctor.error_case import Case

GIVEN: Final = re.compile(r"(?<![\w.])['\"]?(?P<name>[a-z]\w{3,60})['\"]?(?:=|: )(?P<value>['\"]?[\w./-]{1,80})")
GENERAL: Final = frozenset(
    """
    enable disable use model path size backend config type mode max num parser device level served
    """.split()  # noqa: SIM905 - one word after the other is easier to read
)
"""Words of options that say nothing of a part."""
LEAST: Final = 5
"""Characters of a word of an option that may name a file or a function."""
OFF: Final = frozenset(("None", "False", "auto", "0", "{}", "[]"))


def option_of_this_part(case: Case) -> str:
    """Options that this log sets and whose own word the innermost files or functions have; empty without one."""
    return options_named(case, " ".join(f"{one.path} {one.function}" for one in case.raised.frames[-3:]))


def options_named(case: Case, text: str) -> str:
    """Options that this log sets and whose own word a text has; empty without one."""
    words = set(re.findall(r"[a-z0-9]+", text.lower()))
    found = []
    for one in GIVEN.finditer(case.scan.start.arguments):
        parts = [word for word in one["name"].split("_") if word not in GENERAL and len(word) >= LEAST]
        option = f"--{one['name'].replace('_', '-')}"
        if parts and words.issuperset(parts) and option in case.options and one["value"].strip("'\"") not in OFF:
            found.append(f"{option} left out (now {one['value'].strip(chr(39) + chr(34))})")
    return ", ".join(dict.fromkeys(found[:2]))


def option_with(case: Case, value: str) -> str:
    """The option of the server's arguments, as the engine prints them, that has this very value; empty without one.

    A value inside of another option's JSON is of no option, and neither is one that only begins so.
    """
    arguments = case.scan.start.arguments
    for found in (
        re.finditer(rf"(\w+)['\"]?(?:=|: ?)['\"]?{re.escape(value)}(?=['\",)}}]|$)", arguments) if value else ()
    ):
        before = arguments[: found.start()]
        option = f"--{found[1].replace('_', '-')}"
        if option in case.options and before.count("{") - before.count("}") <= 1:
            return option
    return ""
