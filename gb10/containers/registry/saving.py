"""Saving: what ``docker save`` streams of an image, laid out as OCI's image layout with that one image in it."""

import hashlib
import io
import json
import re
import shutil
import tarfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from gb10.containers.connection import Engine, asking
from gb10.errors import PublishError

CHUNK = 1 << 20
MEMBER = re.compile(r"blobs/sha256/[0-9a-f]{64}|index\.json|oci-layout")
OCI = "application/vnd.oci.image"
DOCKERS = "application/vnd.docker.image.rootfs.diff.tar"
OCI_LAYERS = {DOCKERS: f"{OCI}.layer.v1.tar", f"{DOCKERS}.gzip": f"{OCI}.layer.v1.tar+gzip"}
TAR_SHARE = 1.05
"""What the tars of an image's layers are of its size; seen: up to 1.03 for many small files."""
WITHOUT = "without --compression Docker pushes by itself, with nothing saved"


@dataclass(frozen=True, kw_only=True, slots=True)
class Layout:
    """An image's OCI layout on disk; ``sizes`` are its layers' there, in bytes, by digest."""

    path: Path
    sizes: Mapping[str, int]


def check_disk_space(engine: Engine, folder: Path, size: int) -> None:
    """Raise PublishError where an image of ``size`` bytes, unpacked, cannot be saved below ``folder``.

    The classic engine writes the whole of it among its own data before it sends the first byte.
    """
    need = int(size * TAR_SHARE)
    places = [folder, engine.data] if engine.data and not engine.containerd else [folder]
    needs: dict[int, tuple[Path, int]] = {}
    for place in places:
        device = place.stat().st_dev
        needs[device] = needs.get(device, (place, 0))[0], needs.get(device, (place, 0))[1] + need
    lacking = [
        (place, wanted, free) for place, wanted in needs.values() if (free := shutil.disk_usage(place).free) < wanted
    ]
    if lacking:
        lines = (f"{place}: {wanted / 1e9:.1f} GB needed, {free / 1e9:.1f} GB free" for place, wanted, free in lacking)
        raise PublishError(
            "the image cannot be saved, to be compressed by zstd: too little room on the disk",
            where="\n".join(lines),
            hint=f"./build.py cache gc makes room; or\n{WITHOUT}",
        )


@contextmanager
def saved(engine: Engine, image_id: str) -> Iterator[Iterator[bytes]]:
    """What ``docker save`` streams of an image, while the context lasts. Raises EngineError."""
    with asking(engine) as sdk:
        yield sdk.api.get_image(image_id, chunk_size=CHUNK)


def save_layout(engine: Engine, image_id: str, config: str, into: Path, on_bytes: Callable[[int], None]) -> Layout:
    """Save the image with the config digest ``config`` into an empty folder.

    Raises EngineError, and PublishError: the engine saves no OCI layout, or another image than that one.
    """
    with asking(engine) as sdk:
        _lay_out(sdk.api.get_image(image_id, chunk_size=CHUNK), into, on_bytes)
    if not (into / "index.json").is_file():
        raise PublishError(f"Docker {engine.version} saves no OCI layout", hint=f"Docker 25 or newer does; {WITHOUT}")
    found = [one for one in _manifests(into, _read(into / "index.json")) if one["config"]["digest"] == config]
    if not found:
        raise PublishError(
            "Docker saved another image than the one that was proven",
            where=f"no config among what it saved is {config}",
            hint=WITHOUT,
        )
    _keep_only(into, as_oci(found[0]))
    return Layout(path=into, sizes={layer["digest"]: layer["size"] for layer in found[0]["layers"]})


def _lay_out(chunks: Iterator[bytes], into: Path, on_bytes: Callable[[int], None]) -> None:
    with tarfile.open(fileobj=io.BufferedReader(_Chunks(chunks), CHUNK), mode="r|") as tar:
        for member in tar:
            content = tar.extractfile(member) if MEMBER.fullmatch(member.name) else None
            if content:
                _write(content, into / member.name, on_bytes)


def _write(content: IO[bytes], path: Path, on_bytes: Callable[[int], None]) -> None:
    """One file; raises PublishError here, since what fails is not the engine's."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as out:
            while block := content.read(CHUNK):
                out.write(block)
                on_bytes(len(block))
    except OSError as error:
        raise PublishError(
            "the saved image cannot be written",
            where=f"{path}: {error.strerror}",
            hint=f"see whether the store's disk is full; {WITHOUT}",
        ) from error


def as_oci(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """A manifest in OCI's words, which containerd's store need not use: skopeo would write another config. Pure."""
    layers = [
        {**layer, "mediaType": OCI_LAYERS.get(layer["mediaType"], layer["mediaType"])} for layer in manifest["layers"]
    ]
    config = {**manifest["config"], "mediaType": f"{OCI}.config.v1+json"}
    return {"schemaVersion": 2, "mediaType": f"{OCI}.manifest.v1+json", "config": config, "layers": layers}


def _keep_only(layout: Path, manifest: Mapping[str, Any]) -> None:
    """Let the index of a layout name this manifest alone."""
    text = json.dumps(manifest).encode()
    sha256 = hashlib.sha256(text).hexdigest()
    (layout / "blobs/sha256" / sha256).write_bytes(text)
    descriptor = {"mediaType": manifest["mediaType"], "digest": f"sha256:{sha256}", "size": len(text)}
    index = {"schemaVersion": 2, "manifests": [descriptor]}
    (layout / "index.json").write_text(json.dumps(index), encoding="utf-8")


def _manifests(layout: Path, index: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Every image manifest that an index leads to and that was saved."""
    for descriptor in index["manifests"]:
        path = layout / "blobs/sha256" / descriptor["digest"].removeprefix("sha256:")
        document = _read(path) if path.is_file() else {}
        if "manifests" in document:
            yield from _manifests(layout, document)
        elif "config" in document:
            yield document


def _read(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text(encoding="utf-8")))


class _Chunks(io.RawIOBase):
    """A stream of what an iterator yields."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401 - collections.abc.Buffer begins with Python 3.12
        if not self._rest:
            self._rest = memoryview(next(self._chunks, b""))
        count = min(len(buffer), len(self._rest))
        buffer[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count
