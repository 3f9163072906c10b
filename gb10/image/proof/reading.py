"""Scans of local libraries, wheels and directories, and what a build stage wrote of an image."""

import json
import re
import stat
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import TypeAdapter

from gb10.errors import UsageError, VerifyError
from gb10.image.proof.wheel_files import Manifest, declares, read_manifest, wheel_binaries, wheel_distribution
from gb10.inside.scan import linked
from gb10.inside.scan.binary import is_binary, scan_file
from gb10.inside.scan.installed import read_distribution
from gb10.inside.scan.linked import Linked
from gb10.inside.scan.scan import SCHEMA, Scan, scan_tree
from gb10.inside.scan.tree import entries_below, is_link, is_regular

HINT = "name a .so, a cubin, a wheel, a directory or an image"
AGAIN = "run the command again"
LINE = 80
T = TypeVar("T")
MANY: Final = 1 << 40
"""More units of one kind than any file holds."""
CODE: Final = re.compile(r"(?:sm|compute|lto|kind[0-9]{1,10})_[0-9]{1,10}[af]?", re.ASCII)
"""A piece of GPU code, as scans name it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ImageScan:
    """What the files of an image are, and whether its libraries find what they need."""

    scan: Scan
    linked: Linked | None
    """None where only a part of the image was scanned."""


def scan_path(path: Path) -> Scan:
    """The binaries of a file, of a wheel, or of a directory and the wheels in it; raises UsageError, VerifyError."""
    wheels = {f"{name}/": wheel for name, wheel in wheels_in(path).items()} if is_directory(path) else {}
    if path.is_dir():
        scan = replace(scan_tree(path), root=str(path))
    elif path.suffix == ".whl":
        scan, wheels = Scan(root=str(path)), {"": path}
    elif is_binary(path):
        scan = Scan(root=str(path), binaries=(scan_file(path, path.name),))
    else:
        raise UsageError(f"{path} is no ELF, fatbin, cubin or wheel", hint=HINT)
    binaries = [binary for prefix, wheel in wheels.items() for binary in wheel_binaries(wheel, prefix)]
    found = [wheel_distribution(wheel, prefix) for prefix, wheel in wheels.items()]
    # The folder may itself be one of Python packages, as site-packages is.
    installed = (one for one in sorted(path.glob("*.dist-info/METADATA")) if one.is_file() and not one.is_symlink())
    here = [read_distribution(one, one.relative_to(path).as_posix()) for one in installed] if path.is_dir() else []
    distributions = [*(one for one in found if one), *here]
    return replace(
        scan,
        binaries=tuple(sorted((*scan.binaries, *binaries), key=lambda one: one.path)),
        distributions=tuple(sorted((*scan.distributions, *distributions), key=lambda one: one.path)),
    )


def is_directory(path: Path) -> bool:
    """Whether it is a directory, and not a file; raises UsageError for anything else."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        raise UsageError(f"no file or directory {path}", hint=HINT) from None
    except ValueError as error:
        raise UsageError(f"{path} cannot be read", where=str(error), hint=HINT) from error
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise UsageError(f"{path} is neither a file nor a directory", hint=HINT)
    return stat.S_ISDIR(mode)


def wheels_in(folder: Path) -> dict[str, Path]:
    """The wheels below a directory by their relative path; a link to a wheel counts."""
    found = {}
    for name, entry in entries_below(str(folder)):
        wheel = Path(name)
        if wheel.suffix == ".whl" and (is_regular(entry) or is_link(entry)) and wheel.is_file():
            found[wheel.relative_to(folder).as_posix()] = wheel
    return dict(sorted(found.items()))


def read_manifests(path: Path) -> list[Manifest]:
    """The manifests of the wheel at a path, or of each in a directory. File names are those of scan_path."""
    wheels = {f"{name}/": wheel for name, wheel in wheels_in(path).items()} if path.is_dir() else {"": path}
    found = ((prefix, wheel) for prefix, wheel in wheels.items() if wheel.suffix == ".whl" and declares(wheel))
    return [read_manifest(wheel, prefix) for prefix, wheel in found]


def read_scan(text: str, origin: str) -> Scan:
    """The Scan of a document that scan.py wrote in ``origin``; raises VerifyError when it is something else."""
    scan = _read(text, origin, SCHEMA, _scans())
    codes = {item for binary in scan.binaries for unit in binary.units for item in unit.codes.items()}
    if not all(CODE.fullmatch(code) and 0 < count < MANY for code, count in codes):
        raise VerifyError("a scan names GPU code that cannot be", where=origin, hint=AGAIN)
    return scan


def read_linked(text: str, origin: str) -> Linked:
    """The same of a document that linked.py wrote."""
    return _read(text, origin, linked.SCHEMA, _links())


def _read(text: str, origin: str, schema: str, form: TypeAdapter[T]) -> T:
    """A document whose values have their types: who made an image may have written anything there."""
    try:
        document: Any = json.loads(text)
        if document["schema"] != schema:
            raise VerifyError(f"not a {schema} document", where=origin, hint=AGAIN)
        return form.validate_python(document)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise VerifyError("a scan was cut short", where=f"{origin}: {str(error)[:200]}", hint=AGAIN) from error


@cache
def _scans() -> TypeAdapter[Scan]:
    return TypeAdapter(Scan)


@cache
def _links() -> TypeAdapter[Linked]:
    return TypeAdapter(Linked)


def read_markers(folder: Path) -> dict[str, str]:
    """Arch markers that build scripts leave beside wheels (``.vllm-arch``): file name to the arch it claims."""
    found = {}
    for marker in (path for path in sorted(folder.glob(".*-arch")) if path.is_file()):
        with marker.open(encoding="utf-8", errors="replace") as file:
            found[marker.name] = file.readline(LINE).strip()
    return found
