"""Which options of an engine change the memory of a node, and which of those nothing here computes. Pure data."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Annotated, Final, Literal

from pydantic import Field, StringConstraints, model_validator

from gb10.core.checked import NotChecked
from gb10.core.document import parse_document
from gb10.core.fields import Model
from gb10.core.installation import ROOT

FILE: Final = "recipes/memory/options.yaml"
HARMLESS: Final = ("0", "0.0", "false", "none", "null", "auto", "off")
"""Values with which an option changes nothing."""
OFF: Final = "no"
"""The value of an option that is written as its opposite: ``--no-enable-lora``."""
OptionName = Annotated[str, StringConstraints(pattern=r"^-{1,2}[a-z0-9][a-z0-9_.-]{0,79}$")]
Text = Annotated[str, StringConstraints(min_length=10, max_length=200)]
Options = Annotated[tuple[OptionName, ...], Field(min_length=1)]
Classes = Literal["counted", "unchecked", "without"]


class Counted(Model):
    """Options that an estimate counts or tells, and where in the engine's code it stands how."""

    options: Options
    source: Text


class Uncounted(Model):
    """Options that change the memory in a way that nothing here computes, unless their value is one of ``unless``.

    ``both``: the opposite does so, too. ``only_off``: the opposite alone, as the option is what is counted.
    """

    options: Options
    why: Text
    unless: tuple[str, ...] = ()
    both: bool = False
    only_off: bool = False

    def concerns(self, value: str) -> bool:
        """Whether an option of this row with this value changes the memory."""
        if self.only_off or value == OFF:
            return (value == OFF) == (self.only_off or self.both)
        return value.lower() not in HARMLESS and value not in self.unless


class EngineOptions(Model):
    """All options of an engine, each in one of three lists."""

    release: Annotated[str, StringConstraints(min_length=1, max_length=40)]
    counted: tuple[Counted, ...]
    unchecked: tuple[Uncounted, ...]
    without: Options

    @model_validator(mode="after")
    def _each_once(self) -> "EngineOptions":
        counted = (name for one in self.counted for name in one.options)
        unchecked = (name for one in self.unchecked for name in one.options)
        twice = sorted(name for name, count in Counter((*counted, *unchecked, *self.without)).items() if count > 1)
        if twice:
            raise ValueError(f"options that stand twice: {', '.join(twice)}")
        return self

    @property
    def classes(self) -> Mapping[str, Classes]:
        """The class of each option and of each key that is listed."""
        found: dict[str, Classes] = dict.fromkeys(self.without, "without")
        found |= {name: "counted" for one in self.counted for name in one.options}
        return found | {name: "unchecked" for one in self.unchecked for name in one.options}


class OptionFile(Model):
    """``recipes/memory/options.yaml``."""

    vllm: EngineOptions
    sglang: EngineOptions


@cache
def load_options() -> Mapping[str, EngineOptions]:
    """The options of both engines; raises UsageError for a file that is not valid."""
    found = parse_document((ROOT / FILE).read_text(encoding="utf-8"), OptionFile, where=FILE, what="list of options")
    return {"vllm": found.vllm, "sglang": found.sglang}


def uncounted(engine: str, named: Sequence[tuple[str, str]]) -> Iterator[NotChecked]:
    """A row for each option that changes the memory and is not counted, or that nobody has looked at.

    ``named`` are options by the names of the engine's parser, each with its last value: empty for a switch, ``OFF``
    for its opposite.
    """
    known = load_options().get(engine)
    if known is None:
        return
    rows, classes = {name: one for one in known.unchecked for name in one.options}, known.classes
    for name, value in _with_keys(named, classes):
        base = name.partition(".")[0]
        entry = name if name in classes else base
        if entry not in classes:
            reason = f"{base[:80]}: no release of {engine} that is known has it, so what it takes is not, either"
            yield NotChecked(what="options", reason=reason)
        elif entry in rows and rows[entry].concerns(value):
            yield NotChecked(what="options", reason=f"{name[:80]}: {rows[entry].why}")


def _with_keys(named: Sequence[tuple[str, str]], classes: Mapping[str, Classes]) -> Iterator[tuple[str, str]]:
    """The options, and for one that is a JSON object its keys, where some of them are listed."""
    listed = {name.partition(".")[0] for name in classes if "." in name}
    for name, value in named:
        yield name, value
        if name in listed and value.startswith("{"):
            yield from ((f"{name}.{key}", str(one)) for key, one in _object(value).items())


def _object(text: str) -> Mapping[str, object]:
    """A JSON object; empty for a broken one, which lint names."""
    try:
        return dict(json.loads(text[:10_000]))
    except (ValueError, TypeError, RecursionError):
        return {}
