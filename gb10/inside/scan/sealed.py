"""Folders whose files are listed with their hashes in ``SHA256SUMS``, as sha256sum writes it."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

SUMS = "SHA256SUMS"
FOLDERS = "usr/share/gb10/caches"
"""Below an image's root: each folder in it is sealed."""


def seal(folder: Path) -> None:
    """Write the list of a folder's files."""
    lines = [f"{_sha256(path)}  {name}\n" for name, path in _files(folder)]
    (folder / SUMS).write_text("".join(lines), encoding="utf-8")


def broken(root: Path) -> Iterator[tuple[str, str]]:
    """Below the root of an image or a layer: each file that is not as its folder's list says, and what is wrong."""
    for sums in sorted((root / FOLDERS).glob(f"*/{SUMS}")):
        listed = dict(_entries(sums.read_text(encoding="utf-8", errors="replace")))
        there = dict(_files(sums.parent))
        below = sums.parent.relative_to(root).as_posix()
        for name in sorted(listed.keys() | there.keys()):
            wrong = _wrong(listed.get(name), there.get(name))
            if wrong:
                yield f"{below}/{name}", wrong


def _wrong(listed: str | None, path: Path | None) -> str:
    if path is None:
        return f"no such file, and {SUMS} names it"
    if listed is None:
        return f"{SUMS} does not name it"
    found = _sha256(path)
    return "" if found == listed else f"its sha256 is {found}, {SUMS} has {listed}"


def _entries(text: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        value, _, name = line.partition("  ")
        yield name, value


def _files(folder: Path) -> Iterator[tuple[str, Path]]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink() and path != folder / SUMS:
            yield path.relative_to(folder).as_posix(), path


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
