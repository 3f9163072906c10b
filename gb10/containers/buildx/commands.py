"""The docker and buildx that a build runs: the user's plugin for the user's engine, else our own, and what leads them.

A build is steered by its request alone: variables that would change it behind our back are not passed on.
"""

import json
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass

from gb10.containers.connection import Engine, client_folder
from gb10.containers.failure import explained
from gb10.containers.packages import Programs, unpack, unpacked
from gb10.core.proc import CommandFailedError, capture, capture_while_active
from gb10.core.store import Store
from gb10.errors import EngineError

LEAST_VERSION = (0, 13)
"""The first buildx with --progress=rawjson."""
VERSION = re.compile(r"buildx v?(\d+)\.(\d+)")
CHOICE = ("DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH")
STEERING = ("BUILDX_", "BUILDKIT_", "DOCKER_BUILDKIT", "SOURCE_DATE_EPOCH")
"""Variables that would change a build behind our back: SOURCE_DATE_EPOCH becomes a build argument by itself."""


@dataclass(frozen=True, slots=True)
class Buildx:
    """A buildx to run: its command, its version, the environment that leads it to the engine."""

    command: tuple[str, ...]
    version: tuple[int, int]
    env: Mapping[str, str]
    store: Store


def open_buildx(engine: Engine, env: Mapping[str, str], store: Store) -> Buildx:
    """The buildx for an engine: the user's plugin for the user's engine, else our own; raises EngineError."""
    own_env = _environment(engine, env, store)
    named = (f"--builder={engine.builder}",) if engine.builder else ()
    plugin = _plugin(own_env) if engine.kind == "user" else None
    if plugin and plugin >= LEAST_VERSION:
        return Buildx(("docker", "buildx", *named), plugin, own_env, store)
    programs = _programs(store, env, plugin)
    command = (str(programs.bin / "docker-buildx"), *named)
    with explained("buildx does not run", hint="./build.py engine down, then run the command again: it is checked"):
        text = capture([*command, "version"], env=own_env)
    return Buildx(command, _version(text), own_env, store)


def _programs(store: Store, env: Mapping[str, str], plugin: tuple[int, int] | None) -> Programs:
    """Our own buildx. Raises EngineError, which names the user's plugin when it is too old."""
    try:
        return unpacked(store) or unpack(store, env)
    except EngineError as error:
        if plugin is None:
            raise
        raise EngineError(
            f"docker buildx {'.'.join(map(str, plugin))} is too old: gb10 needs 0.13 or newer",
            where=f"a newer one cannot be fetched: {error.message}",
            hint="install docker-buildx 0.13 or newer",
        ) from error


def client_variables(env: Mapping[str, str], store: Store) -> dict[str, str]:
    """The user's own variables for buildx, credentials' place included, without those that steer it."""
    kept = {name: value for name, value in env.items() if not name.startswith(STEERING)}
    return {**kept, "BUILDX_CONFIG": str(store.entry("engine", "buildx"))}


def _environment(engine: Engine, env: Mapping[str, str], store: Store) -> dict[str, str]:
    kept = client_variables(env, store)
    if engine.builder:  # the user's own list of builders, and the credentials that it works with
        kept["BUILDX_CONFIG"] = env.get("BUILDX_CONFIG") or str(client_folder(env) / "buildx")
        reached = {"DOCKER_HOST": engine.endpoint.host} if engine.kind == "embedded" else {}
        return {name: value for name, value in kept.items() if not reached or name not in CHOICE} | reached
    if engine.kind == "user":
        return kept
    # the embedded engine is reached without credentials of the user
    folder, programs = store.entry("engine", "client"), unpacked(store)
    plugins = {"cliPluginsExtraDirs": [str(programs.bin)]} if programs else {}
    store.write_text(folder / "config.json", json.dumps(plugins))
    kept = {name: value for name, value in kept.items() if not name.startswith("DOCKER_")}
    return {**kept, "DOCKER_HOST": engine.endpoint.host, "DOCKER_CONFIG": str(folder)}


def _plugin(env: Mapping[str, str]) -> tuple[int, int] | None:
    """The version of your buildx plugin; None when it is absent or does not run."""
    if shutil.which("docker", path=env.get("PATH")) is None:
        return None
    try:
        return _version(capture(["docker", "buildx", "version"], env=env))
    except CommandFailedError:
        return None


def _version(text: str) -> tuple[int, int]:
    match = VERSION.search(text)
    if match is None:
        raise EngineError(
            f"cannot read buildx's version from {text.strip()!r}", hint="install docker-buildx 0.13 or newer"
        )
    return int(match[1]), int(match[2])


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
