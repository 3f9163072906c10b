"""One image on many nodes: each pulls from the registry, or one head does and the others take it from there.

    python3 -m bootstrap benches/many_nodes.py [--nodes 1 4 16] [--wan 200] [--lan 1000]

Each node is a network namespace with a Docker engine and sshd, on one switch. The registry is behind a link of
``--wan`` Mbit/s that all share, each node and the head behind one of ``--lan``. The image is a stand-in for vLLM's: its
layers have a fiftieth of the sizes, of which half compresses. Prints JSON: for each number of nodes and each way the
seconds, and MB by link as the kernel counts them. Needs root; 16 nodes need 4 GB of disk and 2 GB of memory.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benches.via_head import LAYERS
from gb10.containers.connection import Engine, client
from gb10.containers.images import require_image
from gb10.containers.reach import connect_or_start
from gb10.containers.registry.transfer import Moves, push
from gb10.core.proc import background, capture
from gb10.image.context import Context, open_context
from tests.hang import until
from tests.integration import own_store
from tests.integration.nodes import (
    another_engine,
    build_py,
    listening,
    random_image,
    registry,
    ssh_root,
    sshd,
    within,
)

SWITCH: Final = "gb10-bench"
NETWORK: Final = "10.214.0"
RELAY_PORT: Final = 5000
SSH_PORT: Final = 2222
SIZES: Final = tuple(size // 5 for size in LAYERS)
IMAGE: Final = f"127.0.0.1:{RELAY_PORT}/gb10/bench:1"
"""On every machine this name leads to the registry, by a relay: Docker takes a registry without TLS there alone."""
RELAY: Final = """\
import asyncio, sys
async def copy(source, sink):
    try:
        while block := await source.read(1 << 18):
            sink.write(block)
            await sink.drain()
    except ConnectionError:
        pass
    finally:
        sink.close()
async def serve(reader, writer):
    onward, back = await asyncio.open_connection(*sys.argv[1].rsplit(":", 1))
    await asyncio.gather(copy(reader, back), copy(onward, writer))
async def main():
    async with await asyncio.start_server(serve, "127.0.0.1", int(sys.argv[2])) as server:
        await server.serve_forever()
asyncio.run(main())
"""


@dataclass(frozen=True, kw_only=True)
class Node:
    """A namespace, its engine, and how `--host` names it."""

    number: int
    engine: Engine

    @property
    def host(self) -> str:
        socket = self.engine.endpoint.host.removeprefix("unix://")
        return f"ssh://root@{NETWORK}.{self.number}:{SSH_PORT}{socket}"


def main() -> None:
    """Measure each number of nodes by both ways; one document."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, nargs="+", default=[1, 4, 16])
    parser.add_argument("--wan", type=int, default=200, metavar="MBIT")
    parser.add_argument("--lan", type=int, default=1000, metavar="MBIT")
    given = parser.parse_args()
    user = dict(os.environ)
    store = own_store.claim(user, "bench")
    os.environ.update(own_store.variables(user, store))
    try:
        with tempfile.TemporaryDirectory(dir=store.root) as folder:
            ctx = open_context(os.environ, verbosity=-1)
            table = compared(ctx, Path(folder), given.nodes, given.wan, given.lan)
            print(json.dumps({"image_mb": sum(SIZES) / 1e6, "wan": given.wan, "lan": given.lan, "table": table}))
    finally:
        own_store.release(user, store)


def compared(ctx: Context, folder: Path, counts: Sequence[int], wan: int, lan: int) -> list[dict[str, object]]:
    """A row for each number of nodes and each way."""
    head = connect_or_start(ctx.env, ctx.store)
    with cluster(ctx, folder, max(counts), wan, lan) as nodes:
        random_image(head, IMAGE, *SIZES, seed=1, share=0.5)
        push(head, IMAGE, Moves())
        layers = require_image(head, IMAGE).diff_ids
        rows = []
        for count in counts:
            hosts = [word for node in nodes[:count] for word in ("--host", node.host)]
            for way, options in {"each": [], "head": ["--via-head", "localhost"]}.items():
                for engine in (head, *(node.engine for node in nodes)):
                    forget(engine)
                before, begin = counted(nodes), time.monotonic()
                build_py("pull", IMAGE, *options, *hosts, "--platform", "linux/arm64", env=dict(os.environ))
                seconds, after = time.monotonic() - begin, counted(nodes)
                if any(require_image(node.engine, IMAGE).diff_ids != layers for node in nodes[:count]):
                    raise SystemExit("a node has another image than the head pushed")
                moved = {link: round((after[link] - before[link]) / 1e6, 1) for link in after}
                lans = [moved[f"{node.number}"] for node in nodes[:count]]
                rows.append(
                    {
                        "nodes": count,
                        "way": way,
                        "seconds": round(seconds, 1),
                        "registry_mb": moved["registry"],
                        "node_mb": max(lans),
                    }
                )
                print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    return rows


