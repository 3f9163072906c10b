"""Files of an engine's images: read or copied out, while nothing of the image runs."""

import io
import tarfile
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath

import docker
from docker.errors import NotFound
from docker.models.containers import Container

from gb10.containers.connection import Engine, asking
from gb10.containers.images import ImageInfo, image_settings
from gb10.core.store import Store
from gb10.errors import EngineError, UsageError

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
    with asking(engine) as sdk, opened(sdk, store, image) as container:
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
    with asking(engine) as sdk, opened(sdk, store, image) as container:
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
def opened(sdk: docker.DockerClient, store: Store, image: ImageInfo) -> Iterator[Container]:
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
