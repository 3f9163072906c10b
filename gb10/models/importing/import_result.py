"""A recipe that was read from another form, and how it is written as YAML. Pure."""

import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import yaml

from gb10.containers.reference import registry_of
from gb10.errors import UsageError

DEFAULTS: Final = {"host": "0.0.0.0", "port": 8000}  # noqa: S104 - what servers in containers listen on
PLAIN: Final = re.compile(r"[A-Za-z0-9_./=:@,+%-]+")


@dataclass(frozen=True, kw_only=True, slots=True)
class ImportChoices:
    """What the user chooses: a variant, a number of nodes, features by name.

    ``image`` and ``release`` count where the file names none; ``image`` is the user's, or ours of the engine.
    """

    variant: str | None = None
    nodes: int | None = None
    features: tuple[str, ...] = ()
    image: str = ""
    release: str | None = None
    beside: Callable[[], str] = str
    """Gives the text of the ``.env`` in the folder of a compose file."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ImportResult:
    """A recipe's keys and values, and the sentences about what was left out or chosen."""

    values: Mapping[str, object]
    said: tuple[str, ...] = field(default=())


class _Writer(yaml.SafeDumper):
    """Texts of several lines stand as blocks."""

    def ignore_aliases(self, _: object) -> bool:
        return True


def _as_block(writer: yaml.SafeDumper, text: str) -> yaml.Node:
    return writer.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Writer.add_representer(str, _as_block)


def recipe_text(imported: ImportResult, origin: str) -> str:
    """The recipe as a file; ``origin`` says where it comes from."""
    text = yaml.dump(dict(imported.values), Dumper=_Writer, sort_keys=False, allow_unicode=True, width=110)
    return f"# Imported from {origin}. Look at `recipe lint` before you use it.\n{text}"


def command_of(start: str, words: Iterable[str]) -> str:
    """A command: each option with its values on a line of its own; placeholders stay bare."""
    lines = [start]
    for word in words:
        quoted = word if PLAIN.fullmatch(word) or re.fullmatch(r"\{[a-z_]+\}", word) else shlex.quote(word)
        if word.startswith("-") or len(lines) == 1:
            lines.append(f"  {quoted}")
        else:
            lines[-1] = f"{lines[-1]} {quoted}"
    return " \\\n".join(lines) + "\n"


def pullable(image: str) -> str:
    """An image of others as every node pulls it: `run` pulls no name without a registry, as ours have none."""
    if registry_of(image) or "/" not in image:
        return image
    return f"docker.io/{image}"


def texts(value: object) -> list[str]:
    """A list's entries as texts; an empty list for anything else."""
    return [str(one) for one in value] if isinstance(value, list | tuple) else []


def number(value: object) -> float:
    """A number of 0 or more; 0 for anything else."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and value > 0 else 0


def import_error(file: str, reason: str, hint: str) -> UsageError:
    """The error of a file that becomes no recipe."""
    return UsageError(f"{file} becomes no recipe: {reason}", hint=hint)
