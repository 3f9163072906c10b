"""Images of an engine: look one up, tag it, drop it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from docker.errors import ImageNotFound

from gb10.containers.connection import Engine, asking
from gb10.containers.docker_answers import HISTORY, ImageAnswer
from gb10.containers.reference import split_reference
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
    labels: Mapping[str, str] = field(default_factory=dict)
    workdir: str = "/"
    user: str = ""
    environment: tuple[str, ...] = ()
    created: str = ""
    """When it was made, in RFC 3339, as its config says."""


def find_image(engine: Engine, reference: str) -> ImageInfo | None:
    """The image of a reference, or None when the engine has none; raises EngineError."""
    with asking(engine) as sdk:
        try:
            found = ImageAnswer.model_validate(sdk.images.get(reference).attrs)
        except ImageNotFound:
            return None
    settings = found.settings
    return ImageInfo(
        id=found.id,
        size=found.size,
        diff_ids=found.root.layers,
        platform="/".join(filter(None, (found.system, found.machine, found.variant))),
        tags=found.tags,
        labels=settings.labels,
        workdir=settings.workdir or "/",
        user=settings.user,
        environment=settings.environment,
        created=found.created,
    )


def history(engine: Engine, image: ImageInfo) -> list[tuple[str, int]]:
    """The commands that made an image, the first one first, each with the bytes of its layer. Raises EngineError."""
    with asking(engine) as sdk:
        rows = HISTORY.validate_python(sdk.api.history(image.id))  # type: ignore[no-untyped-call]
    return [(row.command, row.size) for row in reversed(rows)]


def image_settings(engine: Engine, reference: str) -> dict[str, Any]:
    """What an image says beside its layers: when it was made, for which machine, how it starts. Raises EngineError."""
    with asking(engine) as sdk:
        image = sdk.images.get(reference)
        found, lines = image.attrs, HISTORY.validate_python(image.history())
    config = {f"config {name}": value for name, value in (found.get("Config") or {}).items() if value}
    told = {name: found.get(name) for name in ("Created", "Architecture", "Os", "Variant", "Author")}
    return {**told, **config, "history": [line.command for line in lines]}


def require_image(engine: Engine, reference: str) -> ImageInfo:
    """The image of a reference that was just built; raises EngineError when the engine does not have it."""
    image = find_image(engine, reference)
    if image is None:
        raise EngineError(
            f"Docker took the image and does not have it: {reference}",
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
def added_tags(engine: Engine, image: ImageInfo, tags: Sequence[str]) -> Iterator[None]:
    """Point more tags to an image; if the context fails, each tag gets its former image back. Raises EngineError.

    Tags are compared by the engine: ``docker.io/me/vllm:1`` is the tag ``me/vllm:1``.
    """
    former = {tag: find_image(engine, tag) for tag in tags}
    try:
        tag_image(engine, image.id, tuple(tags))
        yield
    except BaseException:
        with suppress(EngineError):  # the failure of the context counts
            untag(engine, [tag for tag, before in former.items() if before is None])
            for tag, before in former.items():
                if before is not None:
                    tag_image(engine, before.id, (tag,))
        raise


def tags_of(engine: Engine) -> list[str]:
    """Every tag of the engine's images. Raises EngineError."""
    with asking(engine) as sdk:
        return [tag for image in sdk.images.list() for tag in image.tags]


def drop_names(engine: Engine, part: str) -> None:
    """Remove the tags and digest names with this part of images that have other tags, too. Raises EngineError."""
    with asking(engine) as sdk:
        for image in sdk.images.list():
            digests = image.attrs.get("RepoDigests") or ()
            if any(part not in tag for tag in image.tags):
                for name in (*image.tags, *digests):
                    if part in name:
                        with suppress(ImageNotFound):  # the last digest name goes with its tag
                            sdk.images.remove(name)


def untag(engine: Engine, tags: Iterable[str]) -> None:
    """Remove tags, and an image that has no other. Raises EngineError."""
    with asking(engine) as sdk:
        for tag in tags:
            with suppress(ImageNotFound):
                sdk.images.remove(tag)


@contextmanager
def passing_tag(engine: Engine, tag: str) -> Iterator[str]:
    """A tag that goes when the context ends, and with it an image that has no other. Raises EngineError."""
    try:
        yield tag
    except BaseException:
        with suppress(EngineError):  # the failure of the context counts
            untag(engine, (tag,))
        raise
    untag(engine, (tag,))


def drop_image(engine: Engine, image_id: str) -> None:
    """Forget an image that has no tag; layers that another image has stay. Raises EngineError."""
    with asking(engine) as sdk, suppress(ImageNotFound):
        if not sdk.images.get(image_id).tags:
            sdk.images.remove(image_id)
