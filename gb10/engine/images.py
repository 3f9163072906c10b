"""Images of an engine: look one up, tag it."""

from contextlib import closing
from dataclasses import dataclass

from docker.errors import ImageNotFound

from gb10.engine.connection import Engine, client
from gb10.errors import EngineError


@dataclass(frozen=True, kw_only=True, slots=True)
class ImageInfo:
    """An image as the engine has it; ``size`` in bytes, unpacked, ``diff_ids`` one per layer."""

    id: str
    size: int
    diff_ids: tuple[str, ...]


def find_image(engine: Engine, reference: str) -> ImageInfo | None:
    """The image of a reference, or None when the engine has none."""
    with closing(client(engine)) as sdk:
        try:
            attributes = sdk.images.get(reference).attrs
        except ImageNotFound:
            return None
    layers = tuple(attributes["RootFS"].get("Layers", ()))
    return ImageInfo(id=attributes["Id"], size=attributes["Size"], diff_ids=layers)


def require_image(engine: Engine, reference: str) -> ImageInfo:
    """The image of a reference that was just built; raises EngineError when the engine does not have it."""
    image = find_image(engine, reference)
    if image is None:
        raise EngineError(f"the engine took the image and does not have it: {reference}",
                          hint="look at ./build.py engine status, then run the command again")  # fmt: skip
    return image


def tag_image(engine: Engine, reference: str, tags: tuple[str, ...]) -> None:
    """Point more tags to an image; a tag that already does is left alone."""
    with closing(client(engine)) as sdk:
        image = sdk.images.get(reference)
        for tag in tags:
            if tag not in image.tags:
                repository, _, name = tag.rpartition(":")
                image.tag(repository, name)
