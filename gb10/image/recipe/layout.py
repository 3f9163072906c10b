"""Where a patched source keeps its files, as ``patches/releases.lock.json`` describes it. Pure."""

from typing import Final, Self

from pydantic import model_validator

from gb10.core.fields import Folder, Model


class Layout(Model):
    """``packages`` are the folders that are installed; everything else is compiled, or read by people.

    ``in_repository`` maps folders of the repository to those of its archives, ``in_wheel`` those of the source archive
    to those of the wheel. Folders that no map names are the same in both.
    """

    packages: tuple[Folder, ...] = ()
    in_repository: dict[Folder, Folder] = {}
    in_wheel: dict[Folder, Folder] = {}

    @model_validator(mode="after")
    def _installed(self) -> Self:
        starts = tuple(f"{package}/" for package in self.packages)
        lost = next((folder for folder in self.in_wheel.values() if not f"{folder}/".startswith(starts)), None)
        if lost:
            raise ValueError(f"in-wheel names {lost}, which is in none of the packages")
        return self


PLAIN: Final = Layout()
"""Nothing is installed, and every archive has the repository's paths."""
