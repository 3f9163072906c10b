"""Scans of local libraries, wheels and directories, and scans that a build stage wrote."""

import json
import stat
from pathlib import Path
from typing import Any

from gb10.errors import UsageError, VerifyError
from gb10.inside.scan import SCHEMA, Binary, Scan, Unit, is_binary, regular_files, scan_file, scan_tree
from gb10.proof.wheel_archive import wheel_binaries
from gb10.proof.wheel_manifest import Manifest, declares, read_manifest

HINT = "name a .so, a cubin, a wheel, a directory or an image"
AGAIN = "run the command again"
LINE = 80


def scan_path(path: Path) -> Scan:
    """The binaries of a file, of a wheel, or of a directory and the wheels in it; raises UsageError, VerifyError."""
    if is_directory(path):
        wheels = [binary for name, wheel in wheels_in(path).items() for binary in wheel_binaries(wheel, f"{name}/")]
        found = sorted((*scan_tree(path).binaries, *wheels), key=lambda binary: binary.path)
    elif path.suffix == ".whl":
        found = list(wheel_binaries(path))
    elif is_binary(path):
        found = [scan_file(path, path.name)]
    else:
        raise UsageError(f"{path} is no ELF, fatbin, cubin or wheel", hint=HINT)
    return Scan(root=str(path), binaries=tuple(found))


def is_directory(path: Path) -> bool:
    """Whether it is a directory, and not a file; raises UsageError for anything else."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        raise UsageError(f"no file or directory {path}", hint=HINT) from None
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read", where=str(error), hint=HINT) from error
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise UsageError(f"{path} is neither a file nor a directory", hint=HINT)
    return stat.S_ISDIR(mode)


def wheels_in(folder: Path) -> dict[str, Path]:
    """The wheels below a directory by their relative path; a link to a wheel counts."""
    found = {}
    for name, _ in regular_files(str(folder), links=True):
        wheel = Path(name)
        if wheel.suffix == ".whl" and wheel.is_file():
            found[wheel.relative_to(folder).as_posix()] = wheel
    return dict(sorted(found.items()))


def read_manifests(path: Path) -> list[Manifest]:
    """The manifests of the wheel at a path, or of each in a directory. File names are those of scan_path."""
    wheels = {f"{name}/": wheel for name, wheel in wheels_in(path).items()} if path.is_dir() else {"": path}
    found = ((prefix, wheel) for prefix, wheel in wheels.items() if wheel.suffix == ".whl" and declares(wheel))
    return [read_manifest(wheel, prefix) for prefix, wheel in found]


def read_scan(text: str, origin: str) -> Scan:
    """The Scan of a document that scan.py wrote in ``origin``; raises VerifyError when it is something else."""
    try:
        document: dict[str, Any] = json.loads(text)
        if document.get("schema") != SCHEMA:
            raise VerifyError(f"not a {SCHEMA} document", where=f"{origin}: {document.get('schema')}", hint=AGAIN)
        return Scan(root=document["root"], binaries=tuple(_binary(item) for item in document["binaries"]))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise VerifyError("a scan was cut short", where=f"{origin}: {error}", hint=AGAIN) from error


def _binary(item: dict[str, Any]) -> Binary:
    units = tuple(Unit(**unit) for unit in item["units"])
    return Binary(**{**item, "needed": tuple(item["needed"]), "units": units})


def read_markers(folder: Path) -> dict[str, str]:
    """Arch markers that build scripts leave beside wheels (``.vllm-arch``): file name to the arch it claims."""
    markers = (marker for marker in sorted(folder.glob(".*-arch")) if marker.is_file())
    return {marker.name: _first_line(marker) for marker in markers}


def _first_line(path: Path) -> str:
    with path.open(encoding="utf-8", errors="replace") as file:
        return file.readline(LINE).strip()
