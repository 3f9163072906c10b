"""The names of tuned files that an engine's log asks for, against the files that are there: what differs. Pure.

A log says which file the engine looked for; its name holds what the engine knows of the layer (experts, width, type,
block). A file whose name differs is never read, however good its rows are.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Final, Literal

from gb10.image.moe.tuned_name import TITLES, WORDS, TunedName, parse_tuned_name

NAMED: Final = re.compile(r"(?<![\w,])(?:E|N|headdim|lora_[a-z]{1,9},K)=[^'\"\n/]{1,250}?\.json")
"""The name of a file of one of the families; SGLang writes a blank into the block."""
BEFORE: Final = re.compile(r"[^\s'\",\[\]]*/$")
"""The folders before a name."""
FOLDERS: Final = 1024
"""Characters of the folders."""
LINE: Final = 4096
"""Characters of a line that are read."""
MOST: Final = 1000
"""Names of a log."""
NEAREST: Final = 2
"""Files that are compared with a name in words."""
Outcome = Literal["used", "not there"]
ADVICE: Final = {
    "dtype": "find out why the engine knows another type for this layer: NVFP4 and MXFP4 run in other kernels, which "
    "read no such file. A file of another type has other tiles: tune one, or let the defaults stand",
    "block": "the checkpoint has other blocks than the file was tuned for: tune a file for these, or rename it and "
    "check its rows",
    "E": "the engine has another number of experts on a GPU (expert parallelism, fused shared experts): tune for it",
    "N": "the engine has another width of an expert on a GPU (tensor parallelism): tune for it",
    "name": "rename the file to the name that is asked for",
    "device": "the file is for another GPU: tune one on a GB10",
}
"""By what differs: what to do."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AskedName:
    """One name that the engine asked for. ``line``: of the log, from 1, where it is first; ``count``: how often."""

    path: str
    outcome: Outcome
    line: int
    count: int = 1

    @property
    def name(self) -> str:
        """The file's name."""
        return PurePosixPath(self.path).name


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """A name that was asked for, the files that are nearly it, and what to do. Good: a file has the very name."""

    asked: AskedName
    family: str
    there: str = ""
    """The file with this name."""
    differs: tuple[str, ...] = ()
    advice: str = ""

    @property
    def good(self) -> bool:
        """Whether the engine used a file, or one with this name is there now."""
        return self.asked.outcome == "used" or bool(self.there)


def asked_names(lines: Iterable[str]) -> tuple[AskedName, ...]:
    """Every name of a log once, in the order of their first line."""
    found: dict[str, AskedName] = {}
    for number, line in enumerate(lines, start=1):
        for path in _paths(line[:LINE]) if ".json" in line else ():
            outcome: Outcome = "not there" if "not found" in line.lower() else "used"
            if parse_tuned_name(path) is None or len(found) >= MOST:
                continue
            known = found.get(path)
            found[path] = (
                replace(known, count=known.count + 1) if known else AskedName(path=path, outcome=outcome, line=number)
            )
    return tuple(found.values())


def _paths(line: str) -> Iterator[str]:
    for name in NAMED.finditer(line):
        folders = BEFORE.search(line[max(0, name.start() - FOLDERS) : name.start()])
        yield f"{folders[0] if folders else ''}{name[0]}"


def compare_names(asked: Sequence[AskedName], paths: Sequence[str]) -> tuple[Comparison, ...]:
    """Each name against the files that are there."""
    return tuple(_compared(one, paths) for one in asked)


def _compared(asked: AskedName, paths: Sequence[str]) -> Comparison:
    wanted = parse_tuned_name(asked.path)
    same = next((path for path in paths if PurePosixPath(path).name == asked.name), "")
    if wanted is None or asked.outcome == "used" or same:
        return Comparison(asked=asked, family=TITLES[wanted.family] if wanted else "", there=same)
    ranked = sorted(
        ((_differences(wanted, meant), path) for path in paths if (meant := parse_tuned_name(path))),
        key=lambda pair: (len(pair[0]), pair[1]),
    )
    near = [(found, path) for found, path in ranked if "family" not in found][:NEAREST]
    return Comparison(
        asked=asked,
        family=TITLES[wanted.family],
        differs=tuple(f"{path}: {_sentence(found)}" for found, path in near),
        advice=next((ADVICE[key] for key in ADVICE if key in near[0][0]), ADVICE["name"]) if near else "",
    )


def _differences(wanted: TunedName, meant: TunedName) -> dict[str, tuple[object, object]]:
    """By parameter: what the file has, and what was asked for; ``family`` for a file of another kind."""
    if meant.family != wanted.family:
        return {"family": (meant.family, wanted.family)}
    device = {"device": (meant.device, wanted.device)} if meant.device != wanted.device else {}
    return device | {
        key: (meant.shape.get(key), value) for key, value in wanted.shape.items() if meant.shape.get(key) != value
    }


def _sentence(found: Mapping[str, tuple[object, object]]) -> str:
    """``type fp8_w8a8, asked for none``."""
    if not found:
        return "means the same, and is written otherwise"
    return "; ".join(
        f"{WORDS.get(key, key)} {_value(own)}, asked for {_value(asked)}" for key, (own, asked) in found.items()
    )


def _value(value: object) -> str:
    return "none" if value in (None, "", False) else str(value)
