"""The services of a compose file, by the compose specification: what is taken of each, and what is not. Pure."""

import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Final

from gb10.models.launches.container_launch import (
    LARGEST_MAPPING,
    ContainerLaunch,
    Taken,
    interpolated,
    mapped_port,
    texts_of,
    with_entrypoint,
)
from gb10.models.load.safe_yaml import SafeDocument

KEYS: Final = {
    "shm_size": "shm_size",
    "ipc": "ipc",
    "network_mode": "network",
    "user": "user",
    "mem_limit": "memory_limit",
    "restart": "restart_policy",
    "privileged": "privileged",
    "volumes": "volumes",
    "cap_add": "cap_add",
    "devices": "devices",
    "security_opt": "security_opt",
    "ulimits": "ulimit",
    "labels": "labels",
}
WHY: Final = {
    "build": "lint and recipes name an image, they build none here",
    "env_file": "the file was not read",
    "extends": "the other service was not read",
    "healthcheck": "`run` and the launchers ask the server themselves",
    "depends_on": "a recipe is one server",
    "profiles": "a recipe is one server",
    "container_name": "the launcher names its containers",
    "hostname": "the launcher names its containers",
}
"""Keys that become nothing, and why; of another one a recipe has no key."""


NAME: Final = re.compile(r"\w{1,128}")


def variables_of(dotenv: str) -> dict[str, str]:
    """What the ``.env`` beside a compose file sets, less what is named like a secret: the last line of a name counts.

    A value holds variables of the lines above it, but in single quotation marks.
    """
    from gb10.core.secret_names import Level, level_of  # noqa: PLC0415 - for a compose file with an .env

    found: dict[str, str] = {}
    for line in dotenv.splitlines():
        written, _, value = line.partition("=")
        name, text = written.strip().removeprefix("export ").strip(), value[:LARGEST_MAPPING].strip()
        if not NAME.fullmatch(name) or level_of(name) >= Level.WEAK:
            continue
        if text[:1] in ("'", '"') and text.find(text[0], 1) > 0:
            plain = text[1 : text.index(text[0], 1)]
        else:
            plain = "" if text.startswith("#") else re.split(r"[ \t]#", text, maxsplit=1)[0].strip()
        found[name] = plain if text.startswith("'") else interpolated(plain, found)
    return found


def compose_launches(
    document: SafeDocument, values: Mapping[object, object], known: Mapping[str, str]
) -> tuple[ContainerLaunch, ...]:
    """The services in the order of the file, with the variables of the ``.env`` beside it.

    Others without a default stay as ``$NAME``.
    """
    services = values.get("services")
    found = services.items() if isinstance(services, Mapping) else ()
    return tuple(_service(document, str(name), one, known) for name, one in found if isinstance(one, Mapping))


def _service(
    document: SafeDocument, name: str, service: Mapping[object, object], known: Mapping[str, str]
) -> ContainerLaunch:
    at = ("services", name)

    def line(*below: str) -> int:
        return document.keys.get((*at, *below)) or document.lines.get((*at, *below)) or document.keys.get(at, 0)

    image = interpolated(str(service.get("image") or ""), known)
    entrypoint = _command(service["entrypoint"], known) if service.get("entrypoint") is not None else None
    words = with_entrypoint(image, _command(service.get("command"), known), entrypoint)
    environment = dict(_environment(service.get("environment"), known))
    ports = [port for text in _ports(service.get("ports"), known) if (port := mapped_port(text))]
    taken = []
    for key in map(str, service):
        became, why = _became(key, service.get(key))
        taken.append(Taken(line=line(key), written=key, became=became, why=why))
    taken += [Taken(line=line("deploy"), written=f"deploy.{key}", why=why) for key, why in _of_deploy(service)]
    asked = [service.get(key) for key in ("deploy", "runtime", "devices", "device_requests")]
    return ContainerLaunch(
        form="compose",
        name=name,
        line=line(),
        image=image,
        words=words,
        own=_command(service.get("command"), known) if entrypoint is None else (),
        environment={key: value for key, value in environment.items() if value is not None},
        ports=tuple(ports),
        options={KEYS[key]: value for key, value in _options(service) if key in KEYS},
        gpu=service.get("gpus") is not None or any("nvidia" in str(one) for one in asked),
        entrypoint=" ".join(entrypoint or ()),
        taken=(
            *taken,
            *(
                Taken(line=line("environment"), written=key, why="its value is the environment of whoever runs compose")
                for key, value in environment.items()
                if value is None
            ),
        ),
        lines={
            "image": line("image"),
            "command": line("command"),
            "ports": line("ports"),
            "entrypoint": line("entrypoint"),
            **{f"env.{key}": line("environment", key) for key in environment},
            **{
                f"env.{one.partition('=')[0]}": at_line
                for one, at_line in _listed(document, name, service, "environment")
            },
            **{f"volumes.{one}": at_line for one, at_line in _listed(document, name, service, "volumes")},
        },
    )


