"""What a container engine answers, as values: a tunnel may lead to any program. Pure."""

import struct
from traceback import walk_tb
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

OURS: Final = __name__.partition(".")[0]
SDK: Final = frozenset({"docker", "pydantic"})
"""Packages in which a program stumbles over an answer of another form."""
ODD: Final = (KeyError, TypeError, ValueError, AttributeError, IndexError, RecursionError, struct.error)
"""The errors that this gives; a bug of ours gives the same, in a module of ours."""
Words = tuple[str, ...]


class Answer(BaseModel):
    """A part of an answer; it may hold more than is read of it. Docker writes null for what is empty."""

    model_config = ConfigDict(extra="ignore", frozen=True, defer_build=True)

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, given: object) -> object:
        return {name: value for name, value in given.items() if value is not None} if isinstance(given, dict) else given


class VersionAnswer(Answer):
    """``/version``."""

    version: Annotated[str, Field(alias="Version", min_length=1, max_length=200)]
    api: Annotated[str, Field(alias="ApiVersion", pattern=r"^[0-9]{1,3}\.[0-9]{1,3}$")]


class InfoAnswer(Answer):
    """``/info``: what gb10 must know before it uses an engine."""

    system: Annotated[str, Field(alias="OSType")]
    root: Annotated[str, Field(alias="DockerRootDir", min_length=1)]
    driver: Annotated[tuple[tuple[str, str], ...], Field(alias="DriverStatus")] = ()


class MachineAnswer(Answer):
    """``/info``: the machine behind an engine."""

    machine: Annotated[str, Field(alias="Architecture", min_length=1)]
    memory: Annotated[int, Field(alias="MemTotal", ge=0)]
    clock: Annotated[str, Field(alias="SystemTime")] = ""
    runtimes: Annotated[dict[str, Any], Field(alias="Runtimes")] = {}


class ListedAnswer(Answer):
    """A container of a list; ``created`` in seconds since 1970."""

    id: Annotated[str, Field(alias="Id", min_length=1)]
    created: Annotated[int, Field(alias="Created")] = 0


class IdAnswer(Answer):
    """What was made."""

    id: Annotated[str, Field(alias="Id", min_length=1)]


class StateAnswer(Answer):
    """How a container is."""

    status: Annotated[str, Field(alias="Status", min_length=1)]
    code: Annotated[int, Field(alias="ExitCode")] = 0
    out_of_memory: Annotated[bool, Field(alias="OOMKilled")] = False
    error: Annotated[str, Field(alias="Error")] = ""
    started: Annotated[str, Field(alias="StartedAt")] = ""
    ended: Annotated[str, Field(alias="FinishedAt")] = ""


class SettingsAnswer(Answer):
    """What a container or an image was made with."""

    labels: Annotated[dict[str, str], Field(alias="Labels")] = {}
    image: Annotated[str, Field(alias="Image")] = ""
    entrypoint: Annotated[Words, Field(alias="Entrypoint")] = ()
    command: Annotated[Words, Field(alias="Cmd")] = ()
    environment: Annotated[Words, Field(alias="Env")] = ()
    workdir: Annotated[str, Field(alias="WorkingDir")] = ""
    user: Annotated[str, Field(alias="User")] = ""


class DeviceAnswer(Answer):
    """A device of the machine that a container sees."""

    path: Annotated[str, Field(alias="PathOnHost")] = ""


class RequestAnswer(Answer):
    """A request for devices, as ``--gpus`` makes it."""

    devices: Annotated[Words, Field(alias="DeviceIDs")] = ()
    capabilities: Annotated[tuple[Words, ...], Field(alias="Capabilities")] = ()


class LimitAnswer(Answer):
    """A limit of the processes."""

    name: Annotated[str, Field(alias="Name")] = ""
    soft: Annotated[int, Field(alias="Soft")] = 0


class HostAnswer(Answer):
    """What a container has of its machine."""

    devices: Annotated[tuple[DeviceAnswer, ...], Field(alias="Devices")] = ()
    requests: Annotated[tuple[RequestAnswer, ...], Field(alias="DeviceRequests")] = ()
    privileged: Annotated[bool, Field(alias="Privileged")] = False
    runtime: Annotated[str, Field(alias="Runtime")] = ""
    limits: Annotated[tuple[LimitAnswer, ...], Field(alias="Ulimits")] = ()


class ContainerAnswer(Answer):
    """``/containers/ID/json``."""

    id: Annotated[str, Field(alias="Id", min_length=1)]
    name: Annotated[str, Field(alias="Name")]
    image: Annotated[str, Field(alias="Image")]
    created: Annotated[str, Field(alias="Created")] = ""
    state: Annotated[StateAnswer, Field(alias="State")]
    settings: Annotated[SettingsAnswer, Field(alias="Config")] = SettingsAnswer()
    host: Annotated[HostAnswer, Field(alias="HostConfig")] = HostAnswer()


