"""A root file system written once, front to back, as one deterministic tar that can be read while it grows."""

import hashlib
import io
import posixpath
import tarfile
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from gb10.errors import BuildError

BLOCK = tarfile.BLOCKSIZE
CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Entry:
    """What lies at a path: a tar type, where its content starts, how long it is, what it links to."""

    type: bytes
    offset: int
    size: int
    target: str


class Tree:
    """Paths are relative, without ``./``; mtimes never exceed ``epoch``; owners are numbers only."""

    def __init__(self, path: Path, *, epoch: int) -> None:
        self.epoch = epoch
        self.entries: dict[str, Entry] = {}
        self._file = path.open("w+b")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        if kind is None:
            self._file.write(bytes(2 * BLOCK))
        self._file.close()

    def add(self, info: tarfile.TarInfo, content: IO[bytes] | None = None) -> str | None:
        """Append one member and its missing parents (root's, mode 755); the MD5 of ``content``, as dpkg wants it."""
        parent = info.name.rpartition("/")[0]
        if parent and parent not in self.entries:
            self.directory(parent)
        info.mtime = min(int(info.mtime), self.epoch)
        info.uname = info.gname = ""
        info.pax_headers = {}
        self._file.write(info.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape"))
        self.entries[info.name] = Entry(info.type, self._file.tell(), info.size, info.linkname)
        if content is None:
            return None
        md5 = hashlib.md5(usedforsecurity=False)
        while block := content.read(CHUNK):
            md5.update(block)
            self._file.write(block)
        self._file.write(bytes(-info.size % BLOCK))
        return md5.hexdigest()

    def file(self, path: str, content: bytes, *, mode: int = 0o644, uid: int = 0, gid: int = 0) -> None:
        info = self._info(path, tarfile.REGTYPE, mode, uid, gid)
        info.size = len(content)
        self.add(info, io.BytesIO(content))

    def directory(self, path: str, *, mode: int = 0o755, uid: int = 0, gid: int = 0) -> None:
        if path not in self.entries:
            self.add(self._info(path, tarfile.DIRTYPE, mode, uid, gid))

    def link(self, path: str, target: str) -> None:
        """A symbolic link."""
        info = self._info(path, tarfile.SYMTYPE, 0o777, 0, 0)
        info.linkname = target
        self.add(info)

    def read(self, path: str) -> bytes:
        """The content of a regular file already written; raises BuildError when no package brought it."""
        entry = self.entries.get(path)
        if entry is None:
            raise BuildError(f"no package of the base holds /{path}", hint="./build.py lock --upgrade base")
        end = self._file.tell()
        self._file.seek(entry.offset)
        content = self._file.read(entry.size)
        self._file.seek(end)
        return content

    def resolve(self, path: str) -> str:
        """The path with every symbolic link on its way followed; what is missing stays as it is named."""
        done = ""
        rest = path.split("/")
        while rest:
            done = posixpath.normpath(posixpath.join(done, rest.pop(0)))
            entry = self.entries.get(done)
            if entry and entry.type == tarfile.SYMTYPE:
                rest = [*entry.target.lstrip("/").split("/"), *rest]
                done = "" if entry.target.startswith("/") else posixpath.dirname(done)
        return done

    def below(self, prefix: str) -> list[str]:
        """The paths that start with ``prefix``, sorted."""
        return sorted(path for path in self.entries if path.startswith(prefix))

    def _info(self, path: str, kind: bytes, mode: int, uid: int, gid: int) -> tarfile.TarInfo:
        info = tarfile.TarInfo(path)
        info.type, info.mode, info.uid, info.gid, info.mtime = kind, mode, uid, gid, self.epoch
        return info
