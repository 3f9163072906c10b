"""The tuned files that a person gives: a file, or all below a folder; bounded, and no link out of it is followed."""

import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final, Literal

from gb10.core.files import read_plain_file
from gb10.errors import EmptySelectionError, UsageError
from gb10.image.moe.child.question import Question
from gb10.image.moe.release_lookups import SITE, Judge
from gb10.image.moe.tuned_name import DEVICE, Family, TunedName, parse_tuned_name

LARGEST: Final = 1 << 20
HINT: Final = "a tuned file has a few kilobytes"
MOST: Final = 2_000
ENDING: Final = ".json"
Lies = Literal["alone", "user", "image"]


@dataclass(frozen=True, slots=True)
class InputFile:
    """One file: its path below what was given, its bytes, and what its name means (None: no tuned file).

    ``place`` is the path with the folders that may belong to it: for a single file, the three above.
    """

    path: str
    place: str
    content: bytes
    meant: TunedName | None


@dataclass(frozen=True, slots=True)
class Batch:
    """Files that lie together, and all folders beside them.

    ``lies``: one file ``alone``; in the ``user``'s folder; or in an ``image``, below site-packages.
    """

    files: tuple[InputFile, ...]
    folders: tuple[str, ...] = ()
    lies: Lies = "user"


def read_input_files(path: Path) -> Batch:
    """The files at a path. Raises UsageError for what cannot be read, EmptySelectionError when there is none."""
    if path.is_file():
        place = "/".join(path.absolute().parts[-4:]).lstrip("/")
        return Batch(
            (InputFile(path.name, place, read_plain_file(path, LARGEST, HINT), parse_tuned_name(place)),), lies="alone"
        )
    if not path.is_dir():
        raise UsageError(f"there is no {path}", hint="give a tuned file, a folder of them, or an image")
    root = path.resolve()
    places, folders = _walk(root)
    if len(places) > MOST or len(folders) > MOST:
        raise UsageError(f"{path} holds more than {MOST} files", hint="give the folder that has the tuned files")
    if not places:
        raise EmptySelectionError(f"{path} holds no JSON file", hint="a tuned file's name ends in .json")
    return Batch(
        tuple(input_file(place, read_plain_file(root / place, LARGEST, HINT)) for place in sorted(places)),
        tuple(sorted(folders)),
    )


def input_file(place: str, content: bytes) -> InputFile:
    """A file at its place below a folder."""
    return InputFile(place, place, content, parse_tuned_name(place))


def _walk(root: Path) -> tuple[list[str], list[str]]:
    """The JSON files and the folders below ``root``, until there are too many; no link is followed."""
    places: list[str] = []
    folders: list[str] = []
    left = [""]
    while left and len(places) <= MOST and len(folders) <= MOST:
        above = left.pop()
        for entry in os.scandir(root / above):
            name = f"{above}{entry.name}"
            if entry.is_dir(follow_symlinks=False):
                folders.append(name)
                left.append(f"{name}/")
            elif entry.name.lower().endswith(ENDING) and entry.is_file(follow_symlinks=False):
                places.append(name)
    return places, folders


VERSIONED: Final = re.compile(r"(?:.*/)?(triton_[^/]+/[^/]+)$")


@dataclass(frozen=True, kw_only=True, slots=True)
class Sizes:
    """What a file's name does not hold: experts for each token, the model's width, the group of int4 scales."""

    topk: int = 8
    hidden: int = 2048
    group: int = 128
    most: int = 8192


def layer_place(judge: Judge, given: InputFile, meant: TunedName) -> PurePosixPath:
    """Where a layer of an image puts a file, below site-packages. Pure.

    With folders by version it is the one for this Triton, unless the file lies in one.
    """
    home, module = judge.table.families[meant.family], PurePosixPath(judge.module(meant.family) or "")
    return module.parent / home.folder / _inner(judge, given, meant)


def _inner(judge: Judge, given: InputFile, meant: TunedName) -> PurePosixPath:
    name = given.path.rpartition("/")[2]
    if meant.family == "helion":
        return PurePosixPath(meant.shape["kernel"], name)
    if not judge.table.families[meant.family].versioned:
        return PurePosixPath(name)
    found = VERSIONED.match(given.place)
    return PurePosixPath(found[1]) if found else PurePosixPath(f"triton_{judge.triton.replace('.', '_')}", name)


def root_of(judge: Judge, family: Family, work: Path, lies: Lies) -> Path:
    """The folder that the paths of a family are relative to: what a variable names, or the module's own."""
    home, module = judge.table.families[family], judge.module(family) or ""
    if home.variable and lies != "image":
        return work / "user"
    beside = (work / SITE / module).parent
    return beside if home.versioned else beside / home.folder


def _place(judge: Judge, given: InputFile, meant: TunedName, work: Path, lies: Lies) -> Path:
    home = judge.table.families[meant.family]
    if lies == "image":
        return work / SITE / given.path
    if not home.variable:
        return work / SITE / layer_place(judge, given, meant)
    if lies == "user":
        return work / "user" / given.path
    return work / "user" / (home.folder if home.versioned else "") / _inner(judge, given, meant)


def stage(judge: Judge, batch: Batch, work: Path) -> dict[str, Path]:
    """Copy the release's folders and the files into ``work``; returns where each given file lies, by its path."""
    families = {given.meant.family for given in batch.files if given.meant} & set(judge.families)
    for family in families if batch.lies != "image" else ():
        folder = PurePosixPath(judge.module(family) or "").parent / judge.table.families[family].folder
        if (judge.files / SITE / folder).is_dir():
            shutil.copytree(judge.files / SITE / folder, work / SITE / folder)
    for below in ("", *batch.folders):
        (work / (SITE if batch.lies == "image" else "user") / below).mkdir(parents=True, exist_ok=True)
    places: dict[str, Path] = {}
    for given in batch.files:
        if given.meant is None or given.meant.family not in families:
            continue
        place = _place(judge, given, given.meant, work, batch.lies)
        if place in places.values():
            raise UsageError(f"two files are named {place.name}", where=given.path, hint="an image has room for one")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(given.content)
        places[given.path] = place
    return places


def question(judge: Judge, meant: TunedName, work: Path, sizes: Sizes, lies: Lies) -> Question:
    """What the engine is asked for a file: its own look-up with the parameters that the name means."""
    home = judge.table.families[meant.family]
    shape: dict[str, Any] = dict(meant.shape)
    if meant.family == "moe" and shape["dtype"] in ("int8_w8a16", "int4_w4a16"):
        shape["block"] = None
    return Question(
        engine=judge.engine,
        family=meant.family,
        module=str(work / SITE / (judge.module(meant.family) or "")),
        user=str(work / "user") if home.variable and lies != "image" else None,
        shape={**shape, "device": DEVICE} if meant.family == "helion" else shape,
        most=sizes.most,
        topk=sizes.topk,
        hidden=sizes.hidden,
        group=sizes.group,
        triton=judge.triton,
    )
