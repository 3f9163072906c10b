"""Builders: your buildx builder builds for the engine; the engine receives the result."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from gb10.containers.buildx.commands import open_buildx
from gb10.containers.connection import Engine
from gb10.core.proc import CommandFailedError, capture_while_active
from gb10.core.store import Store
from gb10.errors import EngineError

PATIENCE = 600.0
"""Seconds after which a start is given up that shows no progress; it may pull BuildKit's image."""
DRIVER = re.compile(r"(?m)^Driver:\s+(\S+)")
PLATFORMS = re.compile(r"(?m)^\s*Platforms:\s+(.+)$")


@dataclass(frozen=True, kw_only=True, slots=True)
class Builder:
    """The output of ``buildx inspect`` for a builder: its driver and its platforms, emulated or not."""

    driver: str
    platforms: frozenset[str]


def read_builder(text: str) -> Builder:
    """The answer of ``buildx inspect``; the preferred platforms end in ``*``."""
    driver = DRIVER.search(text)
    listed = (platform.strip(" *\r") for line in PLATFORMS.findall(text) for platform in line.split(","))
    return Builder(driver=driver[1] if driver else "", platforms=frozenset(listed))


def require_builder(engine: Engine, env: Mapping[str, str], store: Store, platform: str) -> Builder:
    """The builder that an engine names, started when it must be; raises EngineError when it cannot build here."""
    buildx = open_buildx(engine, env, store)
    try:
        argv = [*buildx.command, "inspect", "--bootstrap"]
        found = read_builder(capture_while_active(argv, env=buildx.env, patience=PATIENCE))
    except CommandFailedError as error:
        hint = "docker buildx ls lists yours; docs/builders.md shows how one is made"
        raise EngineError(f"the builder {engine.builder} cannot be used", where=error.tail, hint=hint) from error
    if platform not in found.platforms:
        raise EngineError(
            f"the builder {engine.builder} has no node for {platform}, the architecture of this machine's compilers",
            where=f"it runs {', '.join(sorted(found.platforms)) or 'no platform that it lists'}",
            hint="name one that has a node of this machine's architecture",
        )
    return found
