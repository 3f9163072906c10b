"""Where an archive keeps a file of a source, and whether it is installed: by the source's layout."""

from collections.abc import Mapping
from typing import Final, Protocol

HARMLESS: Final = ("tests/", "test/", "docs/", "doc/", ".github/", ".buildkite/", "benchmarks/", "examples/")
"""Folders that no installed engine reads: a hunk there that does not fit is reported, and does not stop."""
TEXTS: Final = (".md", ".rst")


class Layout(Protocol):
    """The folders of a source that are installed, and those that its archives keep elsewhere."""

    @property
    def packages(self) -> tuple[str, ...]:
        """Folders that are installed."""

    @property
    def in_repository(self) -> Mapping[str, str]:
        """Folders of the repository, and their place in its archives."""

    @property
    def in_wheel(self) -> Mapping[str, str]:
        """Folders of the source archive, and their place in the wheel."""


def installed(path: str, layout: Layout) -> bool:
    """Whether a wheel of the source holds a file of this path."""
    return _moved(path, layout.in_repository).startswith(tuple(f"{package}/" for package in layout.packages))


def harmless(path: str) -> bool:
    """Whether nothing of an engine reads a file of this path."""
    return path.startswith(HARMLESS) or ("/" not in path and path.endswith(TEXTS))


def placed(path: str, layout: Layout, *, wheel: bool) -> str:
    """Where an archive keeps a file that the repository keeps at ``path``."""
    return _moved(path, {**layout.in_repository, **(layout.in_wheel if wheel else {})})


def _moved(path: str, folders: Mapping[str, str]) -> str:
    start = next((folder for folder in folders if path.startswith(f"{folder}/")), "")
    return folders.get(start, "") + path.removeprefix(start)
