"""A program in a container of an image: files go in, lines come out, and the container goes."""

import io
import tarfile
from collections.abc import Callable, Mapping, Sequence

from docker.types import DeviceRequest

from gb10.containers.connection import Engine, asking
from gb10.containers.docker_answers import EndAnswer
from gb10.containers.images import ImageInfo

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
