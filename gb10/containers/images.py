"""Images of an engine: look one up, tag it, drop it."""

import io
import tarfile
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

import docker
from docker.errors import ImageNotFound, NotFound
from docker.models.containers import Container

from gb10.containers.connection import Engine, asking
from gb10.containers.docker_answers import HISTORY, ImageAnswer
from gb10.containers.reference import split_reference
from gb10.core.store import Store
from gb10.errors import EngineError, UsageError


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
    fields = {name: found.get(name) for name in ("Created", "Architecture", "Os", "Variant", "Author")}
    return {**fields, **config, "history": [line.command for line in lines]}


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


MOST = 256 << 20
"""Bytes that are read of a folder of an image."""
COPYING = "copying"
"""The lock of the one run that copies files out of an image."""
OWNER = "io.github.gb10.store"
"""The label of a container that only holds an image open: the store of the run that made it."""


def copy_files(engine: Engine, store: Store, image: ImageInfo, folder: str, target: Path) -> None:
    """Copy the regular files of a folder of an image into ``target``, no folder within it; nothing of the image runs.

    Raises EngineError, also when the folder holds more than MOST bytes.
    """
    with asking(engine) as sdk, open_image(sdk, store, image) as container:
        blocks, _ = container.get_archive(f"{folder}/.")
        packed = _bounded(blocks, f"{image.id}: {folder}")
    with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
        for member in tar:
            name = PurePosixPath(member.name)
            content = tar.extractfile(member) if member.isreg() and len(name.parts) == 1 else None
            if content is not None:
                (target / name.name).write_bytes(content.read())


def read_folders(
    engine: Engine, store: Store, image: ImageInfo, folders: Iterable[str]
) -> tuple[dict[str, bytes], tuple[str, ...]]:
    """The regular files in folders of an image, or a file that is named, and the folders: by their paths in the image.

    What the image does not have is left out; nothing of it runs. Raises EngineError, also above MOST bytes.
    """
    files: dict[str, bytes] = {}
    below: list[str] = []
    with asking(engine) as sdk, open_image(sdk, store, image) as container:
        for folder in folders:
            with suppress(NotFound):
                blocks, _ = container.get_archive(folder)
                packed = _bounded(blocks, f"{image.id}: {folder}")
                above = PurePosixPath(folder).parent
                with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
                    for member in tar:
                        path = str(above / member.name)
                        content = tar.extractfile(member) if member.isreg() else None
                        if content is not None:
                            files[path] = content.read()
                        elif member.isdir():
                            below.append(path)
    return files, tuple(below)


@contextmanager
def open_image(sdk: docker.DockerClient, store: Store, image: ImageInfo) -> Iterator[Container]:
    """A container of an image that never runs, removed afterwards; first those that killed runs of this store left.

    Its lock ends with its run, so whoever holds the lock knows that no labelled container is in use.
    """
    with store.locked(COPYING):
        label = {OWNER: store_mark(store)}
        for left in sdk.containers.list(all=True, filters={"label": f"{OWNER}={label[OWNER]}"}, ignore_removed=True):
            with suppress(NotFound):
                left.remove()
        container = sdk.containers.create(image.id, command="-", platform=image.platform, labels=label)
        try:
            yield container
        finally:
            container.remove()


def store_mark(store: Store) -> str:
    """A store's own random name: several stores may use one engine. Hold a lock."""
    path = store.entry("engine", "mark")
    if not path.exists():
        store.write_text(path, uuid.uuid4().hex)
    return path.read_text(encoding="utf-8")


def _bounded(blocks: Iterable[bytes], where: str) -> bytes:
    packed = bytearray()
    for block in blocks:
        packed += block
        if len(packed) > MOST:
            raise EngineError(f"a folder of the image is larger than {MOST >> 20} MiB", where=where)
    return bytes(packed)


def refuse_triggers(engine: Engine, image: ImageInfo) -> None:
    """Raise UsageError for an image whose ONBUILD instructions a build stage above it would run; or EngineError."""
    if image_settings(engine, image.id).get("config OnBuild"):
        raise UsageError(
            f"{image.id} has ONBUILD instructions: reading it would run them",
            hint="look at them by docker inspect; an image of gb10 has none",
        )