class LayersAnswer(Answer):
    """The layers of an image."""

    layers: Annotated[Words, Field(alias="Layers")] = ()


class ImageAnswer(Answer):
    """``/images/NAME/json``."""

    id: Annotated[str, Field(alias="Id", min_length=1)]
    size: Annotated[int, Field(alias="Size", ge=0)]
    root: Annotated[LayersAnswer, Field(alias="RootFS")]
    system: Annotated[str, Field(alias="Os")]
    machine: Annotated[str, Field(alias="Architecture")]
    variant: Annotated[str, Field(alias="Variant")] = ""
    tags: Annotated[Words, Field(alias="RepoTags")] = ()
    settings: Annotated[SettingsAnswer, Field(alias="Config")] = SettingsAnswer()
    created: Annotated[str, Field(alias="Created")] = ""


class LineAnswer(Answer):
    """A line of an image's history."""

    command: Annotated[str, Field(alias="CreatedBy")] = ""
    size: Annotated[int, Field(alias="Size")] = 0


class ExecAnswer(Answer):
    """A program that ran in a container."""

    code: Annotated[int, Field(alias="ExitCode")] = 0


class EndAnswer(Answer):
    """How a container ended."""

    code: Annotated[int, Field(alias="StatusCode")]


class EngineIdAnswer(Answer):
    """``/info``: the engine itself, as long as its data live."""

    id: Annotated[str, Field(alias="ID", min_length=1)]


class CacheAnswer(Answer):
    """A result in BuildKit's cache."""

    id: Annotated[str, Field(alias="ID")] = ""
    kind: Annotated[str, Field(alias="Type")] = ""
    size: Annotated[int, Field(alias="Size", ge=0)] = 0
    used: Annotated[bool, Field(alias="InUse")] = False
    shared: Annotated[bool, Field(alias="Shared")] = False
    description: Annotated[str, Field(alias="Description")] = ""


class UsageAnswer(Answer):
    """``/system/df``."""

    cache: Annotated[tuple[CacheAnswer, ...], Field(alias="BuildCache")] = ()


class FreedAnswer(Answer):
    """``/build/prune``."""

    freed: Annotated[int, Field(alias="SpaceReclaimed", ge=0)] = 0


class PlatformAnswer(Answer):
    """What an image is for."""

    os: str
    architecture: str


class DescriptorAnswer(Answer):
    """What a reference stands for."""

    digest: Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]


class DistributionAnswer(Answer):
    """``/distribution/NAME/json``: what a registry told the engine."""

    descriptor: Annotated[DescriptorAnswer, Field(alias="Descriptor")]
    platforms: Annotated[tuple[PlatformAnswer, ...], Field(alias="Platforms")] = ()


class FailureAnswer(Answer):
    """Why a transfer failed."""

    message: str = ""


class MoveAnswer(Answer):
    """How far a layer is, in bytes."""

    current: int = 0
    total: int = 0


class PushedAnswer(Answer):
    """What was pushed."""

    digest: Annotated[str, Field(alias="Digest")] = ""


class EventAnswer(Answer):
    """An event of a transfer."""

    id: str = ""
    status: str = ""
    error: str = ""
    failure: Annotated[FailureAnswer, Field(alias="errorDetail")] = FailureAnswer()
    move: Annotated[MoveAnswer, Field(alias="progressDetail")] = MoveAnswer()
    pushed: Annotated[PushedAnswer, Field(alias="aux")] = PushedAnswer()


class StatAnswer(Answer):
    """A file of a container."""

    size: int = 0


DEFERRED: Final = ConfigDict(defer_build=True)
"""Validators are made at the first answer: most calls of a verb get few kinds."""
LISTED: Final = TypeAdapter(tuple[ListedAnswer, ...], config=DEFERRED)
HISTORY: Final = TypeAdapter(tuple[LineAnswer, ...], config=DEFERRED)


def is_odd(error: BaseException) -> bool:
    """Whether an error comes of an answer of another form, and not of a bug of ours."""
    if not (isinstance(error, ODD) or type(error) is Exception) or error.__traceback__ is None:
        return False
    packages = [frame.f_globals.get("__name__", "").partition(".")[0] for frame, _ in walk_tb(error.__traceback__)]
    ours = len(packages) - packages[::-1].index(OURS) if OURS in packages else 0
    return bool(SDK & set(packages[ours : ours + 1]))


def oddity(error: BaseException) -> str:
    """What is odd in an answer, in one line."""
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False)[0]
        return f"{'.'.join(map(str, first['loc'])) or 'the whole'}: {first['msg']}"[:200]
    return f"{type(error).__name__}: {error}"[:200]
