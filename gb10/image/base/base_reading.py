"""Reading an image of others: its manifest, each layer once, then what its Python finds. Nothing is unpacked or run."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from gb10.containers.connection import Engine
from gb10.containers.images import ImageInfo, find_image, image_settings, refuse_triggers
from gb10.containers.reference import split_digest, split_reference
from gb10.containers.registry.access import login_for
from gb10.containers.registry.documents import (
    SentBlob,
    SentConfig,
    SentIndex,
    SentManifest,
    find_manifest,
    for_platform,
    other_platform,
    parse_sent,
)
from gb10.containers.registry.repository import Repository, open_repository
from gb10.containers.registry.saving import saved
from gb10.core.concurrency import map_parallel
from gb10.errors import PublishError, UsageError, VerifyError
from gb10.image.base.described import Wanted, describe
from gb10.image.base.file_tree import MOST_FILES, File, FileTree
from gb10.image.base.kept_layers import cached_document, cached_layer, keep_document, keep_layer
from gb10.image.base.layer_index import MOST_NAMES, MOST_UNPACKED, LayerIndex, contents_of, read_layer
from gb10.image.base.layer_stream import LayerStream, members
from gb10.image.context import Context
from gb10.image.recipe.base_image import BaseImage, BaseLayer

MOST_BYTES: Final = 256 << 20
"""Of all files that are read at once."""
SAVED: Final = re.compile(r"blobs/sha256/[0-9a-f]{64}|[0-9a-f]{64}/layer\.tar")
"""What may be a layer in what an engine saves."""
AT_ONCE: Final = 2
"""Layers that are read at the same time."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """An image before its layers are read: its name by the digest of the manifest, its layers, its config."""

    repository: Callable[[], Repository]
    """Opens the repository at the first call: logins, and whether the registry needs TLS, are asked for then."""
    reference: str
    layers: tuple[SentBlob, ...]
    config: SentConfig


def inspect_base(
    ctx: Context, reference: str, platform: str, *, engine: Engine | None = None, python: str = "", serving: str = ""
) -> BaseImage:
    """What an image in a registry holds for who builds on it.

    A tag is resolved once: the result's reference has the digest. Each layer is read once, and what matters of it is
    kept in the store. An image whose layers are known fetches none; one that was read before and is named by its digest
    asks nobody.

    engine: the container engine, which knows what registries need no TLS. python: the path of the Python that is meant,
    for an image with several; serving: ``vllm`` or ``sglang``, for one with both.

    Raises PublishError (the registry, another platform), UsageError (no Python, two, ONBUILD), VerifyError (damaged or
    hostile layers, an image that contradicts itself), EngineError.
    """
    source = _source(ctx, engine, reference, platform)
    wanted = Wanted(platform=platform, python=python, serving=serving)
    return _described(source, _layers(ctx, source), wanted)


def files_of(ctx: Context, base: BaseImage, paths: Sequence[str], *, engine: Engine | None = None) -> dict[str, bytes]:
    """Whole files of a base in its registry, by the paths among these that are regular files; links are followed.

    Each layer that holds one is streamed once to its end, so that its digest is checked. Raises as ``inspect_base``,
    and VerifyError for more than MOST_BYTES.
    """
    source = _source(ctx, engine, base.reference, base.platform)
    tree = FileTree(_layers(ctx, source))
    found = {path: tree.find(path) for path in dict.fromkeys(paths)}
    return _contents(ctx, source, {path: node for path, node in found.items() if isinstance(node, File)}, MOST_BYTES)


def folders_of(
    ctx: Context,
    base: BaseImage,
    folders: Mapping[str, Sequence[str]],
    *,
    wanted: Callable[[str], bool],
    most: int,
    engine: Engine | None = None,
) -> dict[str, bytes]:
    """Whole folders of a base in its registry, each under its own name: of several places the first that is a folder.

    ``wanted`` chooses files by that name. Raises as ``files_of``.
    """
    source = _source(ctx, engine, base.reference, base.platform)
    tree = FileTree(_layers(ctx, source))
    files = dict[str, File]()
    for name, places in folders.items():
        place = next((one for one in places if tree.is_folder(one)), None)
        for path in tree.files(place) if place else ():
            inside = f"{name}/{path.removeprefix(f'{tree.real(place or path)}/')}"
            found = tree.find(path)
            if isinstance(found, File) and wanted(inside):
                files[inside] = found
    return _contents(ctx, source, files, most)


def folder_in(ctx: Context, base: BaseImage, path: str, *, engine: Engine | None = None) -> tuple[str, tuple[str, ...]]:
    """The path of a folder of a base without links, and the names in it; two empty ones where no folder is.

    Raises as ``inspect_base``.
    """
    tree = FileTree(_layers(ctx, _source(ctx, engine, base.reference, base.platform)))
    return (tree.real(path) or "", tree.names(path)) if tree.is_folder(path) else ("", ())


def _contents(ctx: Context, source: Source, files: Mapping[str, File], most: int) -> dict[str, bytes]:
    """The bytes of files by their names; together not more than ``most``."""
    wanted = dict[int, dict[int, list[str]]]()
    for name, file in files.items():
        wanted.setdefault(file.layer, {}).setdefault(file.number, []).append(name)
    contents = dict[str, bytes]()
    for layer, rows in sorted(wanted.items()):
        blob = source.layers[layer]
        blocks = source.repository().stream(blob.digest, blob.size)
        left = most - sum(map(len, contents.values()))
        read, digest = contents_of(blocks, {number: names[0] for number, names in rows.items()}, left, ctx.stop.check)
        if digest != blob.digest:
            raise _other_bytes(source, blob)
        contents |= {name: read[names[0]] for names in rows.values() for name in names}
    return contents


def _other_bytes(source: Source, blob: SentBlob) -> PublishError:
    return PublishError(
        f"the registry sent other bytes than the layer {blob.digest}",
        where=source.reference,
        hint="run the command again; if it stays so, the registry is damaged",
    )


def inspect_local(
    ctx: Context, engine: Engine, reference: str, platform: str, *, python: str = "", serving: str = ""
) -> BaseImage:
    """The same of an image of the engine: its reference has the image's id in place of a manifest's digest, and its
    layers are not packed.

    The engine saves all layers of an image at once: they are read as they stream by, if one of them is not known.
    Raises EngineError, UsageError, VerifyError.
    """
    image = find_image(engine, reference)
    if image is None:
        raise UsageError(f"{engine.name} has no image {reference}", hint="./build.py pull REF pulls one")
    if image.platform != platform and not image.platform.startswith(f"{platform}/"):
        raise UsageError(f"{reference} is not for {platform}", where=f"it is for {image.platform}")
    refuse_triggers(engine, image)
    if any(cached_layer(ctx, diff_id) is None for diff_id in image.diff_ids):
        _read_saved(ctx, engine, image)
    indexes = [cached_layer(ctx, diff_id) for diff_id in image.diff_ids]
    found = [index for index in indexes if index is not None]
    if len(found) < len(indexes):
        raise VerifyError(
            f"{engine.name} saves other layers of {reference} than it says that it has",
            hint="pull the image again; or read it in its registry",
        )
    given = image_settings(engine, image.id)
    settings = {name.removeprefix("config "): value for name, value in given.items() if name.startswith("config ")}
    config = SentConfig.model_validate({"config": settings})
    name = split_reference(split_digest(reference)[0])[0]
    layers = tuple(BaseLayer(digest=one.diff_id, diff_id=one.diff_id, size=one.unpacked) for one in found)
    wanted = Wanted(platform=platform, python=python, serving=serving)
    return describe(FileTree(found), f"{name}@{image.id}", layers, config, wanted)


def _read_saved(ctx: Context, engine: Engine, image: ImageInfo) -> None:
    """Keep the index of each layer in what an engine saves of an image: OCI's layout, or Docker's older one."""
    with (
        ctx.reporter.task(f"read {image.tags[0] if image.tags else image.id}") as task,
        saved(engine, image.id) as blocks,
    ):
        outer = LayerStream(blocks, 2 * MOST_UNPACKED, hashed=False, check=ctx.stop.check)
        for member in members(outer):
            ctx.stop.check()
            if member.kind in "fx" and SAVED.fullmatch(member.path):
                begin = outer.read(min(member.size, 1))
                if begin != b"{":  # a manifest or a config
                    keep_layer(ctx, read_layer(_content(outer, begin, member.size), check=ctx.stop.check))
                    ctx.reporter.advance(task, member.size)


def _content(outer: LayerStream, begin: bytes, size: int) -> Iterator[bytes]:
    yield begin
    left = size - len(begin)
    while left > 0:
        block = outer.read(min(left, 1 << 20))
        if not block:
            return
        left -= len(block)
        yield block


def known_base(ctx: Context, reference: str, platform: str, *, engine: Engine | None = None) -> BaseImage | None:
    """The same of an image whose layers are all known; None where one would have to be read. Raises as inspect_base."""
    source = _source(ctx, engine, reference, platform)
    if any(_known(ctx, blob) is None for blob in source.layers):
        return None
    return _described(source, _layers(ctx, source), Wanted(platform=platform))


def _described(source: Source, indexes: Sequence[LayerIndex], wanted: Wanted) -> BaseImage:
    layers = tuple(BaseLayer(digest=one.digest, diff_id=one.diff_id, size=one.size) for one in indexes)
    return describe(FileTree(indexes), source.reference, layers, source.config, wanted)


def _source(ctx: Context, engine: Engine | None, reference: str, platform: str) -> Source:
    name, digest = split_digest(reference)

    @cache
    def repository() -> Repository:
        return open_repository(ctx.env, name, login_for(engine, ctx.env, name))

    content, found = _manifest(ctx, repository, digest or split_reference(name)[1])
    entries = parse_sent(content, SentIndex, reference).manifests
    if entries is not None:
        content, found = _manifest(ctx, repository, for_platform(entries, platform, reference))
    manifest = parse_sent(content, SentManifest, reference)
    own = manifest.config.digest
    text = cached_document(ctx, own) or keep_document(ctx, own, repository().blob(own))
    config = parse_sent(text, SentConfig, reference)
    if f"{config.os}/{config.architecture}" != platform:
        it_is = "/".join(filter(None, (config.os, config.architecture, config.variant)))
        raise other_platform(reference, platform, it_is or "no platform")
    diff_ids = config.rootfs.diff_ids if config.rootfs else ()
    if len(diff_ids) != len(manifest.layers):
        raise VerifyError(
            f"{reference} has {len(manifest.layers)} layers, and its config names {len(diff_ids)}",
            hint="no engine would take it: check the name, or ask its author",
        )
    if config.config and config.config.triggers:
        raise UsageError(
            f"{reference} has ONBUILD instructions: building on it would run them",
            where="\n".join(ascii(one)[1:-1][:200] for one in config.config.triggers[:5]),
            hint="build on an image that has none",
        )
    plain = split_reference(name)[0]
    return Source(repository=repository, reference=f"{plain}@{found}", layers=manifest.layers, config=config)


def _manifest(ctx: Context, repository: Callable[[], Repository], reference: str) -> tuple[bytes, str]:
    """A manifest and its digest; of a digest that was read before, the kept one."""
    kept = cached_document(ctx, reference) if ":" in reference else None
    if kept is not None:
        return kept, reference
    found = find_manifest(repository(), reference)
    return keep_document(ctx, found.digest, found.content), found.digest


def _layers(ctx: Context, source: Source) -> list[LayerIndex]:
    """The index of each layer, lowest first: kept ones, and those that are read now."""
    size = Size()
    known = {blob.digest: _known(ctx, blob) for blob in dict.fromkeys(source.layers)}
    for one in filter(None, known.values()):
        size.add(one)
    missing = [blob for blob in dict.fromkeys(source.layers) if known[blob.digest] is None]
    total = sum(blob.size for blob in missing)
    if total > MOST_UNPACKED:
        raise VerifyError(f"{source.reference} is larger than any image: {total / 1e9:,.0f} GB", hint="check the name")
    if missing:
        with ctx.reporter.task(f"read {source.reference}", total=total) as task:

            def read(blob: SentBlob) -> LayerIndex:
                def counted() -> Iterator[bytes]:
                    for block in source.repository().stream(blob.digest, blob.size):
                        ctx.stop.check()
                        ctx.reporter.advance(task, len(block))
                        yield block

                found = size.add(read_layer(counted(), size.left, ctx.stop.check))
                if found.digest != blob.digest:
                    raise _other_bytes(source, blob)
                return keep_layer(ctx, found)

            known |= dict(
                zip((one.digest for one in missing), map_parallel(ctx.stop, read, missing, AT_ONCE), strict=True)
            )
    found = [index for blob in source.layers if (index := known[blob.digest]) is not None]
    claimed = source.config.rootfs.diff_ids if source.config.rootfs else ()
    wrong = next((one for one, diff_id in zip(found, claimed, strict=True) if one.diff_id != diff_id), None)
    if wrong:
        raise VerifyError(
            f"{source.reference} names other layers than it has",
            where=f"{wrong.digest} unpacks to {wrong.diff_id}, which its config does not name there",
            hint="no engine would take it: check the name, or ask its author",
        )
    return found


@dataclass(slots=True)
class Size:
    """What all layers of an image are together, while they are read: hostile ones are many, and each within limits."""

    unpacked: int = 0
    files: int = 0
    names: int = 0

    @property
    def left(self) -> int:
        """Bytes that the next layer may unpack to."""
        return max(0, MOST_UNPACKED - self.unpacked)

    def add(self, index: LayerIndex) -> LayerIndex:
        """One more layer. Raises VerifyError."""
        self.unpacked += index.unpacked
        self.files += len(index.paths)
        self.names += sum(map(len, index.paths))
        if self.unpacked > MOST_UNPACKED or self.files > MOST_FILES or self.names > MOST_NAMES:
            raise VerifyError(
                f"the image is larger than any: more than {MOST_UNPACKED >> 30} GiB, {MOST_FILES:,} files, or"
                f" {MOST_NAMES >> 20} MiB of paths",
                hint="check the name: it may be no image to serve a model",
            )
        return index


def _known(ctx: Context, blob: SentBlob) -> LayerIndex | None:
    """The index of a layer; that of the same content in other bytes is no other."""
    found = cached_layer(ctx, blob.digest)
    return found if found and found.digest == blob.digest else None
