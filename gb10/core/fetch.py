"""Downloads by content: resumed when broken off, hashed while written, renamed only when the sha256 is right."""

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from gb10.core.files import Artifact
from gb10.core.store import Store, file_sha256, note_use
from gb10.errors import FetchError, UsageError

SYSTEM_CA = Path("/etc/ssl/certs/ca-certificates.crt")
CA_VARIABLES = ("GB10_CA_BUNDLE", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "PIP_CERT", "CURL_CA_BUNDLE")


@dataclass(frozen=True, slots=True)
class Place:
    """A URL, and the headers that its server wants."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict)


def ca_bundle(env: Mapping[str, str]) -> Path | None:
    """The CA bundle the user's own settings name, else the system's, else None (the library's). Raises UsageError."""
    for name in CA_VARIABLES:
        if env.get(name):
            if not Path(env[name]).exists():
                raise UsageError(f"{name} names a CA bundle that does not exist", where=env[name])
            return Path(env[name])
    return SYSTEM_CA if SYSTEM_CA.exists() else None


def stored(store: Store, artifact: Artifact) -> Path:
    """Where the store keeps an artifact, present or not."""
    return store.entry("downloads", artifact.sha256) / artifact.filename


def missing_files(store: Store, files: Iterable[Artifact]) -> set[str]:
    """The sha256 of the files that the store lacks. By strings, not paths: a plan looks for five hundred."""
    folder = store.root / "downloads"
    return {
        file.sha256
        for file in files
        if not os.path.exists(f"{folder}/{file.sha256}/{file.filename}")  # noqa: PTH110 - a tenth of a Path's time
    }


def store_paths(store: Store, files: Iterable[Artifact]) -> list[Path]:
    """Where the store keeps these files."""
    return [stored(store, file) for file in files]


def redact(url: str) -> str:
    """The URL without the user name and password that it may hold."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def accept(part: Path, artifact: Artifact, final: Path) -> None:
    """Move a file to its place in the store; raises FetchError, and removes it, when it is not the locked one."""
    found = file_sha256(part)
    if found != artifact.sha256:
        part.unlink()
        raise FetchError(
            f"{artifact.filename} is not the file that was locked",
            where=f"expected sha256 {artifact.sha256}\n   found sha256 {found}",
            hint="the mirror or a proxy changed it; run again, or point to another index or mirror",
        )
    final.parent.mkdir(parents=True, exist_ok=True)
    part.replace(final)


def intact(store: Store, artifact: Artifact, damaged: Callable[[Path], None]) -> bool:
    """Re-hash the files in the store; a damaged file goes to ``damaged`` and is removed, to be fetched again."""
    path = stored(store, artifact)
    if not path.exists():
        return False
    if _is_whole(path, artifact):
        return True
    with store.locked(f"download-{artifact.sha256}"):
        # Another run may have fetched it anew while we hashed or waited.
        if _is_whole(path, artifact):
            return True
        if path.exists():
            damaged(path)
            path.unlink()
    return False


def _is_whole(path: Path, artifact: Artifact) -> bool:
    try:
        whole = path.stat().st_size == artifact.size and file_sha256(path) == artifact.sha256
        if whole:
            note_use(path)
        return whole
    except FileNotFoundError:
        return False
