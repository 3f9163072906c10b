"""Connections: where an engine listens, what it answers, and the SDK's client for it."""

import hashlib
import json
import re
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from gb10.errors import EngineError

if TYPE_CHECKING:
    import docker
    from docker.tls import TLSConfig

MINIMUM_API = (1, 42)
"""Docker 23.0: the first whose BuildKit knows COPY --link and named contexts without a frontend from a registry."""
PING_TIMEOUT = 10  # seconds
CALL_TIMEOUT = 600  # seconds: removing or inspecting a large image can take minutes on a busy disk
SERVER = re.compile(r"Docker/(\S+)")


class UnreachableError(Exception):
    """The endpoint does not answer, or we cannot use its engine; the text names the reason."""

    def __init__(self, text: str, *, refused: bool = False, denied: bool = False) -> None:
        super().__init__(text)
        self.refused = refused
        """No program listens there; otherwise an engine may be busy."""
        self.denied = denied
        """An engine may listen there, but this user may not open its socket."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Endpoint:
    """Where an engine listens, and its origin (``DOCKER_HOST``, ``context NAME``, ``default socket``, ``embedded``)."""

    host: str
    origin: str
    context: str | None = None
    certificates: Path | None = None
    """Directory of ca.pem, cert.pem and key.pem, for an engine behind TLS."""
    verify: bool = True
    node: str | None = None
    """How the machine was named from which its socket is forwarded."""

    @property
    def place(self) -> str:
        """Where it is, for a message."""
        return f"of {self.node}" if self.node else f"at {self.host}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Engine:
    """An engine that answered."""

    kind: Literal["user", "embedded"]
    endpoint: Endpoint
    version: str
    api: str
    containerd: bool
    """Whether images lie in containerd's store: export options such as ``compression`` work only there."""
    data: Path | None = None
    """Where its images and build cache lie on this machine; None for a remote engine or one in a virtual machine."""
    notes: tuple[str, ...] = ()
    """The engines that were skipped, and why; printed for the user."""
    builder: str | None = None
    """Your buildx builder; it builds for this engine."""

    @property
    def name(self) -> str:
        """Its name in a message."""
        return "Docker" if self.kind == "user" else "the embedded engine"


def client(engine: Engine) -> "docker.DockerClient":
    """The SDK's client, for inspect, tag, remove and run; close it after use."""
    return _open(engine.endpoint, CALL_TIMEOUT, engine.api)


@contextmanager
def asking(engine: Engine, *, seconds: int = CALL_TIMEOUT) -> Iterator["docker.DockerClient"]:
    """The client for a few calls; what goes wrong in them, the engine's death too, is raised as EngineError.

    ``seconds``: how long the engine may be silent in a call.
    """
    try:
        _connect(engine.endpoint)
    except UnreachableError as error:
        raise _failed(engine, str(error)) from error

    from gb10.containers.docker_answers import is_odd, oddity  # noqa: PLC0415 - for an engine that listens

    try:
        with closing(_open(engine.endpoint, seconds, engine.api)) as sdk:
            yield sdk
    except _failures() as error:
        raise _failed(engine, _reason(error)) from error
    except Exception as error:  # the SDK stumbles over odd answers in many ways, and raises Exception itself
        if not is_odd(error):
            raise
        raise EngineError(
            f"the container engine {engine.endpoint.place} gave an answer that cannot be read",
            where=oddity(error),
            hint="is it a Docker, or a program that only speaks like one? look at ./build.py engine status",
        ) from error


def _failed(engine: Engine, why: str) -> EngineError:
    return EngineError(
        f"the container engine {engine.endpoint.place} failed",
        where=why,
        hint="look at ./build.py engine status, then run the command again",
    )


def _failures() -> tuple[type[Exception], ...]:
    """What a call of the SDK raises when the engine is gone or refuses."""
    from docker.errors import DockerException  # noqa: PLC0415 - for an engine that listens
    from requests import RequestException  # noqa: PLC0415 - the same
    from urllib3.exceptions import HTTPError  # noqa: PLC0415 - the same

    return DockerException, RequestException, HTTPError, OSError


