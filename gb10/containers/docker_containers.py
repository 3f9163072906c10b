"""Containers of an engine that serve models: make one, start it, look at it, read its log, end it.

What a container is for stands in its labels, and nowhere else.
"""

import io
import itertools
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

import docker
import requests
from docker.errors import APIError, NotFound
from docker.models.containers import Container
from docker.types import DeviceRequest, Mount, Ulimit

from gb10.containers.connection import Engine, asking
from gb10.containers.container_options import ContainerOptions
from gb10.containers.docker_answers import LISTED, ContainerAnswer, ExecAnswer, IdAnswer, StatAnswer
from gb10.errors import EngineError, Gb10Error

LOOK: Final = 5
"""Seconds that an engine may be silent when it is only asked: the node may have lost its power or its network."""
TAIL_BYTES: Final = 1 << 20
"""Of a log's last lines at most so many bytes are read."""
LONGEST_LINE: Final = 1 << 16
RUNNING: Final = frozenset({"created", "running", "restarting", "paused"})
"""States in which a container has not ended."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ContainerState:
    """A container as its engine has it; its times are in RFC 3339, ``code`` is its exit code."""

    id: str
    name: str
    image: str
    """The id of its image."""
    status: str
    labels: Mapping[str, str]
    code: int = 0
    out_of_memory: bool = False
    error: str = ""
    created: str = ""
    started: str = ""
    ended: str = ""

    @property
    def runs(self) -> bool:
        """Whether it has not ended."""
        return self.status in RUNNING


def create_container(engine: Engine, options: ContainerOptions, files: Mapping[str, tuple[bytes, int]]) -> str:
    """A container that does not run yet, with ``files`` (path to content and mode) in it; its id. Raises EngineError.

    When a file cannot be put in, the container is removed.
    """
    with asking(engine) as sdk:
        made = sdk.containers.create(options.image, **_arguments(options))
        try:
            made.put_archive("/", _packed(files))
        except BaseException:
            made.remove(force=True)
            raise
        return IdAnswer.model_validate(made.attrs).id


def _arguments(options: ContainerOptions) -> dict[str, Any]:
    """The options in the words of the SDK."""
    host = options.host
    return {
        "name": options.name,
        "entrypoint": list(options.command),
        "command": [],
        "environment": dict(options.environment),
        "labels": dict(options.all_labels),
        "volumes": [f"{one.source}:{one.target}:{'ro' if one.read_only else 'rw'}" for one in options.named_volumes],
        "mounts": [Mount(one.target, one.source, type="bind", read_only=one.read_only) for one in options.binds],
        "device_requests": [DeviceRequest(count=-1, capabilities=[["gpu"]])] if options.gpus else [],
        "devices": list(options.all_devices),
        "ulimits": [Ulimit(name=name, soft=soft, hard=hard) for name, (soft, hard) in options.ulimits.items()],
        "mem_limit": options.memory,
        "memswap_limit": options.memory,
        "oom_score_adj": options.oom_score_adj,
        "ipc_mode": host.ipc,
        "shm_size": host.own_shared_memory,
        "network_mode": "host",
        "restart_policy": {"Name": "unless-stopped"} if options.restart else None,
        "platform": options.platform,
        "privileged": host.privileged,
        "user": host.user or None,
        "cpuset_cpus": host.cpuset or None,
        "hostname": host.hostname or None,
        "cap_add": list(host.cap_add),
        "security_opt": list(host.security_opt),
        "extra_hosts": dict(host.extra_hosts),
        "detach": True,
    }


def _packed(files: Mapping[str, tuple[bytes, int]], owner: int = 0) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for path, (content, mode) in files.items():
            member = tarfile.TarInfo(path.lstrip("/"))
            member.size, member.mode, member.uid = len(content), mode, owner
            tar.addfile(member, io.BytesIO(content))
    return out.getvalue()


def start_container(engine: Engine, identity: str) -> None:
    """Start a container. Raises EngineError in the engine's own words, also when the GPU's runtime is missing."""
    with asking(engine) as sdk:
        sdk.containers.get(identity).start()


def put_files(engine: Engine, identity: str, files: Mapping[str, tuple[bytes, int]], *, owner: int = 0) -> None:
    """Write files of a user, by its number, into a container; folders above them are made. Raises EngineError."""
    with asking(engine) as sdk:
        sdk.containers.get(identity).put_archive("/", _packed(files, owner))


def put_archive(engine: Engine, identity: str, folder: str, archive: bytes) -> None:
    """Unpack a tar into a folder of a container, which must exist. Raises EngineError."""
    with asking(engine) as sdk:
        sdk.containers.get(identity).put_archive(folder, archive)


def run_inside(
    engine: Engine,
    identity: str,
    argv: Sequence[str],
    *,
    user: str = "",
    workdir: str | None = None,
    environment: Mapping[str, str] | None = None,
) -> tuple[int, str]:
    """Run a program in a container: its exit code, and the end of what it printed. Raises EngineError."""
    with asking(engine) as sdk:
        found = sdk.containers.get(identity)
        made = IdAnswer.model_validate(
            sdk.api.exec_create(found.id, list(argv), user=user, workdir=workdir, environment=dict(environment or {}))
        )
        tail = b""
        for block in sdk.api.exec_start(made.id, stream=True):
            tail = (tail + block)[-TAIL_BYTES:]
        ended = ExecAnswer.model_validate(sdk.api.exec_inspect(made.id))
        return ended.code, tail.decode(errors="replace")


def containers_with(engine: Engine, *labels: str) -> list[ContainerState]:
    """The containers that have these labels (``name`` or ``name=value``), ended ones too. Raises EngineError."""
    with asking(engine) as sdk:
        listed = LISTED.validate_python(sdk.api.containers(all=True, filters={"label": list(labels)}))
        found = (_inspected(sdk, one.id) for one in listed)
        return sorted((state for state in found if state), key=lambda state: state.name)


def container_state(engine: Engine, identity: str) -> ContainerState | None:
    """A container now; None when it was removed. Raises EngineError; ``was_silent`` tells of an engine that hangs."""
    with asking(engine, seconds=LOOK) as sdk:
        return _inspected(sdk, identity)


def _inspected(sdk: docker.DockerClient, identity: str) -> ContainerState | None:
    try:
        found = ContainerAnswer.model_validate(sdk.api.inspect_container(identity))
    except NotFound:
        return None
    state = found.state
    return ContainerState(
        id=found.id,
        name=found.name.lstrip("/"),
        image=found.image,
        status=state.status,
        labels=found.settings.labels,
        code=state.code,
        out_of_memory=state.out_of_memory,
        error=state.error,
        created=found.created,
        started=state.started,
        ended=state.ended,
    )


def tail_of(engine: Engine, identity: str, lines: int) -> list[str]:
    """The last lines of a container's log, at most TAIL_BYTES of them. Raises EngineError."""
    with asking(engine, seconds=LOOK) as sdk:
        content = b""
        for block in sdk.containers.get(identity).logs(stream=True, follow=False, tail=lines):
            content = (content + block)[-TAIL_BYTES:]
    return content.decode(errors="replace").splitlines()[-lines:]


