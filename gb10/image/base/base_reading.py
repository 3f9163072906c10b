"""Reading an image of others: its manifest, each layer once, then what its Python finds. Nothing is unpacked or run."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gb10.containers.connection import Engine
from gb10.containers.reference import split_digest, split_reference
from gb10.containers.registry.access import login_for
from gb10.containers.registry.documents import (
    SentBlob,
    SentConfig,
    SentIndex,
    SentManifest,
    find_manifest,
    for_platform,
    sent,
)
from gb10.containers.registry.repository import Repository, open_repository
from gb10.core.concurrency import map_parallel
from gb10.core.files import digest as key_of
from gb10.core.store import note_use
from gb10.errors import PublishError, UsageError, VerifyError
from gb10.image.base.described import Wanted, describe
from gb10.image.base.file_tree import File, FileTree
from gb10.image.base.layer_index import FORMAT, LayerIndex, contents_of, packed_index, read_layer, unpacked_index
from gb10.image.context import Context
from gb10.image.recipe.base_image import BaseImage, BaseLayer

ROOM: Final = "bases"
LAYER: Final = "layer.json.gz"
DOCUMENT: Final = "document"
MOST_BYTES: Final = 256 << 20
"""Of all files that are read at once."""
AT_ONCE: Final = 2
"""Layers that are read at the same time."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """An image before its layers are read: its name by the digest of the manifest, its layers, its config."""

    repository: Repository
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
    wanted = dict[int, dict[int, list[str]]]()
    for path in dict.fromkeys(paths):
        found = tree.find(path)
        if isinstance(found, File):
            wanted.setdefault(found.layer, {}).setdefault(found.number, []).append(path)
    contents = dict[str, bytes]()
    for layer, rows in sorted(wanted.items()):
        blob = source.layers[layer]
        blocks = source.repository.stream(blob.digest, blob.size)
        left = MOST_BYTES - sum(map(len, contents.values()))
        read, digest = contents_of(blocks, {number: names[0] for number, names in rows.items()}, left)
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
    repository = open_repository(ctx.env, name, login_for(engine, ctx.env, name))
    content, found = _manifest(ctx, repository, digest or split_reference(name)[1])
    entries = sent(content, SentIndex, reference).manifests
    if entries is not None:
        content, found = _manifest(ctx, repository, for_platform(entries, platform, reference))
    manifest = sent(content, SentManifest, reference)
    own = manifest.config.digest
    text = _document(ctx, own) or _keep(ctx, own, repository.blob(own))
    config = sent(text, SentConfig, reference)
    if f"{config.os}/{config.architecture}" != platform:
        it_is = "/".join(filter(None, (config.os, config.architecture, config.variant)))
        raise PublishError(f"{reference} is not for {platform}", where=f"it is for {it_is or 'no platform'}")
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


def _manifest(ctx: Context, repository: Repository, reference: str) -> tuple[bytes, str]:
    """A manifest and its digest; of a digest that was read before, the kept one."""
    kept = _document(ctx, reference) if ":" in reference else None
    if kept is not None:
        return kept, reference
    found = find_manifest(repository, reference)
    return _keep(ctx, found.digest, found.content), found.digest


def _document(ctx: Context, digest: str) -> bytes | None:
    """A manifest or a config that was read before, whole."""
    path = _place(ctx, "document", digest) / DOCUMENT
    content = path.read_bytes() if path.is_file() else None
    return content if content is not None and f"sha256:{hashlib.sha256(content).hexdigest()}" == digest else None


def _keep(ctx: Context, digest: str, content: bytes) -> bytes:
    _write(ctx, _place(ctx, "document", digest), lambda folder: (folder / DOCUMENT).write_bytes(content))
    return content


def _place(ctx: Context, kind: str, digest: str) -> Path:
    return ctx.store.entry(ROOM, key_of([FORMAT, kind, digest]))


def _write(ctx: Context, place: Path, make: Callable[[Path], object]) -> None:
    with ctx.store.locked(f"base-{place.name}"):
        ctx.store.replace(place, lambda folder: (make(folder), None)[1])


def _layers(ctx: Context, source: Source) -> list[LayerIndex]:
    """The index of each layer, lowest first: kept ones, and those that are read now."""
    known = {blob.digest: _known(ctx, blob) for blob in source.layers}
    missing = [blob for blob in dict.fromkeys(source.layers) if known[blob.digest] is None]
    total = sum(blob.size for blob in missing)
    if missing:
        with ctx.reporter.task(f"read {source.reference}", total=total) as task:

            def read(blob: SentBlob) -> LayerIndex:
                def counted() -> Iterator[bytes]:
                    for block in source.repository.stream(blob.digest, blob.size):
                        ctx.stop.check()
                        ctx.reporter.advance(task, len(block))
                        yield block

                found = read_layer(counted())
                if found.digest != blob.digest:
                    raise _other_bytes(source, blob)
                packed = packed_index(found)
                _write(ctx, _place(ctx, "layer", blob.digest), lambda folder: (folder / LAYER).write_bytes(packed))
                return found

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


def _known(ctx: Context, blob: SentBlob) -> LayerIndex | None:
    path = _place(ctx, "layer", blob.digest) / LAYER
    try:
        found = unpacked_index(path.read_bytes())
    except OSError:
        return None
    if found is None or found.digest != blob.digest:
        return None
    note_use(path)
    return found