def _listed(document: SafeDocument, name: str, service: Mapping[object, object], key: str) -> Iterator[tuple[str, int]]:
    """Each text of a list of a service, with its line."""
    entries = service.get(key)
    for index, one in enumerate(entries if isinstance(entries, list) else ()):
        found = document.lines.get(("services", name, key, index))
        if isinstance(one, str) and found:
            yield one, found


def _options(service: Mapping[object, object]) -> Iterator[tuple[str, object]]:
    for key, value in service.items():
        yield str(key), list(texts_of(value)) if isinstance(value, list) else value


def _became(key: str, value: object) -> tuple[str, str]:
    parts = {"image": "container", "command": "command", "entrypoint": "command", "environment": "env", "ports": "port"}
    if key in parts:
        return parts[key], ""
    if key in KEYS:
        return f"executor_config.{KEYS[key]}", ""
    if key in ("deploy", "gpus", "runtime") and "nvidia" in str(value) + key.replace("gpus", "nvidia"):
        return "the GPU", ""
    return "", WHY.get(key, "no key of a recipe says it")


def _of_deploy(service: Mapping[object, object]) -> Iterator[tuple[str, str]]:
    """What ``deploy`` says beside the GPU."""
    deploy = service.get("deploy")
    deploy = deploy if isinstance(deploy, Mapping) else {}
    resources = deploy.get("resources")
    limits = resources.get("limits") if isinstance(resources, Mapping) else None
    if deploy.get("replicas"):
        yield "replicas", "a recipe is one server"
    if isinstance(limits, Mapping) and limits.get("memory"):
        yield "resources.limits.memory", "`run --memory` takes it, no key of a recipe"


def _command(value: object, known: Mapping[str, str]) -> tuple[str, ...]:
    """A command as a text, which a shell would split, or as a list."""
    if isinstance(value, str):
        try:
            return tuple(interpolated(word, known) for word in shlex.split(value))
        except ValueError:
            return tuple(value.split())
    return tuple(interpolated(word, known) for word in texts_of(value))


def _environment(value: object, known: Mapping[str, str]) -> Iterator[tuple[str, str | None]]:
    """Variables of a mapping or of a list; None for one whose value is not in the file."""
    if isinstance(value, Mapping):
        for key, one in value.items():
            yield str(key), None if one is None else interpolated(_scalar(one), known)
    for text in texts_of(value) if isinstance(value, list) else ():
        key, equals, given = text.partition("=")
        yield key, interpolated(given, known) if equals else None


def _scalar(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _ports(value: object, known: Mapping[str, str]) -> Iterator[str]:
    for one in value if isinstance(value, list) else ():
        if isinstance(one, Mapping):
            yield f"{one.get('published') or one.get('target')}:{one.get('target')}"
        elif isinstance(one, str | int):
            yield interpolated(str(one), known)
