"""The Hub's cache on a machine, as every engine reads it: contents by hash, and links to them by commit."""

import hashlib
import os
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gb10.core.files import link_or_copy
from gb10.errors import UsageError

SHA1_DIGITS: Final = 40
BLOCK: Final = 1 << 20
PART: Final = ".gb10-part"
"""Ends the name of a file that is not whole yet; the Hub's own client goes past it."""


def cache_folder(env: Mapping[str, str]) -> Path:
    """Where the Hub's client keeps models: HF_HUB_CACHE, HF_HOME/hub, else ~/.cache/huggingface/hub."""
    if env.get("HF_HUB_CACHE"):
        found = Path(env["HF_HUB_CACHE"])
    elif env.get("HF_HOME"):
        found = Path(env["HF_HOME"]) / "hub"
    else:
        base = env.get("XDG_CACHE_HOME") or os.path.join(env.get("HOME") or "/nonexistent", ".cache")  # noqa: PTH118
        found = Path(base) / "huggingface/hub"
    if not found.is_absolute():
        raise UsageError(f"the Hub's cache {str(found)!r} is no absolute path", hint="correct HF_HOME or HF_HUB_CACHE")
    return found


def folder_name(repo: str) -> str:
    """``models--OWNER--NAME``."""
    return f"models--{repo.replace('/', '--')}"


@dataclass(frozen=True, slots=True)
class ModelFolder:
    """One model in a cache."""

    cache: Path
    repo: str

    @property
    def path(self) -> Path:
        """All of it."""
        return self.cache / folder_name(self.repo)

    def blob(self, etag: str) -> Path:
        """A content by its hash."""
        return self.path / "blobs" / etag

    def part(self, etag: str) -> Path:
        """A content that is not whole yet."""
        return self.path / "blobs" / f"{etag}{PART}"

    def snapshot(self, commit: str) -> Path:
        """The files of a commit by their names."""
        return self.path / "snapshots" / commit

    def holds(self, etag: str, size: int) -> bool:
        """Whether a content of this size is there; its hash is another question."""
        try:
            return self.blob(etag).stat().st_size == size
        except OSError:
            return False

    def own(self, etag: str) -> None:
        """Make a content a file of this folder, where the client links to one that several models share.

        A container sees this folder alone.
        """
        blob = self.blob(etag)
        if blob.is_symlink() and blob.exists():
            aside = blob.with_name(f"{etag}.{uuid.uuid4().hex[:8]}{PART}")
            link_or_copy(blob.resolve(), aside)
            aside.replace(blob)

    def link(self, commit: str, name: str, etag: str) -> None:
        """Give a content its name in a commit."""
        target = self.snapshot(commit) / name
        depth = len(Path(name).parts) + 1
        content = Path(*[".."] * depth, "blobs", etag)
        if target.is_symlink() and target.readlink() == content:
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        aside = target.with_name(f"{target.name}.{uuid.uuid4().hex[:8]}{PART}")
        aside.symlink_to(content)
        aside.replace(target)

    def name_commit(self, branch: str, commit: str) -> str | None:
        """Let the branch mean the commit where it means none yet; what it means when that is another."""
        ref = self.path / "refs" / branch
        with suppress(OSError):
            known = ref.read_text(encoding="ascii", errors="replace").strip()
            if known:
                return None if known == commit else known
        ref.parent.mkdir(parents=True, exist_ok=True)
        ref.write_text(commit, encoding="ascii")
        return None


def content_hash(path: Path, etag: str) -> str:
    """The hash of a file in the kind of the hash that it must have: sha256, or git's SHA-1 of a blob."""
    if len(etag) != SHA1_DIGITS:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    found = hashlib.sha1(f"blob {path.stat().st_size}\0".encode(), usedforsecurity=False)
    with path.open("rb") as stream:
        while block := stream.read(BLOCK):
            found.update(block)
    return found.hexdigest()
