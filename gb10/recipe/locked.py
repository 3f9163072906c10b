"""The lock of a recipe: written by ``lock``, ``recipes/images/<engine>.lock.json``.

A lock names files by content, never by host.
"""

import datetime
from typing import Literal

from gb10.recipe.fields import Architecture, Commit, Cuda, Filename, Model, Name, PoolPath, Sha256, Size


class LockedDeb(Model):
    """One Debian package; ``path`` is relative to the root of any mirror of the archive."""

    name: str
    version: str
    architecture: str
    path: PoolPath
    sha256: Sha256
    size: Size

    @property
    def filename(self) -> str:
        """The file's own name, as the archive spells it."""
        return self.path.rsplit("/", 1)[-1]


class IndexFile(Model):
    """One file of the package index; ``size`` in bytes."""

    name: Name
    version: str
    filename: Filename
    sha256: Sha256
    size: Size


class LockedWheel(IndexFile):
    """One wheel, the best for its platform; of torch also the CUDA that it is built with, or ``none``."""

    cuda: Cuda | None = None


class LockedSdist(IndexFile):
    """One source archive."""


class LockedCheckout(IndexFile):
    """A commit's files as git archives them; the recipe says where git has them.

    ``input_digest`` is over what the recipe says of it.
    """

    commit: Commit
    input_digest: Sha256


class LockedDebs(Model):
    """Debian packages of the image by image architecture, of the build stages by build architecture."""

    image: dict[Architecture, tuple[LockedDeb, ...]]
    build: dict[Architecture, tuple[LockedDeb, ...]]


class LockedWheels(Model):
    """Wheels of the image by image architecture, of the build tools by build architecture."""

    image: dict[Architecture, tuple[LockedWheel, ...]]
    tools: dict[Architecture, tuple[LockedWheel, ...]]


class Lock(Model):
    """Every byte that goes in; ``created`` is the UTC day of the locking.

    ``input_digest`` is over all of the recipe that decides a resolution, ``base_digest`` over its Debian part. Each
    source from git has a digest of its own: it is read by wheels that are compiled from it, and decides nothing else.
    """

    version: Literal[1] = 1
    input_digest: Sha256
    base_digest: Sha256
    created: datetime.date
    debs: LockedDebs
    wheels: LockedWheels
    sdists: dict[Name, LockedSdist | LockedCheckout]
