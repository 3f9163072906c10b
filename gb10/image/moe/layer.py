"""Tuned files as a layer of an image: a directory for ``image --overlay``, each file where the engine reads it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from gb10.errors import EmptySelectionError, UsageError
from gb10.image.moe.file_verdict import FileVerdict
from gb10.image.moe.input_files import Batch
from gb10.image.moe.release_lookups import Judge
from gb10.image.moe.staged import layer_place

SITE_OF_IMAGE: Final = "usr/local/lib/python{python}/dist-packages"


def write_layer(judge: Judge, batch: Batch, verdicts: Sequence[FileVerdict], out: Path, python: str) -> tuple[str, ...]:
    """Write the good files below a new directory ``out``; returns their paths in the image.

    Raises UsageError when ``out`` exists or two files have one place, EmptySelectionError when no file is good.
    """
    good = {verdict.path for verdict in verdicts if verdict.good}
    places: dict[str, bytes] = {}
    for given in batch.files:
        if given.path in good and given.meant:
            place = f"{SITE_OF_IMAGE.format(python=python)}/{layer_place(judge, given, given.meant)}"
            if places.setdefault(place, given.content) != given.content:
                raise UsageError(f"two files of one name have different rows: {given.path}")
    if not places:
        raise EmptySelectionError("no file is good, so there is nothing for a layer")
    try:
        out.mkdir(parents=True)
    except FileExistsError as error:
        raise UsageError(f"{out} exists", hint="name a new directory") from error
    for place, content in places.items():
        (out / place).parent.mkdir(parents=True, exist_ok=True)
        (out / place).write_bytes(content)
    return tuple(places)
