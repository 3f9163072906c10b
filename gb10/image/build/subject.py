"""What ``rebuild`` is about: the record of a plan in an image or a file, and the image to compare with."""

from dataclasses import dataclass
from pathlib import Path

from gb10.containers.connection import Engine
from gb10.containers.image_reading import read_folders
from gb10.containers.images import ImageInfo, find_image
from gb10.core.plain_file import read_plain_file
from gb10.core.store import Store
from gb10.errors import UsageError
from gb10.image.build.inspect import no_image
from gb10.image.proof.own_record import PLAN
from gb10.image.request.replay_input import LARGEST, Record, read_record


@dataclass(frozen=True, kw_only=True, slots=True)
class Subject:
    """The record, and the image that holds it; None when a file does."""

    record: Record
    image: ImageInfo | None


def subject_of(store: Store, engine: Engine, target: str) -> Subject:
    """The subject that a command line names: a ``.json`` file or an image of the engine. Raises UsageError."""
    if target.endswith(".json"):
        text = read_plain_file(Path(target), LARGEST, "this file is to be the record of a plan")
        return Subject(record=read_record(text, target), image=None)
    image = find_image(engine, target)
    if image is None:
        raise no_image(engine, target)
    files, _ = read_folders(engine, store, image, (PLAN,))
    if PLAN not in files:
        raise UsageError(f"{target} holds no record of a plan", where=PLAN, hint="gb10 did not build it")
    return Subject(record=read_record(files[PLAN], f"{target}: {PLAN}"), image=image)
