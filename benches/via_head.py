"""An image from the head to a node: `pull --via-head` against `docker save | ssh | docker load`, in one run.

    python3 -m bootstrap benches/via_head.py

A stand-in for vLLM's image: layers of a tenth of its sizes, of which half compresses. It is sent whole, then with one
changed file, then with the layers of the engine's next release. Both ways go through one sshd; a counter before it
counts every byte, both directions together. Prints JSON: seconds and MB, and the largest temporary file of the head.
"""

import json
import os
import shlex
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from socket import SHUT_RDWR, create_connection, socket
from socketserver import BaseRequestHandler, ThreadingTCPServer

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from gb10.containers.connection import Engine
from gb10.containers.images import require_image
from gb10.containers.packages import unpack
from gb10.containers.reach import connect_or_start
from gb10.core.proc import capture
from gb10.image.context import Context, open_context
from tests.integration import own_store
from tests.integration.nodes import another_engine, build_py, random_image, ssh_server

LAYERS = (44_400_000, 107_000_000, 222_000_000, 14_300_000, 89_300_000, 84_800_000, 73_000_000, 50_500_000, 32_400_000)
"""Base, CUDA's libraries, nvcc, torch, CuTe DSL, dependencies, FlashInfer, vLLM: a tenth of each, lowest first."""
KEPT = 6
"""The layers that the next release of vLLM leaves as they are: dependencies, FlashInfer and vLLM change."""
FILE = 20_000
"""Bytes of the layer of one changed file."""
IMAGE = "gb10/bench:stand-in"


@dataclass(slots=True)
class Counter:
    """Bytes that went over the wire, and the port that counts them."""

    port: int = 0
    bytes: int = 0


def main() -> None:
    """Send each image by both ways, print one document."""
    user = dict(os.environ)
    store = own_store.claim(user, "bench")
    os.environ.update(own_store.variables(user, store))
    try:
        with tempfile.TemporaryDirectory(dir=store.root) as folder:
            print(json.dumps(compared(open_context(os.environ, verbosity=-1), Path(folder)), indent=1))
    finally:
        own_store.release(user, store)


def compared(ctx: Context, folder: Path) -> dict[str, object]:
    """The table."""
    head = connect_or_start(ctx.env, ctx.store)
    with (
        another_engine(ctx.store, folder / "ours") as ours,
        another_engine(ctx.store, folder / "theirs") as theirs,
        ssh_server(ctx.store, _made(folder / "ssh")) as (port, clients),
        counting(port) as counter,
    ):
        os.environ["PATH"] = f"{clients}:{os.environ['PATH']}"
        docker = unpack(ctx.store, ctx.env).bin / "docker"
        shutil.copy(docker, folder / "ssh/root/usr/bin/docker")
        ways = {
            "pull --via-head": lambda: pulled(ours, counter.port),
            "save | ssh | load": lambda: loaded(docker, head, theirs, counter.port),
        }
        table = {}
        for name, layers, seed in steps():
            random_image(head, IMAGE, *layers, seed=seed, share=0.5)
            table[name] = {way: measured(act, counter) for way, act in ways.items()}
        same = {require_image(engine, IMAGE).diff_ids for engine in (head, ours, theirs)}
        kept = sum(path.stat().st_size for path in (ctx.store.root / "registry").rglob("*") if path.is_file())
    image = sum(LAYERS) / 1e6
    return {"image_mb": image, "table": table, "kept_on_the_head_mb": round(kept / 1e6, 1), "same": len(same) == 1}


def steps() -> Iterator[tuple[str, tuple[int, ...], int | tuple[int, ...]]]:
    """What is sent, in order: the layers' sizes and the seed of each."""
    first = tuple(range(len(LAYERS)))
    yield "the whole image", LAYERS, first
    yield "one changed file", (*LAYERS, FILE), (*first, 50)
    yield "the next release", (*LAYERS, FILE), (*first[:KEPT], *(100 + seed for seed in first[KEPT:]), 150)


def pulled(node: Engine, port: int) -> None:
    """The image by the tool itself."""
    host = f"ssh://root@127.0.0.1:{port}{node.endpoint.host.removeprefix('unix://')}"
    build_py(
        "pull", IMAGE, "--via-head", "localhost", "--host", host, "--platform", "linux/arm64", env=dict(os.environ)
    )


def loaded(docker: Path, head: Engine, node: Engine, port: int) -> None:
    """The image as everybody else sends it."""
    far = shlex.join(["ssh", "-p", str(port), "root@127.0.0.1", "docker", "-H", node.endpoint.host, "load"])
    near = shlex.join([str(docker), "-H", head.endpoint.host, "save", IMAGE])
    capture(["bash", "-o", "pipefail", "-c", f"{near} | {far}"], env=dict(os.environ))


def measured(act: Callable[[], None], counter: Counter) -> dict[str, float]:
    """Seconds and MB of one transfer."""
    before, begin = counter.bytes, time.monotonic()
    act()
    return {"seconds": round(time.monotonic() - begin, 1), "mb": round((counter.bytes - before) / 1e6, 3)}


@contextmanager
def counting(port: int) -> Iterator[Counter]:
    """A port that leads to another one, and counts."""
    counter, lock = Counter(), threading.Lock()

    def copy(source: socket, sink: socket) -> None:
        with suppress(OSError):
            while block := source.recv(1 << 16):
                sink.sendall(block)
                with lock:
                    counter.bytes += len(block)
        for end in (source, sink):
            with suppress(OSError):
                end.shutdown(SHUT_RDWR)

    class Exchange(BaseRequestHandler):
        def handle(self) -> None:
            with create_connection(("127.0.0.1", port)) as onward:
                back = threading.Thread(target=copy, args=(onward, self.request), daemon=True)
                back.start()
                copy(self.request, onward)
                back.join()

    with ThreadingTCPServer(("127.0.0.1", 0), Exchange) as server:
        server.daemon_threads = True
        counter.port = server.server_address[1]
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield counter
        server.shutdown()


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


if __name__ == "__main__":
    main()
