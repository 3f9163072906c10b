"""Images of an engine: look one up, read a folder of it, tag it, drop it."""

import io
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from docker.errors import ImageNotFound

from gb10.engine.connection import Engine, asking
from gb10.engine.reference import split_reference
from gb10.errors import EngineError


@dataclass(frozen=True, kw_only=True, slots=True)
class ImageInfo:
    """An image as the engine has it; ``size`` in bytes, unpacked, ``diff_ids`` one per layer."""

    id: str
    size: int
    diff_ids: tuple[str, ...]
    platform: str
    """``linux/arm64``, with the variant where the image names one: ``linux/arm/v7``."""
    tags: tuple[str, ...]


def find_image(engine: Engine, reference: str) -> ImageInfo | None:
    """The image of a reference, or None when the engine has none; raises EngineError."""
    with asking(engine) as sdk:
        try:
            found = sdk.images.get(reference).attrs
        except ImageNotFound:
            return None
    layers = tuple(found["RootFS"].get("Layers") or ())
    platform = "/".join(filter(None, (found["Os"], found["Architecture"], found.get("Variant"))))
    return ImageInfo(
        id=found["Id"], size=found["Size"], diff_ids=layers, platform=platform, tags=tuple(found.get("RepoTags") or ())
    )


def require_image(engine: Engine, reference: str) -> ImageInfo:
    """The image of a reference that was just built; raises EngineError when the engine does not have it."""
    image = find_image(engine, reference)
    if image is None:
        raise EngineError(
            f"the engine took the image and does not have it: {reference}",
            hint="look at ./build.py engine status, then run the command again",
        )
    return image


def tag_image(engine: Engine, reference: str, tags: tuple[str, ...]) -> None:
    """Point more tags to an image; a tag that already does is left alone. Raises EngineError."""
    with asking(engine) as sdk:
        image = sdk.images.get(reference)
        for tag in tags:
            if tag not in image.tags:
                repository, name = split_reference(tag)
                image.tag(repository, name)


@contextmanager
def passing_tag(engine: Engine, tag: str) -> Iterator[str]:
    """A tag that goes when the context ends, and with it an image that has no other. Raises EngineError."""
    try:
        yield tag
    finally:
        with asking(engine) as sdk, suppress(ImageNotFound):
            sdk.images.remove(tag)


def copy_folder(engine: Engine, image: ImageInfo, folder: str, target: Path) -> None:
    """Copy a folder of an image into ``target``; nothing of the image runs. Raises EngineError."""
    with asking(engine) as sdk:
        container = sdk.containers.create(image.id, command="-", platform=image.platform)
        try:
            blocks, _ = container.get_archive(f"{folder}/.")
            with tarfile.open(fileobj=io.BytesIO(b"".join(blocks))) as tar:
                tar.extractall(target, filter="data")
        finally:
            container.remove()


def drop_image(engine: Engine, image_id: str) -> None:
    """Forget an image that has no tag; layers that another image has stay. Raises EngineError."""
    with asking(engine) as sdk, suppress(ImageNotFound):
        if not sdk.images.get(image_id).tags:
            sdk.images.remove(image_id)


def engine_machine(engine: Engine) -> str:
    """The machine that an engine runs on, in the kernel's spelling: ``aarch64``; raises EngineError."""
    with asking(engine) as sdk:
        return str(sdk.info()["Architecture"])
