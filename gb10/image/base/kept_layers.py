"""What was read of images of others, in the store: manifests and configs by digest, an index for each layer."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Final

from gb10.core.files import digest as key_of
from gb10.core.store import note_use
from gb10.image.base.layer_index import FORMAT, LayerIndex, packed_index, unpacked_index
from gb10.image.context import Context

SECTION: Final = "bases"
LAYER: Final = "layer.json.gz"
DOCUMENT: Final = "document"


def cached_document(ctx: Context, digest: str) -> bytes | None:
    """A manifest or a config that was read before, whole."""
    path = _place(ctx, "document", digest) / DOCUMENT
    content = path.read_bytes() if path.is_file() else None
    if content is None or f"sha256:{hashlib.sha256(content).hexdigest()}" != digest:
        return None
    note_use(path)
    return content


def keep_document(ctx: Context, digest: str, content: bytes) -> bytes:
    """Keep a manifest or a config under its digest."""
    _write(ctx, _place(ctx, "document", digest), lambda folder: (folder / DOCUMENT).write_bytes(content))
    return content


def cached_layer(ctx: Context, digest: str) -> LayerIndex | None:
    """The index of a layer by the digest of its bytes, or of its content; None where it must be read."""
    path = _place(ctx, "layer", digest) / LAYER
    try:
        found = unpacked_index(path.read_bytes())
    except OSError:
        return None
    if found is None or digest not in (found.digest, found.diff_id):
        return None
    note_use(path)
    return found


def keep_layer(ctx: Context, index: LayerIndex) -> LayerIndex:
    """Keep an index under both digests of its layer: an engine knows that of its content alone."""
    packed = packed_index(index)
    for digest in {index.digest, index.diff_id}:
        _write(ctx, _place(ctx, "layer", digest), lambda folder: (folder / LAYER).write_bytes(packed))
    return index


def _place(ctx: Context, kind: str, digest: str) -> Path:
    return ctx.store.entry(SECTION, key_of([FORMAT, kind, digest]))


def _write(ctx: Context, place: Path, make: Callable[[Path], object]) -> None:
    def fill(folder: Path) -> None:
        make(folder)

    with ctx.store.locked(f"base-{place.name}"):
        ctx.store.replace(place, fill)
