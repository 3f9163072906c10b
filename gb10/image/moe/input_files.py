"""The tuned files that a person gives: a file, or all below a folder; bounded, and no link out of it is followed."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from gb10.core.files import read_plain_file
from gb10.errors import EmptySelectionError, UsageError
from gb10.image.moe.tuned_name import TunedName, parse_tuned_name

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
