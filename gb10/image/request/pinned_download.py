"""Notes of the store: the download, by its sha256, that a URL or a commit gave before."""

from pathlib import Path

from gb10.core.fetch import intact, stored
from gb10.core.files import Artifact
from gb10.core.host import Host
from gb10.core.store import note_use


def pinned_sha256(note: Path) -> str:
    """The sha256 that a note holds, its use recorded; empty when there is none. Hold the lock of its entry."""
    if not note.is_file():
        return ""
    note_use(note)
    return note.read_text(encoding="ascii")


def downloaded_file(host: Host, filename: str, sha256: str) -> Path | None:
    """The download in the store, if it is there and undamaged; a damaged one is removed."""
    path = stored(host.store, Artifact(filename, sha256, 0))
    size = path.stat().st_size if path.exists() else 0
    whole = intact(
        host.store,
        Artifact(filename, sha256, size),
        lambda file: host.reporter.say(f"{file.name} is damaged in the store: fetching it again"),
    )
    return path if whole else None


def write_note(host: Host, note: Path, sha256: str) -> None:
    """Write a note anew, as the only file of its entry. Hold its lock."""

    def make(work: Path) -> None:
        (work / note.name).write_text(sha256, encoding="ascii")

    host.store.replace(note.parent, make)
