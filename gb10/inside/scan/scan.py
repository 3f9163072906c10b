"""What lies under a root, as JSON: binaries and their GPU code, distributions, dangerous files, hashes of changes.

    python3 scan.py ROOT [--as layer|change|image] [--symbols FILE] > scan.json

It runs in a build stage, as an archive of this module and of those that it imports; standard library only. A layer of
locked wheels needs no look into its texts: a change by hand is hashed, and searched for secrets. Of a whole image the
files are hashed that its own scans name, so that a later change shows.
"""

import argparse
import hashlib
import json
import os
import struct
import sys
from collections import Counter
from collections.abc import Container
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

from gb10.inside.scan.binary import Binary, is_binary, mapped, scan_file
from gb10.inside.scan.elf import DamagedError
from gb10.inside.scan.hazards import LARGEST, Hazard, of_content, of_mode, of_name
from gb10.inside.scan.installed import Distribution, is_metadata, package_of, read_distribution
from gb10.inside.scan.ld_so_cache import CACHE, read_cache
from gb10.inside.scan.linkage import read_linkage
from gb10.inside.scan.sealed import broken
from gb10.inside.scan.symbol_file import Symbols
from gb10.inside.scan.tree import Found, entries_below, is_link, is_regular

SCHEMA = "gb10/scan/v2"
OWN_SCANS = "usr/share/gb10/scans"
OWN_SCAN_BYTES = 64 << 20
Kind = Literal["layer", "change", "image"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Scan:
    """What lies under one root, each list sorted by path, which is relative to the root."""

    root: str
    binaries: tuple[Binary, ...] = ()
    distributions: tuple[Distribution, ...] = ()
    hazards: tuple[Hazard, ...] = ()
    contents: dict[str, str] = field(default_factory=dict)
    """sha256 of files that were changed on purpose."""
    sizes: dict[str, int] = field(default_factory=dict)
    """Bytes of all files by package."""
    gone: tuple[str, ...] = ()
    """Paths of the layers below that are no more what they were."""

    def to_json(self) -> str:
        """The document, deterministic: same tree, same text."""
        return json.dumps({"schema": SCHEMA, **asdict(self)}, indent=1, sort_keys=True)


class Scanner:
    """Takes one entry of a tree after the other, and keeps what a scan says of it."""

    def __init__(self, root: Path, kind: Kind) -> None:
        self.root = root
        self.closely = kind != "layer"
        self.hashed: Container[str] | None = None if kind == "change" else own_contents(root)
        self.scan = Scan(root=str(root))
        self.symbols = Symbols()
        self.binaries: list[Binary] = []
        self.distributions: list[Distribution] = []
        self.hazards: list[Hazard] = []
        self.contents: dict[str, str] = {}
        self.sizes: Counter[str] = Counter()

    def take(self, name: str, found: Found) -> None:
        """One entry, by its path below the root."""
        try:
            self._take(self.root / name, name, found)
        except OSError as error:
            self.binaries.append(Binary(path=name, kind="unreadable", size=0, error=str(error.strerror)))

    def _take(self, path: Path, name: str, found: Found) -> None:
        if isinstance(found, OSError):
            raise found
        if is_link(found):
            self.symbols.links[name] = str(path.readlink())
            return
        self.hazards += of_mode(name, found.st_mode)
        if is_regular(found):
            self._file(path, name, found.st_size)

    def _file(self, path: Path, name: str, size: int) -> None:
        self.sizes[package_of(name)] += size
        binary = is_binary(path)
        if binary:
            self.binaries.append(self._binary(path, name))
        elif is_metadata(name):
            self.distributions.append(read_distribution(path, name))
        elif name == CACHE:
            self.symbols.cache = read_cache(path)
        if not binary:
            self.hazards += of_name(path, name, size)
        if self.closely and not binary and size <= LARGEST:
            self.hazards += of_content(path.read_bytes(), name)
        if self.hashed is None or name in self.hashed:
            with path.open("rb") as file:
                self.contents[name] = hashlib.file_digest(file, "sha256").hexdigest()

    def _binary(self, path: Path, name: str) -> Binary:
        binary = scan_file(path, name)
        if binary.kind == "elf":
            try:
                with mapped(path) as buffer:
                    linkage = read_linkage(buffer, name)
            except (DamagedError, struct.error, OverflowError) as error:
                return Binary(path=name, kind="damaged", size=binary.size, error=str(error))
            if linkage:
                self.symbols.libraries.append(linkage)
        return binary

    def scanned(self, gone: tuple[str, ...] = ()) -> Scan:
        """The scan of what was taken."""
        return Scan(
            root=str(self.root),
            binaries=tuple(sorted(self.binaries, key=lambda one: one.path)),
            distributions=tuple(sorted(self.distributions, key=lambda one: one.path)),
            hazards=tuple(sorted(self.hazards, key=lambda one: (one.path, one.kind, one.what))),
            contents=dict(sorted(self.contents.items())),
            sizes=dict(sorted(self.sizes.items())),
            gone=gone,
        )


def own_contents(root: Path) -> set[str]:
    """The files that the scans in an image say were changed on purpose; nothing of what is no such scan."""
    names = set[str]()
    for path in sorted((root / OWN_SCANS).glob("*.json")):
        if path.is_symlink() or not path.is_file() or path.stat().st_size > OWN_SCAN_BYTES:
            continue
        try:
            names.update(map(str, json.loads(path.read_text(encoding="utf-8")).get("contents") or ()))
        except (ValueError, AttributeError, TypeError, RecursionError):
            continue
    return names


def scan_tree(root: Path) -> Scan:
    """Everything under a directory, symlinks not followed; or the one file that ``root`` names."""
    if not root.is_dir():
        return Scan(root=str(root), binaries=(scan_file(root, root.name),))
    return scanned_tree(root, "layer").scanned()


def scanned_tree(root: Path, kind: Kind) -> Scanner:
    """A scanner that took all of a directory."""
    scanner = Scanner(root, kind)
    for path, found in entries_below(str(root)):
        scanner.take(os.path.relpath(path, root), found)
    damaged = {name: Binary(path=name, kind="damaged", size=0, error=wrong) for name, wrong in broken(root)}
    scanner.binaries = [*(one for one in scanner.binaries if one.path not in damaged), *damaged.values()]
    return scanner


def main() -> None:
    """``scan.py ROOT``: the document on stdout."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", type=Path)
    parser.add_argument("--as", dest="kind", choices=("layer", "change", "image"), default="layer")
    parser.add_argument("--symbols", type=Path)
    options = parser.parse_args()
    scanner = scanned_tree(options.root, options.kind)
    if options.symbols:
        scanner.symbols.write(options.symbols)
    sys.stdout.write(scanner.scanned().to_json() + "\n")


if __name__ == "__main__":
    main()
