"""Where recipes, patches, mods, kernels and templates lie: in the checkout, or inside the installed package."""

from pathlib import Path
from typing import Final

PACKAGE: Final = Path(__file__).resolve().parents[1]
INSTALLED: Final = "_data"
"""The folder of the package that a wheel puts them in (pyproject.toml); a checkout has none."""


def data_root(package: Path) -> Path:
    """The folder that holds ``recipes`` and the others, for the package of this place."""
    installed = package / INSTALLED
    return installed if installed.is_dir() else package.parent


def is_installed(root: Path) -> bool:
    """Whether a root is part of an installed package: nothing is written there."""
    return root.name == INSTALLED


def package_of(root: Path) -> Path:
    """The folder of the package ``gb10`` that belongs to a root."""
    return root.parent if is_installed(root) else root / "gb10"


ROOT: Final = data_root(PACKAGE)
