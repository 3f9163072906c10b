"""The manifest of a wheel that was compiled here: which cubins each of its modules must hold."""

import json
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from gb10.errors import UsageError, VerifyError
from gb10.image.proof.wheel_archive import open_wheel, read_text
from gb10.image.recipe.arch import parse_arch

MANIFEST = "manifest.json"
REBUILD = "build it again: ./build.py wheels --rebuild NAME"


@dataclass(frozen=True, kw_only=True, slots=True)
class Manifest:
    """A wheel's manifest in ``file``: its arch, each module's cubins (``sm_121f``), units left out and the reasons."""

    file: str
    arch: str
    modules: Mapping[str, Sequence[str]]
    left_out: Mapping[str, str] = field(default_factory=dict)


def declares(wheel: Path) -> bool:
    """Whether a wheel has a manifest: only wheels compiled here do, not grafts or upstream's wheels."""
    if not zipfile.is_zipfile(wheel):
        return False
    with open_wheel(wheel) as archive:
        return any(map(_is_manifest, archive.namelist()))


def read_manifest(wheel: Path, prefix: str = "") -> Manifest:
    """The manifest that the compile stage wrote. Raises VerifyError when it is missing or malformed.

    ``prefix`` begins the name of every file, as in a scan of the wheel's folder.
    """
    with open_wheel(wheel) as archive:
        names = [name for name in archive.namelist() if _is_manifest(name)]
        if not names:
            raise VerifyError(f"{wheel.name} does not declare what it holds", hint="only wheels compiled here do")
        text = read_text(archive, names[0])
    try:
        return _parsed(json.loads(text), prefix, names[0])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, UsageError) as error:
        raise VerifyError(f"the manifest of {wheel.name} is malformed", where=str(error), hint=REBUILD) from error


def _parsed(document: dict[str, Any], prefix: str, file: str) -> Manifest:
    """The values of a manifest; raises ValueError and the errors of a document of another shape."""
    package = file.partition("/")[0]
    modules = {
        prefix + _inside(entry.get("file", f"{package}/modules/{module}/{module}.so")): tuple(map(_sm, entry["cubins"]))
        for module, entry in document["modules"].items()
    }
    left_out = {str(name): str(why) for name, why in document.get("left-out", {}).items()}
    arch = _sm(document["arch"]) if "arch" in document else ""
    return Manifest(file=prefix + file, arch=arch, modules=modules, left_out=left_out)


def _inside(name: str) -> str:
    """The name of a file of the wheel; raises ValueError for one that leads out of it."""
    if not is_inside(name):
        raise ValueError(f"{name!r} is not a file of the wheel")
    return name


def is_inside(name: str) -> bool:
    """Whether a name stays below the folder that it is written to: not absolute, without ``..``."""
    path = PurePosixPath(name)
    return (
        bool(path.parts)
        and path.as_posix() == name
        and not path.is_absolute()
        and ".." not in path.parts
        and "\0" not in name
    )


def _is_manifest(name: str) -> bool:
    """``<package>/manifest.json``, at the top alone: upstream's packages may have one deeper down."""
    return name.count("/") == 1 and name.endswith(f"/{MANIFEST}")


def _sm(cubin: str) -> str:
    """``sm_121f`` of an arch as users write it; what an engine's own project compiles is already named so."""
    return cubin if cubin.startswith("sm_") else parse_arch(cubin).sm
