"""The tuned files that are nearly the one that an engine asked for, and what keeps it from them. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, Final

from gb10.image.moe.tuned_name import SPELLED, Meant, meant_by

MOST: Final = 2
WORDS: Final[Mapping[str, str]] = {
    "dtype": "type",
    "block": "block shape",
    "per_channel": "quantization",
    "down": "half",
}


def nearest_files(asked: str, there: Sequence[str]) -> tuple[str, ...]:
    """Sentences about the nearest of the files that are there, by their paths; none when none is near."""
    wanted, name = meant_by(asked), PurePosixPath(asked).name
    if wanted is None:
        return ()
    known = ((path, meant) for path in there if (meant := meant_by(path)) and meant.family == wanted.family)
    ranked = sorted((len(found), path, found) for path, meant in known if (found := list(_apart(wanted, meant))) != [])
    same = [path for path in there if (meant := meant_by(path)) and not list(_apart(wanted, meant))]
    written = [f"{path} means the same and is written otherwise" for path in same if PurePosixPath(path).name != name]
    elsewhere = [f"{path} has this name, in another folder" for path in same if PurePosixPath(path).name == name]
    close = [f"{path} differs in {', '.join(found)}" for count, path, found in ranked if count <= 2]
    return tuple([*elsewhere, *written, *close][:MOST])


def _apart(wanted: Meant, meant: Meant) -> Iterator[str]:
    """What two names do not have in common."""
    if meant.device != wanted.device and SPELLED in (meant.device, wanted.device):
        yield "the device"
    for field, value in wanted.shape.items():
        other: Any = meant.shape.get(field)
        if other != value:
            yield WORDS.get(field, field)
