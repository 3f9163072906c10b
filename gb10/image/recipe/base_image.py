"""What an image holds that others build on: its Python, its engine, its torch, its settings. Pure values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import PurePosixPath


@dataclass(frozen=True, kw_only=True, slots=True)
class BaseLayer:
    """A layer, by the digest of its compressed bytes and of its content; ``size`` in bytes as it travels."""

    digest: str
    diff_id: str
    size: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Installed:
    """A distribution: its version (with the local part), and the folder on ``sys.path`` that holds its packages.

    ``editable``: its packages are in a checkout, as in ``/sgl-workspace/sglang/python``; else in site-packages.
    """

    name: str
    version: str
    folder: str
    editable: bool = False
    metadata: str = ""
    """The absolute path of its METADATA or PKG-INFO; the RECORD is beside a METADATA."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BaseImage:
    """An image for one platform, by the digest of its manifest."""

    reference: str
    """``NAME@sha256:…``"""
    platform: str
    layers: tuple[BaseLayer, ...]
    environment: Mapping[str, str]
    user: str
    workdir: str
    entrypoint: tuple[str, ...]
    command: tuple[str, ...]
    interpreter: str
    """The absolute path of the Python that runs the engine."""
    python: str
    """Its version: ``3.12``."""
    site_packages: tuple[str, ...]
    """Absolute folders in the order of ``sys.path``: the first one takes new packages."""
    glibc: str
    """``2.39``; empty when no libc was found."""
    installed: Mapping[str, Installed]
    """By normalized name."""
    engine: str
    """``vllm``, ``sglang``; empty when it holds neither."""
    cuda: str
    """What its torch was built with, ``13.0``; ``none`` for a torch without CUDA; empty when that is not known."""
    system: str = ""
    """By its os-release: ``ubuntu 24.04``, ``debian 13``; empty when it has none."""
    search: tuple[str, ...] = ()
    """All folders in which its Python finds packages, in order: PYTHONPATH, ``site_packages``, what .pth files add."""
    remarks: tuple[str, ...] = ()
    """What a person should know: a METADATA that cannot be read, two releases of one package in one folder."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Of its config: a licence or a vendor may forbid to publish what is built on it."""

    @property
    def digest(self) -> str:
        """The manifest's: ``sha256:…``."""
        return self.reference.rpartition("@")[2]

    @property
    def version(self) -> str:
        """The engine's version; empty without an engine."""
        return self.installed[self.engine].version if self.engine else ""

    @property
    def strange(self) -> str | None:
        """The first of its paths that no path of a Python is: a relative one, one with ``..`` or a control character.

        An image and a record of a plan may come from anybody, and files are written below these paths.
        """
        found = (*self.site_packages, *self.search, *((self.interpreter,) if self.interpreter else ()))
        rows = chain.from_iterable(
            (one.folder, *((one.metadata,) if one.metadata else ())) for one in self.installed.values()
        )
        return next((path for path in chain(found, rows) if not is_plain_path(path)), None)


def is_plain_path(path: str) -> bool:
    """Whether a path is absolute, without ``..`` and control characters."""
    return path.startswith("/") and path.isprintable() and ".." not in PurePosixPath(path).parts