@contextmanager
def cluster(ctx: Context, folder: Path, count: int, wan: int, lan: int) -> Iterator[list[Node]]:
    """The nodes and the registry, on one switch; all of it ends with the context."""
    with ExitStack() as stack:
        capture(["ip", "link", "add", SWITCH, "type", "bridge"])
        stack.callback(capture, ["ip", "link", "del", SWITCH])
        capture(["ip", "address", "add", f"{NETWORK}.254/24", "dev", SWITCH])
        capture(["ip", "link", "set", SWITCH, "up"])
        limit(SWITCH, lan)
        far, address = namespace(stack, "registry", 253, wan), f"{NETWORK}.253"
        place = stack.enter_context(registry(ctx.store, folder, namespace=far, address=address))
        relay = [sys.executable, "-c", RELAY, place.host, str(RELAY_PORT)]
        stack.enter_context(background(relay, log=folder / "relay.log"))
        until(lambda: listening(RELAY_PORT), "the head's relay")
        (folder / "ssh").mkdir()
        root = stack.enter_context(ssh_root(ctx.store, folder / "ssh"))
        os.environ["PATH"] = f"{root.clients}:{os.environ['PATH']}"
        nodes = []
        for number in range(1, count + 1):
            name = namespace(stack, str(number), number, lan)
            engine = stack.enter_context(another_engine(ctx.store, folder / str(number), name))
            stack.enter_context(background([*within(name), *relay], log=folder / f"relay-{number}.log"))
            log = folder / f"sshd-{number}.log"
            stack.enter_context(sshd(root, log, port=SSH_PORT, namespace=name, address=f"{NETWORK}.{number}"))
            nodes.append(Node(number=number, engine=engine))
        yield nodes


def namespace(stack: ExitStack, name: str, number: int, rate: int) -> str:
    """A network namespace on the switch, behind a link of ``rate`` Mbit/s in both directions."""
    space, end = f"gb10-bench-{name}", f"gbb-{name}"
    capture(["ip", "netns", "add", space])
    stack.callback(capture, ["ip", "netns", "del", space])
    capture(["ip", "link", "add", end, "type", "veth", "peer", "name", "eth0", "netns", space])
    capture(["ip", "link", "set", end, "master", SWITCH, "up"])
    capture([*within(space), "ip", "address", "add", f"{NETWORK}.{number}/24", "dev", "eth0"])
    for device in ("lo", "eth0"):
        capture([*within(space), "ip", "link", "set", device, "up"])
    limit(end, rate)
    limit("eth0", rate, space)
    return space


def limit(device: str, rate: int, space: str = "") -> None:
    """What a device sends takes its turn at ``rate`` Mbit/s."""
    words = ["tc", "qdisc", "add", "dev", device, "root", "tbf", "rate", f"{rate}mbit", "burst", "512kb"]
    capture([*within(space), *words, "latency", "200ms"])


def counted(nodes: Sequence[Node]) -> dict[str, int]:
    """Bytes that the registry sent, and that each node got, since its link is there."""
    links = {"registry": "rx_bytes", **{str(node.number): "tx_bytes" for node in nodes}}
    return {
        name: int(Path(f"/sys/class/net/gbb-{name}/statistics/{way}").read_text("ascii")) for name, way in links.items()
    }


def forget(engine: Engine) -> None:
    """Every image of an engine goes, and with it its layers."""
    with closing(client(engine)) as sdk:
        for image in sdk.images.list(all=True):
            for name in image.tags or [str(image.id)]:
                sdk.images.remove(name, force=True)


if __name__ == "__main__":
    main()
