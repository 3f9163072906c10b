"""Where a tuning worker runs: a Python of this machine that has PyTorch, or a container on a Spark."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from gb10.containers.images import find_image
from gb10.containers.node import reached
from gb10.containers.workers import run_worker
from gb10.core.data_root import PACKAGE
from gb10.core.host import Host
from gb10.core.proc import CommandFailedError, stream
from gb10.errors import EngineError
from gb10.image.moe.tuning import Lane

START: Final = "import sys; sys.path.insert(0, {root!r}); from gb10.image.moe.child.tune_worker import main; main()"
ROOM: Final = "/tmp/gb10-tune"  # noqa: S108 - in a container of its own
CODE: Final = ("__init__.py", "image/__init__.py", "image/moe/__init__.py", "image/moe/child")


def local_lane(host: Host, python: str, work: Path) -> Lane:
    """A worker by a Python of this machine; its kernels stay in the store's cache between runs."""
    cache = host.store.root / "triton-cache"

    def lane(request: dict[str, Any], on_line: Callable[[str], None]) -> None:
        path = work / "request.json"
        path.write_text(json.dumps(request), encoding="utf-8")
        argv = (python, "-c", START.format(root=str(PACKAGE.parent)), str(path))
        try:
            stream(argv, log=work / "worker.log", on_line=on_line, env={**host.env, "TRITON_CACHE_DIR": str(cache)})
        except CommandFailedError as error:
            on_line(error.tail)

    return lane


@contextmanager
def container_lane(host: str, image: str) -> Iterator[Lane]:
    """A worker in a container of an image on a node, without a network, with its GPU. Raises EngineError."""
    with reached(host) as engine:
        found = find_image(engine, image)
        if found is None:
            raise EngineError(f"{host} has no image {image}", hint=f"./build.py pull {image} --host {host}")

        def lane(request: dict[str, Any], on_line: Callable[[str], None]) -> None:
            source = Path(request["source"])
            files = {**code(), "kernel.py": source.read_bytes()}
            asked = {**request, "source": f"{ROOM}/kernel.py"}
            files["request.json"] = json.dumps(asked).encode()
            command = ["python3", "-c", START.format(root=ROOM), f"{ROOM}/request.json"]
            code_of_end = run_worker(engine, found, command, on_line, folder=ROOM, files=files)
            if code_of_end:
                on_line(f"the worker's exit code is {code_of_end}")

        yield lane


def code() -> Mapping[str, bytes]:
    """The files of the worker, by their path below the folder that it imports from."""
    found = {}
    for name in CODE:
        place = PACKAGE / name
        for path in sorted(place.glob("*.py")) if place.is_dir() else [place]:
            found[f"{PACKAGE.name}/{path.relative_to(PACKAGE).as_posix()}"] = path.read_bytes()
    return found