def ping(endpoint: Endpoint) -> tuple[str, str]:
    """Version and API of an engine by its cheapest question: the others run programs. Raises UnreachableError."""
    _connect(endpoint)
    from docker import APIClient  # noqa: PLC0415 - for an engine that listens

    try:
        least = ".".join(map(str, MINIMUM_API))
        with closing(APIClient(base_url=endpoint.host, version=least, timeout=PING_TIMEOUT)) as sdk:
            reply = sdk.get(f"{sdk.base_url}/_ping", timeout=PING_TIMEOUT)
            reply.raise_for_status()
    except _failures() as error:
        raise _unreachable(error) from error
    server, api = SERVER.match(reply.headers.get("Server", "")), reply.headers.get("Api-Version", "")
    if server is None or not api:
        raise UnreachableError("it answers, and is no Docker")
    return server[1], api


def probe(endpoint: Endpoint, kind: Literal["user", "embedded"]) -> Engine:
    """Ask an engine who it is; raises UnreachableError when it does not answer or is too old."""
    _connect(endpoint)
    from gb10.containers.docker_answers import (  # noqa: PLC0415 - for an engine that listens
        InfoAnswer,
        VersionAnswer,
        is_odd,
        oddity,
    )

    try:
        with closing(_open(endpoint, PING_TIMEOUT)) as sdk:
            version = VersionAnswer.model_validate(sdk.version())
            info = InfoAnswer.model_validate(sdk.info())
            sdk.api.images(name="gb10.invalid/none", quiet=True)  # fails while containerd, behind dockerd, is down
    except _failures() as error:
        raise _unreachable(error) from error
    except Exception as error:  # the SDK stumbles over odd answers in many ways, and raises Exception itself
        if not is_odd(error):
            raise
        raise UnreachableError(f"it gave an answer that cannot be read: {oddity(error)}") from error
    if tuple(int(part) for part in version.api.split(".")) < MINIMUM_API:
        wanted = ".".join(map(str, MINIMUM_API))
        raise UnreachableError(f"its API {version.api} is older than {wanted} (Docker 23.0 with BuildKit)")
    if info.system != "linux":
        raise UnreachableError(f"it runs {info.system} containers")
    drivers = dict(info.driver)
    return Engine(
        kind=kind,
        endpoint=endpoint,
        version=version.version,
        api=version.api,
        containerd=drivers.get("driver-type", "").startswith("io.containerd"),
        data=_data(endpoint, Path(info.root)),
    )


def _data(endpoint: Endpoint, root: Path) -> Path | None:
    """The engine's data if it is seen from here: with subfolders, else it is a mount point of another namespace."""
    try:
        seen = endpoint.host.startswith("unix://") and root.is_dir() and root.stat().st_nlink != 2
    except (OSError, ValueError):  # it is a path of that engine's machine, and may be none here
        return None
    return root if seen else None


def _unreachable(error: Exception) -> UnreachableError:
    return UnreachableError(
        _reason(error),
        refused=isinstance(error, ConnectionRefusedError | FileNotFoundError),
        denied=isinstance(error, PermissionError),
    )


def _connect(endpoint: Endpoint) -> None:
    """Raise UnreachableError at once, with the system's error, where no program listens.

    The SDK hides that error and leaks its socket. It is not even imported then: it takes a tenth of a second.
    """
    if endpoint.host.startswith("unix://"):
        try:
            with socket.socket(socket.AF_UNIX) as probing:
                probing.settimeout(PING_TIMEOUT)
                probing.connect(endpoint.host.removeprefix("unix://"))
        except OSError as error:
            raise _unreachable(error) from error


def _open(endpoint: Endpoint, timeout: int, version: str = "auto") -> "docker.DockerClient":
    """A client; it asks the engine for the version of its API when none is given."""
    from docker import DockerClient  # noqa: PLC0415 - for an engine that listens

    ssh = endpoint.host.startswith("ssh://")
    return DockerClient(
        base_url=endpoint.host, version=version, timeout=timeout, tls=_tls(endpoint), use_ssh_client=ssh
    )


def _tls(endpoint: Endpoint) -> "TLSConfig | bool":
    from docker.tls import TLSConfig  # noqa: PLC0415 - for an engine that listens

    folder = endpoint.certificates
    if folder is None:
        return False
    pair = (str(folder / "cert.pem"), str(folder / "key.pem"))
    return TLSConfig(client_cert=pair, ca_cert=str(folder / "ca.pem"), verify=endpoint.verify)


