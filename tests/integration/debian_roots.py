"""Debian's packages and roots of them for tests: asked of the mirror once a day, packed once, shared by all workers."""

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from gb10.core.files import digest
from gb10.core.http_session import open_session
from gb10.core.proc import capture
from gb10.core.store import Store, open_store
from gb10.image.context import build_architecture
from gb10.image.plan.catalog import ROOT, Catalog
from gb10.image.plan.compiles import UNPACKER
from gb10.image.rootfs.unpack import write_rootfs
from gb10.sources.debian.mirror import LockedDeb, fetch_debs, mirror_url
from gb10.sources.debian.resolve import resolve_set
from tests.integration import own_store

EPOCH: Final = 1_789_000_000


def kept() -> Store:
    """What all workers and later runs share."""
    return open_store({"GB10_CACHE_DIR": str(own_store.base(os.environ) / "kept")})


def resolved(*packages: str, suite: str = "trixie", architecture: str = "") -> list[LockedDeb]:
    """These packages and all that they need, as the mirror has them today; for this machine, or an architecture."""
    today, machine = datetime.now(UTC).date().isoformat(), architecture or build_architecture()

    def ask(folder: Path) -> None:
        found = resolve_set(kept(), os.environ, suite=suite, architecture=machine, packages=packages)
        (folder / "debs.json").write_text(json.dumps([deb.model_dump() for deb in found]), encoding="utf-8")

    key = digest([today, mirror_url(os.environ), suite, machine, packages])
    path = kept().ensure("debian-sets", key, ask) / "debs.json"
    return [LockedDeb.model_validate(deb) for deb in json.loads(path.read_text(encoding="utf-8"))]


def packed_root(store: Store, *packages: str) -> Path:
    """The tar of these packages and all that they need; its key covers them and the code that packs them."""
    locked = resolved(*packages)

    def pack(folder: Path) -> None:
        with open_session(os.environ) as session:
            write_rootfs(fetch_debs(session, store, os.environ, locked), folder / "root.tar", epoch=EPOCH)

    code = Catalog(ROOT).toolkit.digests_of(*UNPACKER)
    key = digest([[deb.sha256 for deb in locked], EPOCH, code])
    return kept().ensure("debian-roots", key, pack) / "root.tar"


def unpacked_root(store: Store, folder: Path, *packages: str) -> Path:
    """A root of these packages and all that they need, for chroot."""
    assert os.geteuid() == 0, "this test calls chroot: run it as root"
    root = folder / "root"
    root.mkdir()
    tar = packed_root(store, *packages)
    capture(["tar", "--extract", "--numeric-owner", f"--file={tar}", f"--directory={root}"])
    return root
