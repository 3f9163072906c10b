"""Images of layers that an engine keeps for later builds, each with a note of its layers in the store."""

import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from gb10.containers.buildx.build import BuildRequest
from gb10.containers.connection import Engine
from gb10.containers.images import ImageInfo, find_image, require_image, tag_image, tags_of, untag
from gb10.core.digest import digest
from gb10.core.store import Store, note_use
from gb10.image.build.built import engine_room
from gb10.image.build.stage import run_build
from gb10.image.context import Context
from gb10.image.plan.values import Step

LAYERS = re.compile(r"gb10(\.invalid)?/.+:layers-[0-9a-f]{12}")
HOST = "gb10.invalid/"
"""No registry can have it: an image that somebody removes during a build is an error, and never another one's image."""


def layers_tag(name: str, keys: Iterable[str]) -> str:
    """The tag of an image of layers: the keys of what it holds."""
    return f"{HOST}{name}:layers-{digest(list(keys))[:12]}"


def noted_image(ctx: Context, engine: Engine, tag: str) -> ImageInfo | None:
    """The image of a tag, if it is the very image that was noted."""
    image, note = find_image(engine, tag), _note(ctx.store, engine_room(engine), tag)
    with suppress(FileNotFoundError):  # there is none, or cache gc removes it just now
        if image and note.read_text(encoding="utf-8") == "\n".join(image.diff_ids):
            note_use(note)
            return image
    return None


def note_image(ctx: Context, engine: Engine, tag: str, image: ImageInfo) -> None:
    """Note the layers of an image and give it the tag."""
    ctx.store.write_text(_note(ctx.store, engine_room(engine), tag), "\n".join(image.diff_ids))
    tag_image(engine, image.id, (tag,))


def made_image(ctx: Context, engine: Engine, request: BuildRequest, step: Step) -> ImageInfo:
    """Build an image without a tag; the log is the step's. Raises BuildError, EngineError."""
    result = run_build(ctx, engine, request, step, lambda event: None)
    return require_image(engine, result.config or "")


def drop_unknown(store: Store, engine: Engine) -> None:
    """Remove the images of layers that nothing would use: without a note, or tagged as releases before did.

    Raises EngineError.
    """
    with store.tried("image") as free:
        if free:
            room = engine_room(engine)
            layers = [tag for tag in tags_of(engine) if LAYERS.fullmatch(tag)]
            known = [tag for tag in layers if tag.startswith(HOST) and _note(store, room, tag).exists()]
            untag(engine, sorted({*layers} - {*known}))


def _note(store: Store, room: str, tag: str) -> Path:
    return store.entry(room, tag.rpartition(":")[2])
