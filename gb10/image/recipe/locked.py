"""The lock of a recipe: written by ``lock``, ``recipes/images/<engine>.lock.json``.

A lock names files by content, never by host.
"""

import datetime
from typing import Annotated, Any, Final, Literal

from packaging.utils import InvalidSdistFilename, InvalidWheelFilename, parse_sdist_filename, parse_wheel_filename
from pydantic import AfterValidator, StringConstraints

from gb10.core.fields import (
    ARCHITECTURES,
    Architecture,
    Commit,
    Cuda,
    Filename,
    Model,
    Name,
    Release,
    Sha256,
    Size,
    accepted,
)
from gb10.image.recipe.base_image import BaseImage, is_plain_path
from gb10.sources.debian.mirror import LockedDeb

WHEEL: Final = "{text} is not the file name of a wheel"
SDIST: Final = "{text} is not the file name of a source archive"


ImageDigest = Annotated[str, StringConstraints(pattern=r"^sha256:[0-9a-f]{64}$")]


class IndexFile(Model):
    """One file of the package index; ``size`` in bytes."""

    name: Name
    version: Release
    filename: Filename
    sha256: Sha256
    size: Size


class LockedWheel(IndexFile):
    """One wheel, the best for its platform; of torch also the CUDA that it is built with, or ``none``."""

    filename: Annotated[Filename, accepted(parse_wheel_filename, InvalidWheelFilename, WHEEL)]
    cuda: Cuda | None = None


class LockedTaken(LockedWheel):
    """What of an installed wheel an image of others holds, packed again; ``base`` is the digest of that image."""

    base: ImageDigest


class LockedSdist(IndexFile):
    """One source archive."""

    filename: Annotated[Filename, accepted(parse_sdist_filename, InvalidSdistFilename, SDIST)]


class LockedSources(IndexFile):
    """A wheel for every machine that brings its sources."""

    filename: Annotated[Filename, accepted(parse_wheel_filename, InvalidWheelFilename, WHEEL)]


class LockedCheckout(IndexFile):
    """A commit's files as git archives them; the recipe has the URL.

    ``input_digest`` covers its fields in the recipe.
    """

    commit: Commit
    input_digest: Sha256


def _folder(text: str) -> str:
    if text and not is_plain_path(text):
        raise ValueError("a folder of an image is an absolute path without ..")
    return text


class LockedPart(IndexFile):
    """The sources of a project as an image of others holds them, packed; ``base`` is the digest of that image."""

    base: ImageDigest
    modules: Annotated[str, StringConstraints(max_length=1000), AfterValidator(_folder)]
    """The folder of the image in which its FlashInfer looks first for a module that was compiled ahead; empty where a
    package ``flashinfer_jit_cache`` of ours brings them."""
    cutlass: Annotated[str, StringConstraints(pattern=r"^(\d+\.\d+\.\d+)?$")] = ""
    """The release of the CUTLASS that it bundles in 3rdparty/cutlass, by its version.h; empty where it bundles none."""


def _both(sets: dict[Architecture, Any]) -> dict[Architecture, Any]:
    absent = [name for name in ARCHITECTURES if name not in sets]
    if absent:
        raise ValueError(f"it holds nothing for {' and '.join(absent)}")
    return sets


class LockedDebs(Model):
    """Debian packages of the image by image architecture, of the build stages by build architecture."""

    image: Annotated[dict[Architecture, tuple[LockedDeb, ...]], AfterValidator(_both)]
    build: Annotated[dict[Architecture, tuple[LockedDeb, ...]], AfterValidator(_both)]


class LockedWheels(Model):
    """Wheels of the image by image architecture, of the build tools by build architecture."""

    image: Annotated[dict[Architecture, tuple[LockedWheel, ...]], AfterValidator(_both)]
    tools: Annotated[dict[Architecture, tuple[LockedWheel, ...]], AfterValidator(_both)]


class AskedBase(Model):
    """What a recipe asked for when its image was locked: the image as it is written there, a tag too, and which Python
    and engine of it.
    """

    image: str
    python: str = ""
    engine: str | None = None


class Lock(Model):
    """Every input of a build; ``created`` is the UTC day of the lock.

    ``input_digest`` covers the recipe fields that affect resolution, ``base_digest`` its Debian part. Each git source
    has its own digest, which affects only the wheels compiled from it.
    """

    version: Literal[1] = 1
    input_digest: Sha256
    base_digest: Sha256
    created: datetime.date
    debs: LockedDebs
    wheels: LockedWheels
    sdists: dict[Name, LockedSdist | LockedSources | LockedCheckout | LockedPart]
    headers: tuple[LockedTaken | LockedWheel, ...] | None = None
    """On an image of others: the wheels with CUDA's headers and libraries that its kernels are compiled with, and the
    image's torch where our own kernels are compiled."""
    base: BaseImage | None = None
    """The image of others that it is built on, as it was read; its Debian packages are for the build stages alone."""
    asked: AskedBase | None = None
    """What the recipe asked for then: another question has another answer."""
