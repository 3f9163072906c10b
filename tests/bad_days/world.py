"""The machines of the bad days: one that works, on a disk of its own, two nodes, a registry and a Hub behind bad lines.

A further machine is left alone: what it builds is the truth.
"""

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gb10.containers.connection import Engine
from gb10.containers.embedded.daemon import down, up
from gb10.core.proc import CommandFailedError, capture
from gb10.core.store import Store, open_store
from gb10.image.context import Context, open_context
from tests.integration import own_store
from tests.integration.hub_server import TOKEN, FakeHub, Repository, fake_hub, make_signer
from tests.integration.nodes import Registry, another_engine, registry, small_disk, ssh_keygen, ssh_server
from tests.integration.proxy import Line, bad_line
from tests.integration.test_pipeline import small

REPO: Final = "me/wheels"
DISK: Final = 12 << 30
"""Bytes that the machine's disk may grow to."""
BUILD_PY: Final = Path(__file__).parents[2] / "build.py"
TOOL: Final = Path(__file__).with_name("tool.py")


@dataclass(frozen=True, kw_only=True, slots=True)
class World:
    """All of them."""

    folder: Path
    truth: Context
    store: Store
    engine: Engine
    nodes: tuple[Engine, Engine]
    hosts: tuple[str, str]
    place: Registry
    line: Line
    hub: FakeHub
    hub_line: Line
    env: Mapping[str, str]
    full: Callable[[], AbstractContextManager[None]]
    node_full: Callable[[], AbstractContextManager[None]]

    def build_py(self, *words: str) -> list[str]:
        """The command line of the tool itself."""
        return [sys.executable, str(BUILD_PY), *words]

    def small(self, *words: str) -> list[str]:
        """That of the tool with the small image."""
        return [sys.executable, str(TOOL), *words]


@contextmanager
def world() -> Iterator[World]:
    """The machines, gone afterwards."""
    user = dict(os.environ)
    with ExitStack() as stack:
        truth = own_store.claim(user, "truth")
        stack.callback(own_store.release, user, truth)
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bad-days-", dir=truth.root)))
        passing = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bd-", dir="/tmp")))
        clean = {name: value for name, value in user.items() if not name.startswith("DOCKER_")}
        ctx = open_context({**clean, **own_store.variables(user, truth)}, verbosity=-1)
        store = _machine(stack, folder, truth)
        env = {**clean, **own_store.variables(user, store), "TMPDIR": str(passing), "NO_COLOR": "1"}
        place = stack.enter_context(registry(truth, folder))
        hub = stack.enter_context(fake_hub())
        hub.repositories[REPO] = Repository()
        hub_line = stack.enter_context(bad_line(hub.url.removeprefix("http://")))
        storage_line = stack.enter_context(bad_line(hub.storage.removeprefix("http://")))
        hub.storage = f"http://{storage_line.host}"
        env |= {"HF_ENDPOINT": f"http://{hub_line.host}", "HF_TOKEN": TOKEN, "HF_HUB_DISABLE_XET": "1"}
        env |= {"HF_HOME": str(folder / "hf"), "GB10_WHEEL_CACHE": REPO, "PATH": ssh_keygen(truth, folder / "keygen")}
        env |= make_signer(folder, "me", env)
        disk = stack.enter_context(small_disk(folder / "one/engine/data"))
        nodes = tuple(stack.enter_context(another_engine(truth, folder / name)) for name in ("one", "two"))
        port, clients = stack.enter_context(ssh_server(truth, _made(folder / "sshd")))
        env["PATH"] = f"{clients}:{env['PATH']}"
        socket = nodes[1].endpoint.host.removeprefix("unix://")
        yield World(
            folder=folder,
            truth=ctx,
            store=store,
            engine=up(store, env),
            nodes=(nodes[0], nodes[1]),
            hosts=(nodes[0].endpoint.host, f"ssh://root@127.0.0.1:{port}{socket}"),
            place=place,
            line=stack.enter_context(bad_line(place.host)),
            hub=hub,
            hub_line=hub_line,
            env=env,
            full=lambda: _ballast(store.root),
            node_full=lambda: _shrunk(folder / "one/engine/data", disk),
        )


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def _machine(stack: ExitStack, folder: Path, truth: Store) -> Store:
    """A store on a disk of its own, with what an earlier run fetched of that which the small image may need."""
    image, root = folder / "disk", _made(folder / "machine")
    image.touch()
    os.truncate(image, DISK)
    capture(["mkfs.ext4", "-q", "-m", "0", str(image)])
    capture(["mount", "-o", "loop,discard", str(image), str(root)])
    stack.callback(capture, ["umount", str(root)])
    store = open_store({"GB10_CACHE_DIR": str(root)})
    stack.callback(down, store)
    wanted = set(re.findall("[0-9a-f]{64}", small()[1].model_dump_json()))
    for scratch in ("engine", "environments", "downloads"):
        for entry in (truth.root / scratch).glob("*"):
            if scratch != "downloads" or entry.name in wanted:
                _copy(entry, root / scratch / entry.name)
    return store


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(exist_ok=True)
    if source.is_symlink():
        target.symlink_to(source.readlink())
    elif source.is_dir():
        shutil.copytree(source, target, symlinks=True)
    else:
        shutil.copy(source, target)


@contextmanager
def _ballast(root: Path) -> Iterator[None]:
    """A disk that has next to no room, while the context lasts. Others write meanwhile: half of the rest at a time."""
    files = [root / f"ballast-{number}" for number in range(40)]
    try:
        for file in files:
            free = shutil.disk_usage(root).free
            if free > 8192:
                with suppress(CommandFailedError):
                    capture(["fallocate", "--length", str(free // 2), str(file)])
        yield
    finally:
        for file in files:
            file.unlink(missing_ok=True)


@contextmanager
def _shrunk(folder: Path, resize: Callable[[str], None]) -> Iterator[None]:
    """A node's disk that has next to no room, while the context lasts. It may fill between a look and the change."""
    try:
        for scratch in (4096, 1 << 16, 1 << 20):
            with suppress(CommandFailedError):
                resize(str(shutil.disk_usage(folder).used + scratch))
                break
        else:
            resize(str(shutil.disk_usage(folder).used + (1 << 26)))
        yield
    finally:
        resize("4g")
