"""The installation: where its data and its package lie, and how the user started it."""

import re
import sys
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


CHECKOUT: Final = "./build.py"
"""The name that texts in the source have."""
MODULE: Final = "/gb10/__main__.py"
COMMAND: Final = re.compile(r"(?<![\w./-])\./build\.py(?= )")


def program(started: str | None = None) -> str:
    """``gb10`` for the installed command, ``python3 -m gb10`` for the package, else ``./build.py``."""
    path = sys.argv[0] if started is None else started
    if path.endswith(MODULE):
        return "python3 -m gb10"
    return "gb10" if path.rpartition("/")[2] == "gb10" else CHECKOUT


def own_command(started: str | None = None) -> list[str]:
    """The call by which this tool starts itself: apart from PYTHONPATH, the user's packages and the working directory.

    Python takes no package of a checkout so, but its build.py.
    """
    path = Path(sys.argv[0] if started is None else started)
    script = path.parents[1] / "build.py" if str(path).endswith(MODULE) else path
    tool = [str(script)] if script.is_file() else ["-m", "gb10"]
    bytecode = ["-B"] if sys.dont_write_bytecode else []
    places = ["-X", f"pycache_prefix={sys.pycache_prefix}"] if sys.pycache_prefix else []
    return [sys.executable, "-I", *bytecode, *places, *tool]


def as_started(text: str, started: str | None = None) -> str:
    """A text with the program's name in each command that it shows; paths that end in build.py stay."""
    return COMMAND.sub(program(started), text)
