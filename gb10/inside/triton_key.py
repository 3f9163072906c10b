"""The parts of Triton's cache keys that the image's own files decide, read where they may not run.

A key covers Triton's Python files, its compiled library, and what its ptxas says of itself. The image's own function
computes the first; the library is hashed, not loaded.
"""

import ast
import functools
import hashlib
import os
import re
import subprocess
import sys
import sysconfig
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

PTXAS = Path("backends/nvidia/bin/ptxas-blackwell")
BUILT = re.compile(rb"\x00([A-Z][a-z]{2}_[A-Z][a-z]{2}_\d{1,2}_\d\d:\d\d:\d\d_[AP]M_[A-Z]{3,4}_\d{4})(?=\x00)")
"""When a program of the CUDA toolkit was built, as it prints it."""


class KeyUnknownError(Exception):
    """The image's Triton is not of the form that this module knows."""


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


def ptxas_text(triton: Path, own: str) -> str:
    """What the image's ptxas prints for ``--version``: as this machine's of that release, but for when it was built.

    Raises KeyUnknownError.
    """
    found = set(BUILT.findall((triton / PTXAS).read_bytes()))
    lines = [line for line in own.splitlines() if line.startswith("Built on ")]
    if len(found) != 1 or len(lines) != 1:
        raise KeyUnknownError(f"{triton / PTXAS} does not say when it was built")
    return own.replace(lines[0], f"Built on {found.pop().decode()}")


def image_answers(image: Path, own: Path) -> dict[str, str]:
    """Both, for the Triton in the image and this machine's of the same version. Raises KeyUnknownError."""
    if _version(image) != _version(own) or _release(image / PTXAS) != _release(own / PTXAS):
        raise KeyUnknownError(f"{image} and {own} are different releases of Triton")
    text = subprocess.run([own / PTXAS, "--version"], check=True, capture_output=True, text=True).stdout
    return {"triton": image_key(image), "ptxas": ptxas_text(image, text)}


def _version(triton: Path) -> str:
    found = re.search(r"^__version__ = ['\"]([^'\"]+)['\"]", (triton / "__init__.py").read_text(encoding="utf-8"), re.M)
    if found is None:
        raise KeyUnknownError(f"{triton} does not say its version")
    return found[1]


def _release(program: Path) -> set[bytes]:
    """The release and build of a program of the CUDA toolkit, whatever machine it is for."""
    return set(re.findall(rb"\x00?(Build cuda_[\w./]+)", program.read_bytes()))


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