def _reason(error: BaseException) -> str:
    """The innermost cause, which is what a person can act on (the SDK wraps it five times)."""
    explanation = getattr(error, "explanation", None)  # of the SDK's error for what the engine answered
    if explanation:
        return str(explanation)
    inner = error
    while inner.__context__ is not None:
        inner = inner.__context__
    return getattr(inner, "strerror", None) or str(inner) or type(inner).__name__


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineHost:
    """The machine behind an engine."""

    machine: str
    """In the kernel's spelling: ``aarch64``."""
    memory: int
    """Bytes."""
    ahead: float
    """Seconds by which its clock is before ours; zero where that is not known."""
    runtimes: frozenset[str]
    """Names of the engine's runtimes: ``runc``, ``nvidia``."""


def engine_host(engine: Engine) -> EngineHost:
    """The machine that an engine runs on; raises EngineError."""
    from gb10.containers.docker_answers import MachineAnswer  # noqa: PLC0415 - for an engine that listens

    with asking(engine) as sdk:
        sent = time.time()
        info = MachineAnswer.model_validate(sdk.info())
        middle = (sent + time.time()) / 2
    clock = seconds_of(info.clock)
    return EngineHost(
        machine=info.machine,
        memory=info.memory,
        ahead=clock - middle if clock is not None else 0.0,
        runtimes=frozenset(info.runtimes),
    )


def engine_id(engine: Engine) -> str:
    """An engine's name for itself; it gets a new one when its data are wiped. Raises EngineError."""
    from gb10.containers.docker_answers import EngineIdAnswer  # noqa: PLC0415 - for an engine that listens

    with asking(engine) as sdk:
        return EngineIdAnswer.model_validate(sdk.info()).id


def seconds_of(moment: str) -> float | None:
    """A time as an engine writes it (RFC 3339, nanoseconds) in seconds since 1970; None for what is none. Pure."""
    try:
        found = datetime.fromisoformat(moment)
    except (ValueError, OverflowError):
        return None
    return found.timestamp() if found.tzinfo is not None and found.year > 1 else None


DEFAULT_SOCKET = "unix:///var/run/docker.sock"
DEFAULT_ORIGIN = "default socket"


def chosen_endpoint(env: Mapping[str, str]) -> Endpoint:
    """What ``docker`` would talk to under this environment; raises EngineError for a context that does not exist.

    Precedence and file layout: docs.docker.com, "Docker contexts" (DOCKER_HOST wins over every context).
    """
    if env.get("DOCKER_HOST"):
        folder = Path(env["DOCKER_CERT_PATH"]) if env.get("DOCKER_CERT_PATH") else client_folder(env)
        verify = bool(env.get("DOCKER_TLS_VERIFY"))
        return Endpoint(host=env["DOCKER_HOST"], origin="DOCKER_HOST", certificates=folder if verify else None)
    name = env.get("DOCKER_CONTEXT") or _read(client_folder(env) / "config.json").get("currentContext") or "default"
    if name == "default":
        return Endpoint(host=DEFAULT_SOCKET, origin=DEFAULT_ORIGIN)
    return _context(client_folder(env), name)


def client_folder(env: Mapping[str, str]) -> Path:
    """The folder of the Docker client's own configuration."""
    return Path(env["DOCKER_CONFIG"]) if env.get("DOCKER_CONFIG") else Path(env.get("HOME") or "/") / ".docker"


def _context(folder: Path, name: str) -> Endpoint:
    digest = hashlib.sha256(name.encode()).hexdigest()
    meta = folder / "contexts/meta" / digest / "meta.json"
    endpoint = _read(meta).get("Endpoints", {}).get("docker", {})
    if not endpoint.get("Host"):
        raise EngineError(
            f"the docker context {name!r} does not exist or names no host",
            where=str(meta),
            hint="choose another: docker context use NAME, or set DOCKER_HOST",
        )
    tls = folder / "contexts/tls" / digest / "docker"
    return Endpoint(
        host=endpoint["Host"],
        origin=f"context {name}",
        context=name,
        certificates=tls if tls.is_dir() else None,
        verify=not endpoint.get("SkipTLSVerify"),
    )


def _read(path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, ValueError) as error:
        raise EngineError(f"cannot read {path}", where=str(error), hint="mend it, or set DOCKER_HOST") from error
