"""What a machine must allow before the embedded engine can run on it."""

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from gb10.containers.embedded.namespace import TOOLS
from gb10.errors import EngineError

CAP_SYS_ADMIN = 21
"""linux/capability.h"""
WAYS_OUT = (
    "either start Docker (23.0 or newer) and point to it by DOCKER_HOST,\n"
    "or run as root with CAP_SYS_ADMIN on Linux (in a container: --privileged), for the embedded engine"
)


def require_privileges(env: Mapping[str, str]) -> None:
    """Raises EngineError that names what is lacking and the two ways out."""
    lacking = missing_privilege(env)
    if lacking:
        raise EngineError("no container engine can be used here", where=lacking, hint=WAYS_OUT)


def missing_privilege(env: Mapping[str, str]) -> str | None:
    """The first thing that the embedded engine needs and this process has not."""
    if sys.platform != "linux":
        return f"the embedded engine needs Linux, this is {sys.platform}"
    if os.geteuid() != 0:
        return "the embedded engine needs root"
    if not _effective_capabilities() >> CAP_SYS_ADMIN & 1:
        return "the embedded engine needs CAP_SYS_ADMIN, and this root lacks it"
    missing = [tool for tool in TOOLS if shutil.which(tool, path=env.get("PATH")) is None]
    return (
        f"the embedded engine needs {' and '.join(missing)} (Debian packages util-linux, mount, coreutils)"
        if missing
        else None
    )


def missing_capability() -> str | None:
    """Why this process may not mount and register things with the kernel, None when it may."""
    if os.geteuid() != 0:
        return "this process is not root"
    return None if _effective_capabilities() >> CAP_SYS_ADMIN & 1 else "this root lacks CAP_SYS_ADMIN"


def _effective_capabilities() -> int:
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        name, _, value = line.partition(":")
        if name == "CapEff":
            return int(value, 16)
    return 0
