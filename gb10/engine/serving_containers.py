"""Containers that serve a model, whoever started them: what each runs, a file of it, its log. Bounded."""

import io
import itertools
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import docker
from docker.errors import NotFound

from gb10.engine.connection import Engine, asking
from gb10.engine.docker_containers import RUNNING

MOST: Final = 64
"""Containers that are looked at."""
SERVERS: Final = ("vllm", "sglang", "llama-server", "trtllm")
"""Words of the commands that serve models."""
LABELS: Final = "io.github.gb10."
LOG_LINES: Final = 200_000
LOG_BYTES: Final = 64 << 20


@dataclass(frozen=True, kw_only=True, slots=True)
class ServingContainer:
    """A container as its engine has it. Its environment may hold secrets."""

    id: str
    name: str
    image: str
    runs: bool
    command: str
    environment: Mapping[str, str]
    labels: Mapping[str, str]
    devices: tuple[str, ...]
    gpus: bool
    privileged: bool
    runtime: str
    memlock: int | None


def serving_containers(engine: Engine) -> list[ServingContainer]:
    """The containers that serve a model, or served one and are still there; the newest first. Raises EngineError."""
    with asking(engine) as sdk:
        listed = sorted(sdk.api.containers(all=True), key=lambda one: -int(one.get("Created") or 0))
        found = (_inspected(sdk, one["Id"]) for one in listed[: 4 * MOST])
        return list(itertools.islice((one for one in found if one and _serves(one)), MOST))


def _serves(one: ServingContainer) -> bool:
    return any(word in one.command for word in SERVERS) or any(name.startswith(LABELS) for name in one.labels)


def _inspected(sdk: docker.DockerClient, identity: str) -> ServingContainer | None:
    try:
        found = sdk.api.inspect_container(identity)
    except NotFound:
        return None
    config, host = found.get("Config") or {}, found.get("HostConfig") or {}
    words = [*(config.get("Entrypoint") or ()), *(config.get("Cmd") or ())]
    devices = [str(one.get("PathOnHost") or "") for one in host.get("Devices") or ()]
    requests = host.get("DeviceRequests") or ()
    named = [str(one) for request in requests for one in request.get("DeviceIDs") or ()]
    pairs = (str(pair).partition("=") for pair in config.get("Env") or ())
    return ServingContainer(
        id=found["Id"],
        name=found["Name"].lstrip("/"),
        image=str(config.get("Image") or ""),
        runs=found["State"]["Status"] in RUNNING,
        command=" ".join(map(str, words)),
        environment={name: value for name, _, value in pairs},
        labels=config.get("Labels") or {},
        devices=(*devices, *named),
        gpus=any("gpu" in map(str, itertools.chain(*(one.get("Capabilities") or ()))) for one in requests),
        privileged=bool(host.get("Privileged")),
        runtime=str(host.get("Runtime") or ""),
        memlock=_memlock(host),
    )


def _memlock(host: Mapping[str, Any]) -> int | None:
    limits = [one for one in host.get("Ulimits") or () if one.get("Name") == "memlock"]
    return int(limits[0].get("Soft") or 0) if limits else None


def file_in(engine: Engine, identity: str, path: str, most: int) -> bytes | None:
    """A plain file of a container; None when it is not there, or larger. Raises EngineError."""
    with asking(engine) as sdk:
        try:
            blocks, stat = sdk.containers.get(identity).get_archive(path)
        except NotFound:
            return None
        if int((stat or {}).get("size") or 0) > most:
            return None
        content = b"".join(itertools.islice(_bounded(blocks, most + (1 << 16)), None))
    with suppress(tarfile.TarError, EOFError), tarfile.open(fileobj=io.BytesIO(content)) as tar:
        member = tar.next()
        if member is not None and member.isfile() and member.size <= most:
            stream = tar.extractfile(member)
            return stream.read(most) if stream else None
    return None


def log_blocks(engine: Engine, identity: str) -> Iterator[bytes]:
    """The end of a container's log, with the time of each line; at most LOG_BYTES. Raises EngineError."""
    with asking(engine) as sdk:
        blocks = sdk.containers.get(identity).logs(stream=True, follow=False, tail=LOG_LINES, timestamps=True)
        yield from _bounded(blocks, LOG_BYTES)


def _bounded(blocks: Iterator[bytes], most: int) -> Iterator[bytes]:
    taken = 0
    for block in blocks:
        yield block[: most - taken]
        taken += len(block)
        if taken >= most:
            return
