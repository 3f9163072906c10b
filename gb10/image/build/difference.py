"""Files that differ between two images: their paths, and what diffoscope says of the first of them."""

import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from gb10.containers.connection import Engine
from gb10.containers.image_reading import read_folders
from gb10.containers.images import ImageInfo
from gb10.core.host import Host
from gb10.core.proc import CommandFailedError, capture_while_active

PROGRAM: Final = "diffoscope"
FIRST: Final = 4
"""Files that it compares."""
LARGEST: Final = 4 << 20
"""Bytes of a file that it compares."""
SECONDS: Final = 60
LINES: Final = 60
DIFFERENT: Final = 1
"""Its exit code when it found a difference."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Different:
    """A path that differs, the words for how, and the larger size of a file whose content does."""

    path: str
    differs: tuple[str, ...]
    size: int = 0


def described(host: Host, engine: Engine, images: tuple[ImageInfo, ImageInfo], files: Iterable[Different]) -> str:
    """The first lines of diffoscope's report on the first small files; nothing where it is not installed."""
    wanted = [f"/{one.path}" for one in files if "content" in one.differs and 0 < one.size <= LARGEST][:FIRST]
    if not wanted or shutil.which(PROGRAM, path=host.env.get("PATH")) is None:
        return ""
    with host.store.folder("diffoscope") as folder, host.reporter.task(PROGRAM):
        for name, image in zip(("before", "after"), images, strict=True):
            found, _ = read_folders(engine, host.store, image, wanted)
            _lay(folder / name, found)
        return _report(host, folder)


def _lay(folder: Path, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        path = folder.joinpath(*PurePosixPath(name).parts[1:])
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def _report(host: Host, folder: Path) -> str:
    """Raises nothing: a report is an extra; what stops it is said."""
    out = folder / "report"
    argv = [PROGRAM, "--no-progress", "--exclude-directory-metadata=yes", f"--timeout={SECONDS}", "--text", str(out)]
    try:
        capture_while_active([*argv, "before", "after"], patience=2 * SECONDS, cwd=folder, env=host.env)
    except CommandFailedError as error:
        if error.returncode != DIFFERENT:
            host.reporter.say(f"{PROGRAM} failed: {error.tail}")
            return ""
    return "\n".join(out.read_text(encoding="utf-8", errors="replace").splitlines()[:LINES]) if out.exists() else ""
