"""Images of others, made up in memory: layers as tars, a Python that is an ELF header, packages that are METADATA."""

import io
import struct
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from gb10.containers.registry.documents import SentConfig
from gb10.image.base.described import Wanted, describe
from gb10.image.base.file_tree import FileTree
from gb10.image.base.layer_index import LayerIndex, read_layer
from gb10.image.recipe.base_image import BaseImage, BaseLayer

ARM, X86 = 183, 62
File = tuple[str, bytes | str, str]
"""A path, its content or target, its kind: ``f x d l h s``."""
REFERENCE: Final = f"registry.example/base@sha256:{'12' * 32}"


def elf(machine: int = ARM) -> bytes:
    """The begin of a program."""
    return b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HH", 2, machine) + bytes(44)


def packed(*files: File) -> bytes:
    """A tar of files, in this order."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path, content, kind in files:
            info = tarfile.TarInfo(path)
            info.mode = 0o755 if kind in "xd" else 0o644
            info.type = {
                "d": tarfile.DIRTYPE,
                "l": tarfile.SYMTYPE,
                "h": tarfile.LNKTYPE,
                "s": tarfile.CHRTYPE,
            }.get(kind, tarfile.REGTYPE)
            if kind in "lh":
                info.linkname = str(content)
            data = content if isinstance(content, bytes) else content.encode()
            info.size = len(data) if kind in "fx" else 0
            tar.addfile(info, io.BytesIO(data) if kind in "fx" else None)
    return out.getvalue()


def read(*files: File) -> LayerIndex:
    """The index of a layer."""
    return read_layer(iter([packed(*files)]))


def python(
    prefix: str = "usr", version: str = "3.12", *, site: str = "site-packages", machine: int = ARM
) -> list[File]:
    """A Python: its program, its link, its library."""
    return [
        (f"{prefix}/bin/python{version}", elf(machine), "x"),
        (f"{prefix}/bin/python3", f"python{version}", "l"),
        (f"{prefix}/lib/python{version}/os.py", "", "f"),
        (f"{prefix}/lib/python{version}/site.py", f'x = "{site}"', "f"),
    ]


def package(site: str, name: str, version: str, **more: str) -> list[File]:
    """A distribution and its package; ``more``: further files of its dist-info."""
    info = f"{site}/{name}-{version}.dist-info"
    return [
        (f"{info}/METADATA", f"Metadata-Version: 2.4\nName: {name}\nVersion: {version}\n\nText\n", "f"),
        *((f"{info}/{file.replace('__', '.')}", text, "f") for file, text in more.items()),
        (f"{site}/{name}/__init__.py", "", "f"),
    ]


def config(**settings: Any) -> SentConfig:  # noqa: ANN401 - as JSON has them
    """The config of an image for arm64."""
    return SentConfig.model_validate({"os": "linux", "architecture": "arm64", "config": settings})


def base(
    *layers: Iterable[File], wanted: Mapping[str, str] | None = None, **settings: str | Sequence[str]
) -> BaseImage:
    """What is read of these layers, lowest first."""
    indexes = [read(*files) for files in layers]
    own = tuple(BaseLayer(digest=one.digest, diff_id=one.diff_id, size=one.size) for one in indexes)
    return describe(
        FileTree(indexes), REFERENCE, own, config(**settings), Wanted(platform="linux/arm64", **(wanted or {}))
    )
