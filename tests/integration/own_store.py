"""The store of a test run: its own, gone afterwards. What is named by a hash and never changes is kept between runs.

``GB10_TEST_STORE``, else ``$XDG_CACHE_HOME/gb10-tests``, has a room ``kept`` and a folder for each worker that runs.
The user's store is read for downloads alone, and each of them is checked before it is linked.
"""

import fcntl
import os
import re
import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from gb10.containers.embedded.daemon import Place, down
from gb10.containers.embedded.privileges import mount_points
from gb10.containers.packages import unpack
from gb10.core.config import store_root
from gb10.core.proc import capture
from gb10.core.store import Store, file_sha256, open_store
from gb10.core.store_gc import last_used
from gb10.image.plan.catalog import ROOT

KEPT: Final = (
    "downloads",
    "environments",
    "cuda-tools",
    "cmake",
    "trees",
    "emulators",
    "rootfss",
    "programs",
)
"""Rooms of entries that are whole or absent, and the same for everybody who has the key."""
READ: Final = ("deploy-tools", "explain")
"""Such rooms, of tens of thousands of files, whose entries no test changes: all workers read the one that is kept."""
WHEELS: Final = ("gb10_kernels-*.whl", "vllm-*.whl")
"""Compiled wheels that are kept: minutes of compiling, and what reads them asks only what is in them."""
PROGRAMS: Final = re.compile(r"[0-9a-f]{16}|packages\.json|skopeo-\w+")
"""Of the engine's room: the programs, and which they are."""
DOCKER_SOCKET: Final = Path("/var/run/docker.sock")
UNUSED: Final = 30 * 86_400.0
"""Seconds. What no run read or wrote for so long is no longer kept."""


def base(env: Mapping[str, str]) -> Path:
    """Where test runs keep their files."""
    if env.get("GB10_TEST_STORE"):
        return Path(env["GB10_TEST_STORE"])
    return Path(env.get("XDG_CACHE_HOME") or Path(env.get("HOME") or Path.home()) / ".cache") / "gb10-tests"


@contextmanager
def alone(home: Path) -> Iterator[Store]:
    """The store of what is kept, while no other process links or removes its entries."""
    home.mkdir(parents=True, exist_ok=True)
    with (home / "clear.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield open_store({"GB10_CACHE_DIR": str(home.absolute() / "kept")})


def prepare(env: Mapping[str, str]) -> None:
    """Make what every worker needs, once: the environment of ``build.py`` and the engine's programs."""
    with alone(base(env)) as kept:
        prune(kept, time.time())
        capture([sys.executable, str(ROOT / "build.py"), "--version"], env={**env, "GB10_CACHE_DIR": str(kept.root)})
        unpack(kept, env)


def prune(kept: Store, now: float) -> None:
    """Remove entries that no run used for a month. The links to a file share its times."""
    for entry in kept.root.glob("*/*"):
        if now - last_used(entry) > UNUSED:
            kept.discard(entry)


def claim(env: Mapping[str, str], worker: str) -> Store:
    """A fresh store for this worker, with what earlier runs kept; runs that were killed are cleared first."""
    home = base(env)
    with alone(home) as kept:
        for left in home.glob("run-*"):
            if not Path("/proc", left.name.split("-")[1]).exists():
                _clear(Store(left))
        store = open_store({"GB10_CACHE_DIR": str(home / f"run-{os.getpid()}-{worker}")})
        keep_verified(store_root(env) / "downloads", kept.root / "downloads")
        for entry in _entries(kept.root):
            _link(kept.root / entry, store.root / entry)
        for entry in _unpacked(kept.root):
            (store.root / entry).parent.mkdir(exist_ok=True)
            (store.root / entry).symlink_to(kept.root / entry)
    return store


def release(env: Mapping[str, str], store: Store) -> None:
    """End the worker's engine, keep what has a hash for a name, remove all else."""
    down(store)
    keep_verified(store.root / "downloads", base(env) / "kept/downloads")
    for entry in _entries(store.root):
        if entry.parts[0] != "downloads":
            _link(store.root / entry, base(env) / "kept" / entry)
    for entry in _unpacked(store.root):
        kept = base(env) / "kept" / entry
        kept.parent.mkdir(parents=True, exist_ok=True)
        with suppress(OSError):  # another worker was faster
            (store.root / entry).rename(kept)
    _clear(store)


def variables(env: Mapping[str, str], store: Store) -> dict[str, str]:
    """What leads the tool to this store, and, where the machine has a Docker, away from that."""
    docker = DOCKER_SOCKET.exists() or any(name in env for name in ("DOCKER_HOST", "DOCKER_CONTEXT"))
    own = {"DOCKER_HOST": Place(store).endpoint.host} if docker else {}
    return {"GB10_CACHE_DIR": str(store.root), "XDG_STATE_HOME": str(store.root / "state"), **own}


def keep_verified(downloads: Path, kept: Path) -> None:
    """Link each download that has the sha256 that its folder names."""
    for entry in downloads.iterdir() if downloads.is_dir() else ():
        for path in entry.iterdir() if not (kept / entry.name).exists() else ():
            with suppress(OSError):  # another file system, or a file that its owner removes just now
                if file_sha256(path) == entry.name:
                    _link(entry, kept / entry.name)


def _entries(root: Path) -> list[Path]:
    """What is kept of a store, relative to it; links come after what they lead to."""
    found = [path for section in KEPT for path in (root / section).glob("[!.]*")]
    compiled = [path.parent for name in WHEELS for path in root.glob(f"wheels/[!.]*/{name}")]
    found += [entry for entry in compiled if (entry / "measured.json").exists()]  # a grafted wheel has none
    found += [path for path in (root / "engine").glob("*") if PROGRAMS.fullmatch(path.name)]
    return [path.relative_to(root) for path in sorted(found, key=lambda path: (path.is_symlink(), path.is_file()))]


def _unpacked(root: Path) -> list[Path]:
    """The entries of READ that a store has itself, relative to it."""
    found = [path for section in READ for path in (root / section).glob("[!.]*")]
    return [path.relative_to(root) for path in found if path.is_dir() and not path.is_symlink()]


def _link(source: Path, target: Path) -> None:
    """The same entry at another place, by hard links; whole or absent."""
    if target.exists() or target.is_symlink():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    aside = target.with_name(f".{target.name}.{os.getpid()}")
    if source.is_symlink():
        aside.symlink_to(source.readlink())
    elif source.is_dir():
        shutil.copytree(source, aside, symlinks=True, copy_function=os.link)
    else:
        aside.hardlink_to(source)
    try:
        aside.rename(target)
    except OSError:  # another worker was faster
        shutil.rmtree(aside)


def spoil(path: Path, content: bytes) -> None:
    """Put other content at an entry's place. Its bytes may be shared with the user's store by a hard link."""
    path.unlink()
    path.write_bytes(content)


def _clear(store: Store) -> None:
    down(store)
    for point in sorted(mount_points(), reverse=True):  # a test that was killed leaves what it mounted, deepest first
        if Path(point).is_relative_to(store.root):
            capture(["umount", "--lazy", point])
    capture(["rm", "-rf", "--one-file-system", "--", str(store.root)])  # three times as fast as shutil
