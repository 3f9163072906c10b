"""The rules of the checkout: those of ``doctor``, and the slimming rules that explain a missing library."""

import json
import lzma
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cache
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import Final

from gb10.core.document import parse_document
from gb10.core.installation import ROOT
from gb10.core.log_words import is_remark
from gb10.image.recipe.slim_rules import RULES as SLIM
from gb10.image.recipe.slim_rules import Rule, read_rules
from gb10.serving.doctor.doctor_rule import DoctorRule, RuleFile
from gb10.serving.doctor.engine_releases import Releases, read_releases
from gb10.serving.doctor.message_index import MessageIndex, read_index
from gb10.serving.doctor.stages import StageFile
from gb10.serving.doctor.tool_errors import ToolError, ToolErrors, tool_verdict

FOLDER: Final = "recipes/doctor"
FLAGS: Final = "recipes/flags"
MESSAGES: Final = "recipes/messages"


@cache
def load_doctor_rules(folder: Path = ROOT / FOLDER) -> tuple[DoctorRule, ...]:
    """The rules; raises UsageError for a file that is not valid."""
    texts = {path.name: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.yaml"))}
    files = (
        parse_document(text, RuleFile, where=f"{FOLDER}/{name}", what="list of rules") for name, text in texts.items()
    )
    return tuple(chain.from_iterable(file.rules for file in files))


@cache
def load_tool_errors() -> tuple[ToolError, ...]:
    """The errors of tools; raises UsageError for a file that is not valid."""
    folder = ROOT / FOLDER / "tools"
    texts = {path.name: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.yaml"))}
    files = (
        parse_document(text, ToolErrors, where=f"{FOLDER}/tools/{name}", what="list of errors of tools")
        for name, text in texts.items()
    )
    return tuple(chain.from_iterable(file.errors for file in files))


def is_tool_error(text: str) -> bool:
    """Whether a line is an error of a tool; one that its program calls a warning or less is none of the late kinds."""
    lates = (False,) if is_remark(text) else (False, True)
    return any(tool_verdict(load_tool_errors(), text, late=late) for late in lates)


@cache
def load_stages() -> StageFile:
    """The stages of a start; raises ValueError for a file that is not valid."""
    return StageFile.model_validate(
        tomllib.loads((ROOT / FOLDER / "stages.toml").read_text(encoding="utf-8")), strict=False
    )


@cache
def load_releases() -> Releases:
    """What is known of the engines' releases."""
    return read_releases(json.loads((ROOT / FOLDER / "releases.json").read_text(encoding="utf-8")))


SHORTEST, FEW = 6, 3
"""Characters of a value that may name its option, and options that it may be of."""


@cache
def load_options(engine: str = "") -> frozenset[str]:
    """The options of the engines' releases that recipes/flags has, or of one engine's."""
    found: set[str] = set()
    for path in sorted((ROOT / FLAGS).glob(f"{engine}*.json")):
        found.update(json.loads(path.read_text(encoding="utf-8"))["options"])
    return frozenset(found)


@cache
def load_choices() -> Mapping[str, frozenset[str]]:
    """By a value with a name of its own (``no_buffer``): the options of the engines that take it."""
    found: dict[str, set[str]] = {}
    for path in sorted((ROOT / FLAGS).glob("*.json")):
        for option, values in json.loads(path.read_text(encoding="utf-8"))["options"].items():
            for value in values:
                if len(value) >= SHORTEST and "_" in value:
                    found.setdefault(value, set()).add(option)
    return {value: frozenset(options) for value, options in found.items() if len(options) <= FEW}


@cache
def load_settings() -> frozenset[str]:
    """The same options, and the variables that these releases read."""
    found = set(load_options())
    for path in sorted((ROOT / FLAGS).glob("*.json")):
        found.update(json.loads(path.read_text(encoding="utf-8"))["environment"])
    return frozenset(found)


@cache
def load_messages() -> tuple[MessageIndex, ...]:
    """The statements of the engines' releases; they take a second to load."""
    paths = sorted((ROOT / MESSAGES).glob("*.json.xz"))
    return tuple(read_index(json.loads(lzma.decompress(path.read_bytes()))) for path in paths)


@cache
def load_slim_rules() -> tuple[Rule, ...]:
    """What images leave out."""
    return read_rules((ROOT / SLIM).read_text(encoding="utf-8")).rules


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