def follow(engine: Engine, identity: str, lines: int) -> Iterator[str]:
    """The last lines of a container's log, then each new one until the container ends. Raises EngineError."""
    with asking(engine) as sdk:
        pending = b""
        for block in sdk.containers.get(identity).logs(stream=True, follow=True, tail=lines):
            *whole, pending = (pending + block).split(b"\n")
            yield from (line.decode(errors="replace") for line in whole)
            if len(pending) > LONGEST_LINE:
                yield pending.decode(errors="replace")
                pending = b""
        if pending:
            yield pending.decode(errors="replace")


def end_container(engine: Engine, identity: str, *, patience: int, keep: bool = False) -> None:
    """Stop a container: SIGTERM, after ``patience`` seconds SIGKILL; then remove it, unless it is kept.

    One that is gone is no error. Raises EngineError, also when the engine is silent LOOK seconds longer than that.
    """
    with asking(engine, seconds=patience + LOOK) as sdk, suppress(NotFound):
        found = sdk.containers.get(identity)
        found.stop(timeout=patience)
        if not keep:
            _remove(found)


def _remove(found: Container) -> None:
    """Remove a container; where another process does so just now, as a watch may, wait for it."""
    try:
        found.remove(force=True)
    except APIError as error:
        if error.status_code != HTTPStatus.CONFLICT:
            raise
        found.wait(timeout=LOOK, condition="removed")


def was_silent(error: Gb10Error) -> bool:
    """Whether an engine took a question and gave no answer in time: it, or the way to it, may only be slow."""
    return isinstance(error.__cause__, requests.Timeout)


def name_is_taken(error: EngineError) -> bool:
    """Whether a container could not be made because another has its name."""
    return isinstance(error.__cause__, APIError) and error.__cause__.status_code == HTTPStatus.CONFLICT


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
        found = (_serving_container(sdk, one.id) for one in listed[: 4 * MOST])
        serve = (
            one
            for one in found
            if one
            and (any(word in one.command for word in SERVERS) or any(name.startswith(LABELS) for name in one.labels))
        )
        return list(itertools.islice(serve, MOST))


def _serving_container(sdk: docker.DockerClient, identity: str) -> ServingContainer | None:
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
        content = b"".join(_bounded(blocks, most + (1 << 16)))
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
