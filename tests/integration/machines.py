"""Two machines in network namespaces: each has a Docker engine, sshd and its own interfaces, joined by veth pairs.

Names of interfaces are a Spark's. ``enP7s7`` leads to a bridge, by which this machine reaches both. The two halves of
port p0 are a veth pair each, from one machine to the other.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gb10.containers.connection import Engine
from gb10.core.files import digest
from gb10.core.proc import background, capture
from gb10.core.store import Store
from tests.cluster_trees import CLOCK, FUNCTIONS, LAN, Spark, write_spark
from tests.hang import until
from tests.integration.nodes import (
    SshRoot,
    another_engine,
    listening,
    small_disk,
    ssh_root,
    sshd,
    start_engine,
    store_of,
    within,
)

PACKAGES: Final = ("iproute2", "coreutils", "iputils-ping")
PORT: Final = 2222
HALVES: Final = tuple(name for port, _, name, _ in FUNCTIONS if port == "p0")
MTU: Final = 9000


@dataclass(frozen=True, kw_only=True)
class Machine:
    """One namespace."""

    number: int
    namespace: str
    engine: Engine

    @property
    def address(self) -> str:
        """Its address on the way by which this machine reaches it."""
        return _address(self.number)

    @property
    def host(self) -> str:
        """As `--nodes` takes it."""
        return f"ssh://root@{self.address}:{PORT}{self.engine.endpoint.host.removeprefix('unix://')}"

    def run(self, *argv: str) -> str:
        """A program of this machine's in the namespace."""
        return capture([*within(self.namespace), *argv])

    @contextmanager
    def listening_on(self, port: int) -> Iterator[None]:
        """A program that holds a port there."""
        argv = [*within(self.namespace), sys.executable, "-m", "http.server", str(port)]
        with background(argv, log=Path(os.devnull)):
            until(lambda: listening(port, self.address), "the program")
            yield

    def wake(self) -> None:
        """Start its engine again."""
        start_engine(store_of(self.engine).root, self.namespace)


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Both, and the environment in which `ssh` gets in."""

    machines: tuple[Machine, Machine]
    root: SshRoot
    folder: Path
    resize: Callable[[str], None]
    """Gives the disk of the second machine's engine another size."""

    @property
    def env(self) -> dict[str, str]:
        return {**os.environ, "PATH": f"{self.root.clients}:{os.environ['PATH']}"}

    @property
    def used(self) -> str:
        """The bytes that the second engine's disk holds, as a size for ``resize``."""
        found = os.statvfs(self.folder / self.machines[1].namespace / "engine/data")
        return str((found.f_blocks - found.f_bfree) * found.f_frsize)

    @property
    def nodes(self) -> str:
        return ",".join(machine.host for machine in self.machines)

    @contextmanager
    def listening(self, *sparks: Spark) -> Iterator[None]:
        """sshd on both; with ``sparks`` the probe reads there what they are, but for the addresses."""
        with ExitStack() as stack:
            for at, machine in enumerate(self.machines):
                options = _disguise(self.folder, sparks[at]) if sparks else []
                log = self.folder / f"sshd-{machine.number}.log"
                stack.enter_context(
                    sshd(self.root, log, *options, port=PORT, namespace=machine.namespace, address=machine.address)
                )
            yield


def _disguise(folder: Path, spark: Spark) -> list[str]:
    """Options of sshd by which a session there reads a folder as its /sys, /proc and /dev."""
    place = folder / f"disguise-{digest([repr(spark)])[:12]}"
    if not place.exists():
        write_spark(place, spark)
        for name in ("ip", "df", *(["date"] if spark.clock == CLOCK else [])):
            (place / "bin" / name).unlink()
    path = f"{place}/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    return [f"SetEnv=GB10_PROBE_ROOT={place} PATH={path}"]


@contextmanager
def machines(store: Store, folder: Path) -> Iterator[Pair]:
    """The two; their engines and namespaces end with the context."""
    names = [f"gb10-{os.getpid()}-{number}" for number in (1, 2)]
    with ExitStack() as stack:
        _join(stack, names)
        root = stack.enter_context(ssh_root(store, folder, *PACKAGES))
        resize = stack.enter_context(small_disk(folder / names[1] / "engine/data"))
        engines = [stack.enter_context(another_engine(store, folder / name, name)) for name in names]
        one, two = (
            Machine(number=at, namespace=name, engine=engine)
            for at, (name, engine) in enumerate(zip(names, engines, strict=True), 1)
        )
        yield Pair(machines=(one, two), root=root, folder=folder, resize=resize)


def _join(stack: ExitStack, names: list[str]) -> None:
    bridge = f"gb{os.getpid()}"
    for name in names:
        capture(["ip", "netns", "add", name])
        stack.callback(capture, ["ip", "netns", "del", name])
    capture(["ip", "link", "add", bridge, "type", "bridge"])
    stack.callback(capture, ["ip", "link", "del", bridge])
    capture(["ip", "address", "add", f"{_address(254)}/24", "dev", bridge])
    capture(["ip", "link", "set", bridge, "up"])
    for number, name in enumerate(names, 1):
        end = f"{bridge}-{number}"
        capture(["ip", "link", "add", end, "type", "veth", "peer", "name", LAN, "netns", name])
        capture(["ip", "link", "set", end, "master", bridge, "up"])
        _up(name, LAN, f"{_address(number)}/24", 1500)
        _up(name, "lo", "", 65536)
    for at, half in enumerate(HALVES):
        argv = ["ip", "link", "add", half, "netns", names[0], "type", "veth", "peer", "name", half, "netns", names[1]]
        capture(argv)
        for number, name in enumerate(names, 1):
            _up(name, half, f"10.0.{at}.{number}/24", MTU)


def _address(number: int) -> str:
    """Of a network that depends on the process, so that two runs do not meet."""
    return f"10.213.{os.getpid() % 250}.{number}"


def _up(name: str, device: str, address: str, mtu: int) -> None:
    if address:
        capture([*within(name), "ip", "address", "add", address, "dev", device])
    capture([*within(name), "ip", "link", "set", device, "mtu", str(mtu), "up"])
