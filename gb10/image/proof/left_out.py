"""What ``verify`` looks at, and what of a file, a wheel or a folder it had to leave out: each with its reason."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from gb10.core.checked import NotChecked
from gb10.image.proof.check import UNREADABLE, Subject
from gb10.image.proof.reading import wheels_in
from gb10.image.proof.wheel_claims import EXTENSION, claim_of, wheel_claims
from gb10.image.proof.wheel_files import open_wheel
from gb10.inside.scan.tree import entries_below, is_link, is_regular

PARTS: Final[Mapping[str, str]] = {
    "files": "every ELF, fatbin and cubin, with its GPU code",
    "machine": "of each library, against its wheel or a GB10 (aarch64)",
    "python": "of each extension module, against its wheel, its folder or --python",
    "glibc": "that each library wants, against --glibc",
    "packages": "of a folder and an image: requirements, releases, torch and CUDA that fit",
    "symbols": "of an image: libraries and symbols, as ld.so finds them; and the rest of --checks",
}
"""The words of the verb's help; each row of what was not checked names one of them."""
LIMITS: Final = (
    "compressed cubins are not unpacked: their arch is what the fatbin says",
    "static archives (.a) are not opened, nothing loads them",
)
ARCHIVES: Final = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.xz", ".tar.zst", ".tar.bz2", ".whl")
"""Endings of archives in an archive."""
SHOWN: Final = 5
"""Files that a row names."""


def left_out(path: Path, subject: Subject) -> Iterator[NotChecked]:
    """The parts of a path that were not looked at."""
    for binary in subject.scan.binaries:
        if binary.kind == UNREADABLE:
            yield NotChecked(what="files", reason=f"{binary.path} cannot be opened: {binary.error}")
        elif binary.kind == "elf32":
            yield NotChecked(what="machine", reason=f"{binary.path} is no ELF of 64 bits, and is not read further")
    yield from _row("files", "archives in it are not unpacked", _archives(path))
    if path.is_dir():
        yield from _row("files", "links lead out of it and are not followed", _links(path))
        yield from _row("packages", "paths of other folders are not followed", _path_files(path))
    claims = wheel_claims(subject)
    open_ended = (
        binary.path
        for binary in subject.scan.binaries
        if EXTENSION.fullmatch(binary.path) and not ((claim := claim_of(binary.path, claims)) and claim.pythons)
    )
    yield from _row("python", "which Python loads them is not known, --python 3.13 says it", open_ended)


def _row(what: str, reason: str, names: Iterator[str]) -> Iterator[NotChecked]:
    """A row for several files with the same reason."""
    found = sorted(names)
    if found:
        more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
        yield NotChecked(what=what, reason=f"{reason}: {', '.join(found[:SHOWN])}{more}")


def _archives(path: Path) -> Iterator[str]:
    """Archives inside of wheels, and those of a folder that are no wheels."""
    wheels = {f"{name}/": wheel for name, wheel in wheels_in(path).items()} if path.is_dir() else {}
    for prefix, wheel in {"": path}.items() if path.suffix == ".whl" and path.is_file() else wheels.items():
        with open_wheel(wheel) as archive:
            yield from (f"{prefix}{name}" for name in archive.namelist() if name.endswith(ARCHIVES))
    for name, entry in entries_below(str(path)) if path.is_dir() else ():
        if name.endswith(ARCHIVES[:-1]) and is_regular(entry):
            yield os.path.relpath(name, path)


def _links(path: Path) -> Iterator[str]:
    """Links to libraries and folders outside of the folder; a link to a wheel is followed."""
    root = path.resolve()
    for name, entry in entries_below(str(path)):
        if is_link(entry) and not name.endswith(".whl"):
            leads = Path(os.path.realpath(name))
            if not leads.is_relative_to(root) and (leads.is_dir() or ".so" in leads.name):
                yield os.path.relpath(name, path)


def _path_files(path: Path) -> Iterator[str]:
    """Files by which Python finds packages elsewhere: what ``pip install -e`` leaves."""
    for name, entry in entries_below(str(path)):
        if name.endswith(".egg-link") or (name.endswith(".pth") and is_regular(entry) and _leads_out(Path(name))):
            yield os.path.relpath(name, path)


def _leads_out(file: Path) -> bool:
    """Whether a .pth file names a folder; lines that begin with ``import`` are code."""
    with file.open(encoding="utf-8", errors="replace") as opened:
        lines = opened.read(1 << 16).splitlines()
    return any(line.strip().startswith("/") or "__editable__" in line for line in lines)
