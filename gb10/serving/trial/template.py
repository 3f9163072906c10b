"""A command with placeholders becomes the words of a process. Pure."""

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from gb10.errors import UsageError

PLACE: Final = re.compile(r"\{([a-z_][a-z0-9_]*)\}")
"""Other braces are the command's own: JSON, say."""
OWN: Final = ("port", "args")
"""Placeholders that gb10 fills: a free port, and more arguments."""
ENV: Final = "env."


@dataclass(frozen=True, slots=True, kw_only=True)
class Filled:
    """What runs."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]


def fill(template: str, parameters: Mapping[str, str], port: int) -> Filled:
    """The template with its parameters. A value may have several words; ``env.NAME`` sets a variable.

    Raises UsageError for a placeholder without a value, and for a parameter that nothing uses.
    """
    values = {"port": str(port), "args": "", **parameters}
    wanted = set(PLACE.findall(template))
    missing = sorted(wanted - values.keys())
    unused = sorted(name for name in parameters if name not in wanted and not name.startswith(ENV))
    if missing:
        hint = f"valid: {', '.join(sorted(values))}"
        raise UsageError(f"the command has {{{missing[0]}}}, which has no value", where=template, hint=hint)
    if unused:
        hint = f"write {{{unused[0]}}} where it belongs"
        raise UsageError(f"the command has no place for {unused[0]!r}", where=template, hint=hint)
    try:
        argv = tuple(shlex.split(PLACE.sub(lambda found: values[found[1]], template)))
    except ValueError as error:
        raise UsageError("the command is not complete", where=f"{template}: {error}") from error
    if not argv:
        raise UsageError("the command is empty", hint="--launch 'vllm serve MODEL --port {port}'")
    environment = {name.removeprefix(ENV): value for name, value in parameters.items() if name.startswith(ENV)}
    return Filled(argv=argv, environment=environment)
