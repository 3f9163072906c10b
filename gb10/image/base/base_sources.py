"""FlashInfer's sources as an image of others holds them, read out of its layers and packed, to compile kernels."""

import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Final

from packaging.version import InvalidVersion, Version

from gb10.containers.reach import connect_if_running
from gb10.core.fetch import accept, intact, stored
from gb10.core.files import Artifact
from gb10.core.files import digest as key_of
from gb10.core.store import note_use
from gb10.errors import UsageError
from gb10.image.base.base_reading import folders_of
from gb10.image.base.kept_layers import ROOM
from gb10.image.context import Context
from gb10.image.recipe.base_image import BaseImage, Installed
from gb10.image.recipe.locked import LockedPart
from gb10.image.recipe.on_image import FLASHINFER

FORMAT: Final = 1
"""Of the archive: another one has other bytes for the same files."""
FOLDERS: Final = ("csrc", "include", "3rdparty/cutlass", "3rdparty/cccl", "3rdparty/spdlog")
"""What FlashInfer compiles, by its place in a source archive; an installed one has it below flashinfer/data."""
PACKAGE: Final = "flashinfer"
MOST_BYTES: Final = 1 << 29
PACKED: Final = "packed.json"
NONE: Final = "build on an image with FlashInfer, or leave out --kernels"


def locked_flashinfer(ctx: Context, base: BaseImage) -> LockedPart:
    """FlashInfer's sources of an image, locked; the layers that hold them are read once.

    Raises UsageError for an image without, and as ``files_of``.
    """
    one = installed_flashinfer(base)
    place = ctx.store.entry(ROOM, key_of(["flashinfer", FORMAT, base.digest]))
    if not (place / PACKED).is_file():
        found = pack(ctx, base, one)
        text = found.model_dump_json()
        ctx.store.replace(place, lambda folder: _note(folder, text))
    note_use(place / PACKED)
    return LockedPart.model_validate(json.loads((place / PACKED).read_text(encoding="utf-8")))


def ready_sources(ctx: Context, base: BaseImage, locked: LockedPart) -> None:
    """Have the archive in the store, packed anew where it is missing. Raises UsageError when it is another one now."""
    wanted = Artifact(locked.filename, locked.sha256, locked.size)
    if intact(ctx.store, wanted, lambda path: ctx.reporter.say(f"{path.name} is damaged in the store: made again")):
        return
    found = pack(ctx, base, installed_flashinfer(base))
    if found.sha256 != locked.sha256:
        raise UsageError(
            f"{base.reference} gives other sources of FlashInfer than the lock names",
            where=f"locked {locked.sha256}\nread   {found.sha256}",
            hint="lock it again: ./build.py lock --engine FILE",
        )


def installed_flashinfer(base: BaseImage) -> Installed:
    """The FlashInfer of an image. Raises UsageError for an image without one that has a release."""
    one = base.installed.get(FLASHINFER)
    if one is None:
        raise UsageError(f"{base.reference} holds no FlashInfer: no kernels are compiled for it", hint=NONE)
    try:
        Version(one.version)
    except InvalidVersion:
        raise UsageError(
            f"{base.reference} holds a FlashInfer of no release: {ascii(one.version)[:100]}", hint=NONE
        ) from None
    return one


def pack(ctx: Context, base: BaseImage, one: Installed) -> LockedPart:
    """Read the sources and keep their archive in the store: the same files give the same bytes."""
    engine = connect_if_running(ctx.env, ctx.store)
    folders = {PACKAGE: (f"{one.folder}/{PACKAGE}",)} | {
        name: (f"{one.folder}/{PACKAGE}/data/{name.rpartition('/')[2]}", f"{one.folder}/{name}") for name in FOLDERS
    }
    with ctx.reporter.task(f"read FlashInfer {one.version} of {base.reference}"):
        files = folders_of(ctx, base, folders, wanted=_wanted, most=MOST_BYTES, engine=engine)
    absent = [name for name in (f"{PACKAGE}/aot.py", "csrc", "include") if not any(p.startswith(name) for p in files)]
    if absent:
        raise UsageError(
            f"the FlashInfer of {base.reference} has no sources: {', '.join(absent)}",
            where=one.folder,
            hint=NONE,
        )
    content = packed(f"flashinfer_python-{Version(one.version)}", files)
    sha256 = hashlib.sha256(content).hexdigest()
    filename = f"flashinfer_python-{Version(one.version)}.tar"
    artifact = Artifact(filename, sha256, len(content))
    with ctx.store.folder("packed") as folder:
        (folder / filename).write_bytes(content)
        accept(folder / filename, artifact, stored(ctx.store, artifact))
    return LockedPart(
        name=FLASHINFER, version=one.version, filename=filename, sha256=sha256, size=len(content), base=base.digest
    )


def _wanted(path: str) -> bool:
    """Python files of the package, and all that is compiled."""
    return not path.startswith(f"{PACKAGE}/") or (path.endswith(".py") and not path.startswith(f"{PACKAGE}/data/"))


def packed(top: str, files: dict[str, bytes]) -> bytes:
    """A plain tar below one folder, in name order, without times and owners. Pure."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, content in sorted(files.items()):
            info = tarfile.TarInfo(f"{top}/{name}")
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return written.getvalue()


def _note(folder: Path, text: str) -> None:
    (folder / PACKED).write_text(text, encoding="utf-8")
