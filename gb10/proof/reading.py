"""Scans of what lies on this machine, a library, a wheel, a directory, and of what a build stage wrote."""

import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gb10.errors import UsageError, VerifyError
from gb10.inside.elf import ELF_MAGIC
from gb10.inside.fatbin import FATBIN_MAGIC
from gb10.inside.scan import SCHEMA, Binary, Scan, Unit, is_binary, scan_buffer, scan_tree

HINT = "name a .so, a cubin, a wheel, a directory or an image"


def scan_path(path: Path) -> Scan:
    """The binaries of a file, of a wheel, or of a directory and the wheels in it; raises UsageError, VerifyError."""
    if not path.exists():
        raise UsageError(f"no file or directory {path}", hint=HINT)
    if path.is_file() and path.suffix == ".whl":
        return Scan(root=str(path), binaries=tuple(_wheel_binaries(path, "")))
    if path.is_file() and not is_binary(path):
        raise UsageError(f"{path} is no ELF, fatbin, cubin or wheel", hint=HINT)
    binaries = list(scan_tree(path).binaries)
    for wheel in path.rglob("*.whl"):
        binaries += _wheel_binaries(wheel, f"{wheel.relative_to(path)}/")
    return Scan(root=str(path), binaries=tuple(sorted(binaries, key=lambda binary: binary.path)))


def _wheel_binaries(wheel: Path, prefix: str) -> Iterator[Binary]:
    """In memory, one member at a time; every byte is checked against the archive's CRC on the way."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            for member in sorted(archive.infolist(), key=lambda member: member.filename):
                with archive.open(member) as handle:
                    head = handle.read(4)
                    if head in (ELF_MAGIC, FATBIN_MAGIC):
                        yield scan_buffer(head + handle.read(), prefix + member.filename)
    except (zipfile.BadZipFile, OSError) as error:
        raise VerifyError(f"{wheel} is damaged", where=str(error), hint="download or build it again") from error


def read_scan(text: str, origin: str) -> Scan:
    """The Scan of a document that scan.py wrote in ``origin``; raises VerifyError when it is something else."""
    try:
        document: dict[str, Any] = json.loads(text)
    except json.JSONDecodeError as error:
        raise VerifyError("a scan was cut short", where=f"{origin}: {error}", hint="run the command again") from error
    if document.get("schema") != SCHEMA:
        raise VerifyError(
            f"not a {SCHEMA} document", where=f"{origin}: found {document.get('schema')}", hint="run the command again"
        )
    return Scan(root=document["root"], binaries=tuple(_binary(item) for item in document["binaries"]))


def _binary(item: dict[str, Any]) -> Binary:
    units = tuple(Unit(**unit) for unit in item["units"])
    return Binary(**{**item, "needed": tuple(item["needed"]), "units": units})


def read_markers(folder: Path) -> dict[str, str]:
    """Arch markers that build scripts leave beside wheels (``.vllm-arch``): file name to the arch it claims."""
    return {marker.name: marker.read_text(encoding="utf-8").strip() for marker in sorted(folder.glob(".*-arch"))}
