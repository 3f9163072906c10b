"""Access to a registry as Docker has it, for a program that is not Docker: credentials, and who needs no TLS."""

import json
import os
import socket
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network
from typing import Any
from urllib.parse import urlsplit

from docker import auth
from docker.errors import DockerException

from gb10.containers.connection import Engine, asking, client_folder
from gb10.containers.reference import split_reference
from gb10.containers.registry.skopeo import Access
from gb10.containers.registry.transfer import LOGIN
from gb10.errors import PublishError


@dataclass(frozen=True, kw_only=True, slots=True)
class Login:
    """How a registry is met by a program of ours: its host, TLS or not, and the credentials, if there are any."""

    host: str
    tls: bool
    user: str = ""
    password: str = field(default="", repr=False)
    identity: str = field(default="", repr=False)
    """A token by which another server gives tokens for the registry."""

    @property
    def basic(self) -> str:
        """User and password as HTTP has them."""
        return b64encode(f"{self.user}:{self.password}".encode()).decode()


def login_for(engine: Engine | None, env: Mapping[str, str], reference: str) -> Login:
    """The login for the registry of a reference, as Docker has it. Raises EngineError and PublishError.

    Without an engine, nobody says which registries need no TLS: then this machine's own.
    """
    host = auth.resolve_repository_name(split_reference(reference.partition("@")[0])[0])[0]
    tls = _needs_tls(engine, host) if engine else not _is_here(host)
    found = _credentials(env, host).get(host, {})
    user, _, password = b64decode(found.get("auth", "")).decode().partition(":")
    identity = found.get("identitytoken", "")
    return Login(host=host, tls=tls, user="" if identity else user, password=password, identity=identity)


def _is_here(host: str) -> bool:
    return all(address.is_loopback for address in _addresses(host)) and any(True for _ in _addresses(host))


@contextmanager
def access_to(engine: Engine, env: Mapping[str, str], reference: str) -> Iterator[Access]:
    """Access to the registry of a reference, while the context lasts.

    Docker's SDK finds the credentials, as for a push by the engine (skopeo knows no ``credsStore``). They are handed on
    in a file in memory: none lies on a disk or stands on a command line. Raises EngineError and PublishError.
    """
    host = auth.resolve_repository_name(split_reference(reference)[0])[0]
    tls = _needs_tls(engine, host)
    handle = os.memfd_create("credentials")
    try:
        os.write(handle, json.dumps({"auths": _credentials(env, host)}).encode())
        yield Access(credentials=f"/proc/{os.getpid()}/fd/{handle}", tls=tls)
    finally:
        os.close(handle)


def _credentials(env: Mapping[str, str], host: str) -> dict[str, dict[str, str]]:
    try:
        config = auth.load_config(str(client_folder(env) / "config.json"), credstore_env=dict(env))
        found: Mapping[str, str] | None = config.resolve_authconfig(host)
    except DockerException as error:
        raise PublishError(f"the credentials for {host} cannot be read", where=str(error), hint=LOGIN) from error
    return {host: as_skopeo_reads(found)} if found else {}


def as_skopeo_reads(found: Mapping[str, str]) -> dict[str, str]:
    """One entry of ``auths``, of what Docker's SDK found: its spelling depends on where it was found. Pure."""
    fields = {name.lower(): value for name, value in found.items()}
    token = fields.get("identitytoken")
    pair = "<token>:" if token else f"{fields.get('username', '')}:{fields.get('password', '')}"
    return {"auth": b64encode(pair.encode()).decode()} | ({"identitytoken": token} if token else {})


def _needs_tls(engine: Engine, host: str) -> bool:
    """By the engine's own rules: its list of insecure registries, and its networks that need none."""
    with asking(engine) as sdk:
        rules: dict[str, Any] = sdk.info().get("RegistryConfig") or {}
    known = (rules.get("IndexConfigs") or {}).get(host)
    if known:
        return bool(known["Secure"])
    free = [ip_network(text) for text in rules.get("InsecureRegistryCIDRs") or ()]
    return not any(address in network for address in _addresses(host) for network in free)


def _addresses(host: str) -> Iterator[Any]:
    """What a registry's name stands for; nothing where only a proxy knows it, as Docker has it."""
    try:
        found = socket.getaddrinfo(urlsplit(f"//{host}").hostname, None)
    except socket.gaierror:
        return
    yield from (ip_address(str(place[0]).partition("%")[0]) for *_, place in found)
