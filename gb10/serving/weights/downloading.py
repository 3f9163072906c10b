"""The files of a model come from the Hub into this machine's cache: resumed where a run broke off, each by its hash."""

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import requests

from gb10.core.concurrency import Stop, map_parallel
from gb10.core.fetch import Place
from gb10.core.files import Artifact
from gb10.core.http_session import open_session, transfer
from gb10.errors import FetchError, UsageError
from gb10.image.context import Context, cores
from gb10.serving.weights.hub_cache import ModelFolder, content_hash
from gb10.serving.weights.model_lock import Etag, LockedFile, LockedModel
from gb10.sources.hub import Hub

STREAMS: Final = 8
"""Files that are downloaded at the same time."""
TRIES: Final = 5
"""Attempts that bring no byte, after which a file is given up."""
PAUSE: Final = 1.0
RESERVE: Final = 1 << 30
"""Bytes of a disk that stay free."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Download:
    """One model, its repository and its folder in the cache; ``checked`` gets what is right, and since when."""

    ctx: Context
    hub: Hub
    model: LockedModel
    folder: ModelFolder
    checked: dict[Etag, int]


def missing_files(model: LockedModel, folder: ModelFolder) -> list[LockedFile]:
    """The files whose content is not there, the largest first; each content once."""
    contents = {file.etag: file for file in model.files}
    absent = [file for file in contents.values() if not folder.holds(file.etag, file.size)]
    return sorted(absent, key=lambda file: file.size, reverse=True)


def missing_bytes(model: LockedModel, folder: ModelFolder) -> int:
    """What a download still brings: without what an earlier run left."""
    return sum(max(0, file.size - _have(folder.part(file.etag))) for file in missing_files(model, folder))


def check_disk(needed: int, folder: Path) -> None:
    """Raise UsageError when a disk has no room for so many bytes, before anything is downloaded."""
    above = next(path for path in (folder, *folder.parents) if path.exists())
    free = shutil.disk_usage(above).free
    if needed and needed + RESERVE > free:
        raise UsageError(
            f"{gb(needed)} are missing, and the disk of {folder} has {gb(free)} free",
            hint=f"make room there ({gb(RESERVE)} must stay free), or set HF_HOME to a folder on another disk",
        )


def gb(size: int) -> str:
    """``12.3 GB``."""
    return f"{size / 1e9:.1f} GB"


def download(work: Download) -> int:
    """Fetch what is missing: the bytes that came. Raises FetchError, UsageError for a full disk."""
    files = missing_files(work.model, work.folder)
    total = missing_bytes(work.model, work.folder)
    if not files:
        return 0
    work.folder.blob("x").parent.mkdir(parents=True, exist_ok=True)
    reporter, stop = work.ctx.reporter, work.ctx.stop

    def arrived(count: int) -> None:
        stop.check()
        reporter.advance(task, count)

    name = f"download {work.model.repo}, {len(files)} files"
    with reporter.task(name, total) as task, open_session(work.ctx.env) as session:
        map_parallel(stop, lambda file: _fetch(work, session, file, arrived), files, STREAMS)
    return total


def _fetch(work: Download, session: requests.Session, file: LockedFile, arrived: Callable[[int], None]) -> None:
    """One file, whole and right; a wrong one is fetched once more. Raises FetchError."""
    part = work.folder.part(file.etag)
    for last in (False, True):
        _receive(work, session, file, arrived)
        found = content_hash(part, file.etag)
        if found == file.etag:
            blob = part.replace(work.folder.blob(file.etag))
            work.checked[file.etag] = blob.stat().st_mtime_ns
            return
        part.unlink()
        if not last:
            work.ctx.reporter.say(f"{file.path} came damaged: fetching it again")
    raise FetchError(
        f"{file.path} of {work.model.repo} is not the file that the Hub lists",
        where=f"expected {file.etag}\n   found {found}",
        hint="a proxy or a mirror changes it; run again on another network",
    )


def _receive(work: Download, session: requests.Session, file: LockedFile, arrived: Callable[[int], None]) -> None:
    """All bytes of a file, over as many connections as it takes. Raises FetchError."""
    part, tries = work.folder.part(file.etag), TRIES
    artifact = Artifact(file.path, file.etag, file.size)
    if file.size == 0:
        part.write_bytes(b"")
    while _have(part) != file.size:
        before, place = _have(part), work.hub.place(file.path, work.model.revision)
        failed = _transferred(session, place, part, artifact, arrived)
        if _have(part) == file.size:
            return
        tries = TRIES if failed and _have(part) > before else tries - 1
        if tries == 0:
            raise failed or FetchError(
                f"{file.path} came as {_have(part)} bytes of {file.size}",
                hint="a proxy or a mirror changes it; run again on another network",
            )
        work.ctx.stop.check()
        time.sleep(PAUSE)


def _transferred(
    session: requests.Session, place: Place, part: Path, artifact: Artifact, arrived: Callable[[int], None]
) -> FetchError | None:
    """Why the connection broke off; None when the server called its answer whole."""
    try:
        transfer(session, place, part, artifact, arrived)
    except FetchError as error:
        return error
    return None


def _have(part: Path) -> int:
    try:
        return part.stat().st_size
    except OSError:
        return 0


def damaged_files(stop: Stop, model: LockedModel, folder: ModelFolder, checked: dict[Etag, int]) -> list[LockedFile]:
    """The files whose content is not what its name says. ``checked`` are those that were right, and since when."""

    def is_damaged(file: LockedFile) -> bool:
        blob = folder.blob(file.etag)
        changed = blob.stat().st_mtime_ns
        if checked.get(file.etag) != changed and content_hash(blob, file.etag) != file.etag:
            return True
        checked[file.etag] = changed
        return False

    files = list({file.etag: file for file in model.files}.values())
    return [file for file, bad in zip(files, map_parallel(stop, is_damaged, files, cores()), strict=True) if bad]
