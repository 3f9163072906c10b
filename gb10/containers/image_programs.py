"""Programs of an image, run in a container of it: once for a limited time, or as a worker that answers lines."""

import io
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import docker
import requests
from docker.errors import NotFound
from docker.models.containers import Container
from docker.types import DeviceRequest

from gb10.containers.connection import Engine, asking
from gb10.containers.docker_answers import EndAnswer
from gb10.containers.images import ImageInfo, store_mark
from gb10.core.store import Store

LABEL: Final = "io.github.gb10.trial"
EMULATOR: Final = "/gb10-emulator"
TIMED_OUT: Final = 124
TAIL: Final = 40
"""Lines of its output that are kept."""


def run_once(
    engine: Engine, store: Store, image: ImageInfo, argv: Sequence[str], *, emulator: Path | None, seconds: float
) -> tuple[int, str]:
    """The exit code, TIMED_OUT after ``seconds``, and the end of what the program printed. Raises EngineError."""
    with asking(engine) as sdk, _container(sdk, store, image, argv, emulator) as container:
        container.start()
        try:
            code = EndAnswer.model_validate(container.wait(timeout=seconds)).code
        except requests.RequestException:  # urllib3's timeout, as requests names it in either of two ways
            container.reload()
            if container.status != "running":
                raise
            container.kill()
            code = TIMED_OUT
        return code, container.logs(tail=TAIL).decode(errors="replace")


@contextmanager
def _container(
    sdk: docker.DockerClient, store: Store, image: ImageInfo, argv: Sequence[str], emulator: Path | None
) -> Iterator[Container]:
    """The container, removed afterwards; first those that killed runs of this store left."""
    with store.locked("trial"):
        mark = store_mark(store)
        for left in sdk.containers.list(all=True, filters={"label": f"{LABEL}={mark}"}, ignore_removed=True):
            with suppress(NotFound):
                left.remove(force=True)
        container = sdk.containers.create(
            image.id,
            entrypoint=[*([EMULATOR] if emulator else []), *argv],
            command=[],
            platform=image.platform,
            labels={LABEL: mark},
            network_mode="none",
            environment={"PYTHONDONTWRITEBYTECODE": "1", "CUDA_VISIBLE_DEVICES": ""},
            volumes={str(emulator): {"bind": EMULATOR, "mode": "ro"}} if emulator else {},
        )
        try:
            yield container
        finally:
            container.remove(force=True)


GPUS = [DeviceRequest(count=-1, capabilities=[["gpu"]])]


def run_worker(
    engine: Engine,
    image: ImageInfo,
    command: Sequence[str],
    on_line: Callable[[str], None],
    *,
    folder: str,
    files: Mapping[str, bytes],
    gpus: bool = True,
) -> int:
    """Run ``command`` with ``files`` in ``folder``, without a network; returns its exit code. Raises EngineError."""
    with asking(engine) as sdk:
        container = sdk.containers.create(
            image.id,
            command=list(command),
            entrypoint=[],
            network_mode="none",
            device_requests=GPUS if gpus else [],
            environment={"TRITON_CACHE_DIR": f"{folder}/cache", "PYTHONDONTWRITEBYTECODE": "1"},
            user="0",
        )
        try:
            container.put_archive("/", _packed(folder, files))
            container.start()
            left = ""
            for block in container.logs(stream=True, follow=True):
                *lines, left = (left + block.decode("utf-8", "replace")).split("\n")
                for line in lines:
                    on_line(line)
            if left:
                on_line(left)
            return EndAnswer.model_validate(container.wait()).code
        finally:
            container.remove(force=True)


def _packed(folder: str, files: Mapping[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for path, content in files.items():
            entry = tarfile.TarInfo(f"{folder.lstrip('/')}/{path}")
            entry.size, entry.mode = len(content), 0o644
            tar.addfile(entry, io.BytesIO(content))
    return packed.getvalue()
