"""Docker's settings on a machine, as far as GPUs need them. Pure."""

import json
import tomllib
from typing import Any, Final

from gb10.serving.doctor.host_state import Look

DAEMON: Final = "/etc/docker/daemon.json"
TOOLKIT: Final = "/etc/nvidia-container-runtime/config.toml"


def daemon_settings(look: Look) -> dict[str, Any] | None:
    """Docker's own file; None when it is not there, or says nothing that can be read."""
    try:
        found = json.loads(look.files.get(DAEMON, ""))
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def docker_lacks_gpus(look: Look) -> bool:
    """Whether Docker knows no way to give a GPU to a container, as far as its files tell."""
    if DAEMON in look.unreadable or look.cdi:
        return False
    runtimes = (daemon_settings(look) or {}).get("runtimes")
    return not (isinstance(runtimes, dict) and "nvidia" in runtimes)


def toolkit_is_cdi(look: Look) -> bool:
    """Whether NVIDIA's toolkit is in the mode that refuses --gpus."""
    try:
        found = tomllib.loads(look.files.get(TOOLKIT, ""))
    except (tomllib.TOMLDecodeError, RecursionError):
        return False
    section = found.get("nvidia-container-runtime")
    return isinstance(section, dict) and section.get("mode") == "cdi"
