"""Containers that serve a model, whoever started them: what each runs, a file of it, its log. Bounded."""

import io
import itertools
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import docker
from docker.errors import NotFound

from gb10.containers.connection import Engine, asking
from gb10.containers.docker_answers import LISTED, ContainerAnswer, StatAnswer
from gb10.containers.docker_containers import RUNNING

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
        listed = sorted(LISTED.validate_python(sdk.api.containers(all=True)), key=lambda one: -one.created)
        found = (_inspected(sdk, one.id) for one in listed[: 4 * MOST])
        return list(itertools.islice((one for one in found if one and _serves(one)), MOST))


def _serves(one: ServingContainer) -> bool:
    return any(word in one.command for word in SERVERS) or any(name.startswith(LABELS) for name in one.labels)


def _inspected(sdk: docker.DockerClient, identity: str) -> ServingContainer | None:
    try:
        found = ContainerAnswer.model_validate(sdk.api.inspect_container(identity))
    except NotFound:
        return None
    settings, host = found.settings, found.host
    pairs = (pair.partition("=") for pair in settings.environment)
    return ServingContainer(
        id=found.id,
        name=found.name.lstrip("/"),
        image=settings.image,
        runs=found.state.status in RUNNING,
        command=" ".join((*settings.entrypoint, *settings.command)),
        environment={name: value for name, _, value in pairs},
        labels=settings.labels,
        devices=(*(one.path for one in host.devices), *(one for asked in host.requests for one in asked.devices)),
        gpus=any("gpu" in itertools.chain(*one.capabilities) for one in host.requests),
        privileged=host.privileged,
        runtime=host.runtime,
        memlock=next((one.soft for one in host.limits if one.name == "memlock"), None),
    )


def file_in(engine: Engine, identity: str, path: str, most: int) -> bytes | None:
    """A plain file of a container; None when it is not there, or larger. Raises EngineError."""
    with asking(engine) as sdk:
        try:
            blocks, stat = sdk.containers.get(identity).get_archive(path)
        except NotFound:
            return None
        if StatAnswer.model_validate(stat or {}).size > most:
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
