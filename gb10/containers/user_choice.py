"""The user's choice of engine, as Docker's own client reads it: DOCKER_HOST, DOCKER_CONTEXT, its config, its socket."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gb10.containers.connection import Endpoint
from gb10.errors import EngineError

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
