"""The metadata of a wheel on an index: a few ranges of the file are read, not the whole of it."""

import io
import re
import zipfile
from collections.abc import Callable
from typing import Final, TypeVar

import requests

from gb10.core.fetch import redact
from gb10.core.http_session import network_error
from gb10.errors import FetchError
from gb10.sources.index.client import TIMEOUT_S, local_path
from gb10.sources.index.page import HERE, Link

PARTIAL: Final = 206
LARGEST: Final = 4 << 20
"""Bytes of a metadata file: the description is in it, too."""
MOST_READ: Final = 32 << 20
"""Bytes that are read of one wheel: vLLM's list of files has 0.5 MB."""
BLOCK: Final = 1 << 16
INSTALLED: Final = re.compile(r"\A[^/]+\.data/(purelib|platlib)/")
"""Folders of a wheel whose files lie beside its others when it is installed."""
IMPORTABLE: Final = (".py", ".so", ".pyi")
Read = TypeVar("Read")


def wheel_metadata(session: requests.Session, link: Link, size: int) -> bytes | None:
    """METADATA of the wheel behind a link; None when its server does not send ranges of a file.

    ``size``: bytes of the wheel. Nothing here is checked by the wheel's sha256: whoever uses it checks what follows
    from it. Raises FetchError.
    """
    return _read(session, link, size, _metadata)


def wheel_modules(session: requests.Session, link: Link, size: int) -> frozenset[str] | None:
    """The uppermost names that a wheel's files can be imported by, by its list of files; else as ``wheel_metadata``."""
    return _read(session, link, size, _modules)


def _read(session: requests.Session, link: Link, size: int, of: Callable[[zipfile.ZipFile, Link], Read]) -> Read | None:
    try:
        if link.url.startswith(f"{HERE}:"):
            with local_path(link.url).open("rb") as file, zipfile.ZipFile(file) as wheel:
                return of(wheel, link)
        ranges = _Ranges(session, link, size)
        if not ranges.served:
            return None
        with zipfile.ZipFile(ranges) as wheel:
            return of(wheel, link)
    except requests.RequestException as error:
        raise network_error(error, f"cannot read the metadata of {link.filename}") from error
    except (OSError, zipfile.BadZipFile, NotImplementedError, RuntimeError, ValueError) as error:
        raise FetchError(f"{link.filename} has no usable metadata", where=f"{redact(link.url)}: {error}") from error


def _metadata(wheel: zipfile.ZipFile, link: Link) -> bytes:
    names = [info for info in wheel.infolist() if info.filename.endswith(".dist-info/METADATA")]
    own = [info for info in names if info.filename.count("/") == 1]
    if len(own) != 1 or own[0].file_size > LARGEST:
        raise FetchError(f"{link.filename} has no usable metadata", where=f"{len(own)} files METADATA")
    with wheel.open(own[0]) as inner:
        return inner.read(LARGEST)


def _modules(wheel: zipfile.ZipFile, _: Link) -> frozenset[str]:
    paths = (INSTALLED.sub("", info.filename) for info in wheel.infolist() if info.filename.endswith(IMPORTABLE))
    return frozenset(name for path in paths if (name := re.split(r"[/.]", path, maxsplit=1)[0]).isidentifier())


class _Ranges(io.RawIOBase):
    """A file of a server, of which each read asks one range."""

    def __init__(self, session: requests.Session, link: Link, size: int) -> None:
        self.session, self.link, self.size = session, link, size
        self.place, self.left = 0, MOST_READ
        self.kept = (0, b"")
        self.served = True
        self._fill(max(0, size - BLOCK))

    def readable(self) -> bool:
        """As zipfile asks."""
        return True

    def seekable(self) -> bool:
        """As zipfile asks."""
        return True

    def tell(self) -> int:
        """Where the next read begins."""
        return self.place

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """As of any file."""
        self.place = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self.place, io.SEEK_END: self.size}[whence]
        return self.place

    def read(self, size: int | None = -1) -> bytes:
        """The bytes from here on. Raises OSError for a server that ends early, or when it is too much."""
        size = -1 if size is None else size
        end = self.size if size < 0 else min(self.size, self.place + size)
        start, known = self.kept
        if not start <= self.place <= end <= start + len(known):
            self._fill(self.place, max(end - self.place, BLOCK))
            start, known = self.kept
        found = known[self.place - start : end - start]
        self.place += len(found)
        return found

    def _fill(self, start: int, count: int = BLOCK) -> None:
        """Keep one range."""
        count = min(count, self.size - start)
        self.left -= count
        if self.left < 0:
            raise OSError(f"its list of files is longer than {MOST_READ >> 20} MiB")
        if count <= 0:
            return
        headers = {"Range": f"bytes={start}-{start + count - 1}", "Accept-Encoding": "identity"}
        with self.session.get(
            self.link.url, headers=headers, timeout=TIMEOUT_S, verify=self.session.verify, stream=True
        ) as reply:
            reply.raise_for_status()
            if reply.status_code != PARTIAL:
                if self.kept[1]:
                    raise OSError(f"its server answered {reply.status_code} for a part of it")
                self.served = False
                return
            self.kept = start, _at_most(reply, count)


def _at_most(reply: requests.Response, count: int) -> bytes:
    """The range that was asked; raises OSError for a server that sends another number of bytes."""
    whole = bytearray()
    for block in reply.iter_content(BLOCK):
        whole += block
        if len(whole) > count:
            break
    if len(whole) != count:
        raise OSError(f"its server sent {len(whole)} bytes in place of {count}")
    return bytes(whole)
