"""The parts of Triton's cache keys that the image's files decide, computed without running the image.

A key covers Triton's Python files, its compiled library, and what its ptxas says of itself. The image's own function
computes the first; the library is hashed, not loaded.
"""

import ast
import functools
import hashlib
import os
import re
import sys
import sysconfig
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from gb10.inside.rehearse.compiler_text import KeyUnknownError, toolkit_text

PTXAS = Path("backends/nvidia/bin/ptxas-blackwell")


def image_key(triton: Path) -> str:
    """What ``triton.runtime.cache.triton_key`` returns in the image, by that function's own source.

    Raises KeyUnknownError.
    """
    cache = triton / "runtime/cache.py"
    tree = ast.parse(cache.read_text(encoding="utf-8"))
    found = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "triton_key"]
    if not found:
        raise KeyUnknownError(f"{cache} has no triton_key")
    space: dict[str, object] = {
        "__file__": str(cache),
        "__version__": _version(triton),
        "functools": functools,
        "hashlib": hashlib,
        "os": os,
        "sysconfig": sysconfig,
    }
    exec(compile(ast.Module(body=list(found), type_ignores=[]), str(cache), "exec"), space)  # noqa: S102 - see above
    key: Callable[[], str] = space["triton_key"]  # type: ignore[assignment]  # defined by what was executed
    with _packages(triton):
        return key()


def image_answers(image: Path, own: Path) -> dict[str, str]:
    """Both, for the Triton in the image and this machine's of the same version. Raises KeyUnknownError."""
    if _version(image) != _version(own):
        raise KeyUnknownError(f"{image} and {own} are different releases of Triton")
    return {"triton": image_key(image), "ptxas": toolkit_text(image / PTXAS, own / PTXAS)}


def _version(triton: Path) -> str:
    found = re.search(r"^__version__ = ['\"]([^'\"]+)['\"]", (triton / "__init__.py").read_text(encoding="utf-8"), re.M)
    if found is None:
        raise KeyUnknownError(f"{triton} does not say its version")
    return found[1]


@contextmanager
def _packages(triton: Path) -> Iterator[None]:
    """Stand for the packages of Triton while its files are listed: pkgutil imports a package to find its folder."""
    names = {"triton": triton, **{f"triton.{_dotted(path, triton)}": path for path in _folders(triton)}}
    before = {name: sys.modules.pop(name) for name in [*sys.modules] if name.partition(".")[0] == "triton"}
    try:
        for name, folder in names.items():
            module = types.ModuleType(name)
            module.__path__ = [str(folder)]
            sys.modules[name] = module
        yield
    finally:
        for name in names:
            del sys.modules[name]
        sys.modules.update(before)
        sys.path_importer_cache.clear()


def _folders(triton: Path) -> list[Path]:
    return sorted(path.parent for path in triton.rglob("__init__.py") if path.parent != triton)


def _dotted(path: Path, triton: Path) -> str:
    return ".".join(path.relative_to(triton).parts)
