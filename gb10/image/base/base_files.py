"""Single files of an image of others: from the engine that has the image, else from the layers that hold them."""

from collections.abc import Collection, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from gb10.containers.connection import Engine
from gb10.containers.images import find_image, read_folders
from gb10.containers.reach import connect_if_running
from gb10.core.files import digest as key_of
from gb10.core.reporter import Task
from gb10.core.store import note_use
from gb10.errors import PublishError
from gb10.image.base.base_reading import ROOM, Source, layers_of, source_of
from gb10.image.base.file_tree import FileTree
from gb10.image.base.layer_index import MOST_UNPACKED, LayerIndex
from gb10.image.base.layer_stream import LayerStream, damaged, inside, members
from gb10.image.context import Context
from gb10.image.recipe.base_image import BaseImage

LARGEST: Final = 16 << 20
"""Bytes of a file that is read."""
HOPS: Final = 8
"""Hard links to hard links."""


def read_base_files(ctx: Context, base: BaseImage, paths: Sequence[str]) -> dict[str, bytes]:
    """The regular files of an image among these absolute paths. Nothing of the image runs.

    The engine that has the image is asked first. Else each layer that holds one of them is read once, whole: only then
    its bytes are known to be its own. Raises EngineError, PublishError, VerifyError.
    """
    engine = connect_if_running(ctx.env, ctx.store)
    image = find_image(engine, base.reference) if engine else None
    if engine and image:
        found, _ = read_folders(engine, ctx.store, image, paths)
        return {path: found[path] for path in paths if path in found}
    return _of_layers(ctx, engine, base, paths)


def _of_layers(ctx: Context, engine: Engine | None, base: BaseImage, paths: Sequence[str]) -> dict[str, bytes]:
    source = source_of(ctx, engine, base.reference, base.platform)
    layers = layers_of(ctx, source)
    tree = FileTree(layers)
    real = {path: end for path in paths if (end := tree.real(path))}
    places = {path: place for path, end in real.items() if (place := where(layers, inside(end)))}
    found: dict[str, bytes] = {}
    for number in sorted({number for number, _ in places.values()}):
        wanted = {name for place, name in places.values() if place == number}
        read = _kept(ctx, layers[number], wanted)
        if read is None:
            read = _read(ctx, source, layers[number], wanted)
        found |= {path: read[name] for path, (place, name) in places.items() if place == number and name in read}
    return found


def where(layers: Sequence[LayerIndex], name: str) -> tuple[int, str] | None:
    """The highest layer that holds a file, and its name there: that of what a hard link leads to. Pure."""
    for _ in range(HOPS):
        number, kind, target = _entry(layers, name)
        if kind in ("f", "x"):
            return number, name
        if kind != "h":
            return None
        layers, name = layers[: number + 1], inside(target)
    return None


def _entry(layers: Sequence[LayerIndex], name: str) -> tuple[int, str, str]:
    for number in range(len(layers) - 1, -1, -1):
        for kind, path, target, _ in layers[number].entries():
            if path == name and kind not in ("w", "o"):
                return number, kind, target
    return -1, "", ""


def _place(ctx: Context, layer: LayerIndex, name: str) -> Path:
    return ctx.store.entry(ROOM, key_of(["file", layer.digest, name]))


def _kept(ctx: Context, layer: LayerIndex, wanted: Collection[str]) -> dict[str, bytes] | None:
    """The files that were read before; None unless all of them were."""
    files = {name: _place(ctx, layer, name) / "file" for name in wanted}
    if not all(path.is_file() for path in files.values()):
        return None
    for path in files.values():
        note_use(path)
    return {name: path.read_bytes() for name, path in files.items()}


def _read(ctx: Context, source: Source, layer: LayerIndex, wanted: Collection[str]) -> dict[str, bytes]:
    """The files of a layer, which is read to its end and checked, then kept."""
    with ctx.reporter.task(f"read {len(wanted)} files of a layer", total=layer.size) as task:
        stream = LayerStream(_counted(ctx, source, layer, task), MOST_UNPACKED)
        found: dict[str, bytes] = {}
        for member in members(stream):
            if member.path not in wanted or member.kind not in ("f", "x"):
                continue
            if member.size > LARGEST:
                raise damaged(f"/{ascii(member.path)[1:-1]} has {member.size:,} bytes: no diff is applied to it")
            found[member.path] = stream.read(member.size)
        stream.drain()
    if stream.digest != layer.digest:
        raise PublishError(
            f"the registry sent other bytes than the layer {layer.digest}",
            where=source.reference,
            hint="run the command again; if it stays so, the registry is damaged",
        )
    for name, content in found.items():
        place = _place(ctx, layer, name)
        with ctx.store.locked(f"base-{place.name}"):
            ctx.store.replace(place, partial(_write, content))
    return found


def _write(content: bytes, folder: Path) -> None:
    (folder / "file").write_bytes(content)


def _counted(ctx: Context, source: Source, layer: LayerIndex, task: Task) -> Iterator[bytes]:
    for block in source.repository.stream(layer.digest, layer.size):
        ctx.stop.check()
        ctx.reporter.advance(task, len(block))
        yield block
