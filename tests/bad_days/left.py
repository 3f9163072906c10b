"""What a command may not leave behind: processes, scratch, sockets, locks, containers, passing tags, mounts."""

import re
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

from gb10.containers.connection import Engine, client
from gb10.containers.embedded.daemon import Place, alive, members
from gb10.containers.embedded.privileges import mount_points
from gb10.core.store import Store, lock_now
from tests.integration.nodes import store_of

RUN: Final = "GB10_TEST_RUN"
"""The variable by which the processes of one command are known."""
PASSING: Final = re.compile(r"gb10/arriving|:unproven-|^127\.0\.0\.1:\d+/gb10-passing")
GRACE: Final = 60.0
"""Seconds that a child of a killed command may take to see that nobody listens."""


def processes_left(run: str, engines: tuple[Engine, ...], grace: float = GRACE) -> list[str]:
    """The processes of a command that outlive it, engines not counted: who killed one has it started again."""
    deadline = time.monotonic() + grace
    while (found := _running(run, engines)) and time.monotonic() < deadline:
        time.sleep(0.1)
    return [f"process {pid} ({name})" for pid, name in found.items()]


def _running(run: str, engines: tuple[Engine, ...]) -> dict[int, str]:
    mark, found = f"{RUN}={run}".encode(), dict[int, str]()
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark in path.read_bytes().split(b"\0"):
                pid = int(path.parent.name)
                found[pid] = (path.parent / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")[:120]
        except OSError:
            continue
    engines_own = {pid for engine in engines for pid in _of(Place(store_of(engine)))}
    return {pid: name for pid, name in found.items() if pid not in engines_own and alive(pid)}


def _of(place: Place) -> list[int]:
    return [*place.daemons(), *members(place.cgroup)]


def scratch_left(store: Store, passing: Path) -> list[str]:
    """Unfinished files of commands that ended; what a download left may be resumed."""
    found = [path for path in (store.root / "tmp").iterdir() if path.suffix != ".part"]
    return [f"scratch {path}" for path in (*found, *passing.iterdir())]


def locks_held(store: Store) -> list[str]:
    """The locks that somebody holds."""
    held = []
    for path in (store.root / "locks").iterdir():
        with path.open("a+", encoding="utf-8") as handle:
            if not lock_now(handle):
                held.append(f"lock {path.name}")
    return held


def kept_by(engine: Engine) -> Iterator[str]:
    """Containers, and tags that were to pass."""
    with closing(client(engine)) as sdk:
        yield from (f"container {one.name}" for one in sdk.containers.list(all=True))
        tags = [
            tag for image in sdk.api.images() for tag in (*(image["RepoTags"] or ()), *(image["RepoDigests"] or ()))
        ]
        yield from (f"tag {tag}" for tag in tags if PASSING.search(tag))


def mounts_below(*folders: Path) -> set[str]:
    """The mount points in these folders."""
    return {point for point in mount_points() if any(Path(point).is_relative_to(folder) for folder in folders)}
