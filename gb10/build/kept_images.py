"""Images of layers that an engine keeps for later builds, each with a note of its layers in the store."""

import re
from contextlib import suppress

from gb10.build.built import engine_room
from gb10.engine.connection import Engine
from gb10.engine.images import ImageInfo, find_image, tag_image, tags_of, untag
from gb10.host.store import Store, note_use
from gb10.workshop import Workshop

LAYERS = re.compile(r".+:layers-[0-9a-f]{12}")


def noted_image(shop: Workshop, engine: Engine, tag: str) -> ImageInfo | None:
    """The image of a tag, if it is the very image that was noted."""
    image, note = find_image(engine, tag), shop.store.entry(engine_room(engine), tag.rpartition(":")[2])
    with suppress(FileNotFoundError):  # there is none, or cache gc removes it just now
        if image and note.read_text(encoding="utf-8") == "\n".join(image.diff_ids):
            note_use(note)
            return image
    return None


def note_image(shop: Workshop, engine: Engine, tag: str, image: ImageInfo) -> None:
    """Note the layers of an image and give it the tag."""
    shop.store.write_text(shop.store.entry(engine_room(engine), tag.rpartition(":")[2]), "\n".join(image.diff_ids))
    tag_image(engine, image.id, (tag,))


def drop_unknown(store: Store, engine: Engine) -> None:
    """Remove the images of layers whose note is gone: nothing would use them. Raises EngineError."""
    with store.tried("image") as free:
        for tag in tags_of(engine) if free else ():
            if LAYERS.fullmatch(tag) and not store.entry(engine_room(engine), tag.rpartition(":")[2]).exists():
                untag(engine, [tag])
