"""The containers of Kubernetes objects, of whatever kind holds pods: what is taken of each, and what is not. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from gb10.models.launches.container_launch import ContainerLaunch, Taken, texts_of, with_entrypoint
from gb10.models.load.model_recipe import At
from gb10.models.load.safe_yaml import SafeDocument

DEEPEST: Final = 16
"""Levels of an object in which pods are looked for."""
MOST: Final = 200
"""Containers of a file."""
GPUS: Final = ("nvidia.com/", "gpu.nvidia.com")
WHY: Final = {
    "livenessProbe": "`run` and the launchers ask the server themselves",
    "readinessProbe": "`run` and the launchers ask the server themselves",
    "startupProbe": "`run` and the launchers ask the server themselves",
    "imagePullPolicy": "the launcher decides it",
    "envFrom": "the other object was not read",
}
OF_POD: Final = {
    "replicas": "a recipe is one server",
    "hostNetwork": "`run` uses the network of its host always",
    "initContainers": "they are other programs, and a recipe is one server",
}
"""Keys around a container that become nothing, and why."""


def pod_launches(
    document: SafeDocument, values: Mapping[object, object], first: int = 0
) -> tuple[ContainerLaunch, ...]:
    """Every container of the objects of one document; ``first`` is the document's line in its file, from 0."""
    return tuple(_containers(document, values, (), first))[:MOST]


def _containers(
    document: SafeDocument, value: object, at: At, first: int, around: tuple[Taken, ...] = ()
) -> Iterator[ContainerLaunch]:
    """Containers in any depth: of pods, templates, and templates of templates; init containers are other programs."""
    if len(at) > DEEPEST:
        return
    if isinstance(value, Mapping):
        around = (*around, *_of_pod(document, value, at, first))
        for key, one in value.items():
            if key == "containers" and isinstance(one, list):
                for index, container in enumerate(one):
                    if isinstance(container, Mapping):
                        yield _container(document, container, (*at, "containers", index), first, (value, around))
            else:
                yield from _containers(document, one, (*at, str(key)), first, around)
    elif isinstance(value, list):
        for index, one in enumerate(value):
            yield from _containers(document, one, (*at, index), first, around)


def _of_pod(document: SafeDocument, value: Mapping[object, object], at: At, first: int) -> Iterator[Taken]:
    for key, why in OF_POD.items():
        if value.get(key):
            line = document.keys.get((*at, key)) or document.lines.get((*at, key)) or 0
            yield Taken(line=line + first, written=key, why=why)


def _container(
    document: SafeDocument,
    container: Mapping[object, object],
    at: At,
    first: int,
    pod: tuple[Mapping[object, object], tuple[Taken, ...]],
) -> ContainerLaunch:
    def line(*below: str | int) -> int:
        for length in range(len(below), -1, -1):
            found = document.keys.get((*at, *below[:length])) or document.lines.get((*at, *below[:length]))
            if found:
                return found + first
        return first + 1

    image = str(container.get("image") or "")
    command = tuple(texts_of(container.get("command")))
    words = with_entrypoint(image, tuple(texts_of(container.get("args"))), command or None)
    variables = list(_variables(container.get("env")))
    taken = [Taken(line=line(str(key)), written=str(key), **_became(str(key))) for key in container if key not in HOST]
    options: dict[str, object] = {}
    for key, written, name, setting in _host(container, pod[0]):
        if isinstance(setting, Left):
            taken.append(Taken(line=line(key), written=written, why=setting))
        else:
            before = options.get(name)
            options[name] = [*before, *setting] if isinstance(before, list) and isinstance(setting, list) else setting
            taken.append(Taken(line=line(key), written=written, became=f"executor_config.{name}"))
    return ContainerLaunch(
        form="Kubernetes",
        name=str(container.get("name") or f"line-{line()}"),
        line=line(),
        image=image,
        words=words,
        own=() if command else tuple(texts_of(container.get("args"))),
        environment={name: value for _, name, value in variables if value is not None},
        ports=tuple(_ports(container.get("ports"))),
        options=options,
        gpu=any(name in str(container.get("resources")) for name in GPUS),
        entrypoint=" ".join(command),
        taken=(
            *taken,
            *pod[1],
            *(
                Taken(line=line("env", index), written=name, why=_source(container, index))
                for index, name, value in variables
                if value is None
            ),
        ),
        lines={
            "image": line("image"),
            "command": line("args") if container.get("args") else line("command"),
            "entrypoint": line("command"),
            "ports": line("ports"),
            **{f"env.{name}": line("env", index) for index, name, _ in variables},
        },
    )


class Left(str):
    """Why something is left out."""

    __slots__ = ()


HOST: Final = ("securityContext", "volumeMounts")
Row = tuple[str, str, str, object]
"""The container's key, what is written, the name in ``executor_config``, and its value or why it is left out."""


def _host(container: Mapping[object, object], pod: Mapping[object, object]) -> Iterator[Row]:
    """What a container asks of its host."""
    security = _mapping(container.get("securityContext"))
    for key, value in security.items():
        if key == "privileged":
            yield "securityContext", "privileged", "privileged", bool(value)
        elif key == "runAsUser":
            yield "securityContext", "runAsUser", "user", str(value)
        elif key == "capabilities" and list(texts_of(_mapping(value).get("add"))):
            yield "securityContext", "capabilities.add", "cap_add", list(texts_of(_mapping(value).get("add")))
        else:
            yield "securityContext", f"securityContext.{key}", "", Left("no key of a recipe says it")
    listed = pod.get("volumes")
    found = listed if isinstance(listed, list) else []
    volumes = {str(one.get("name")): one for one in found if isinstance(one, Mapping)}
    mounts = container.get("volumeMounts")
    for mount in mounts if isinstance(mounts, list) else ():
        yield from _mount(_mapping(mount), volumes)
    limits = _mapping(_mapping(container.get("resources")).get("limits"))
    if "memory" in limits:
        why = Left("`run --memory` takes it, no key of a recipe")
        yield "resources", f"memory {limits['memory']}", "", why
    for key, value in limits.items():
        if key.startswith("nvidia.com/") and str(value) not in ("0", "1"):
            yield "resources", f"{key} {value}", "", Left("a node of GB10 has one GPU; a recipe says min_nodes")


def _mount(mount: Mapping[str, object], volumes: Mapping[str, Mapping[object, object]]) -> Iterator[Row]:
    name, path = str(mount.get("name")), str(mount.get("mountPath"))
    volume = volumes.get(name, {})
    folder = _mapping(volume.get("hostPath")).get("path")
    memory = _mapping(volume.get("emptyDir"))
    if folder and "subPath" not in mount:
        yield "volumeMounts", name, "volumes", [f"{folder}:{path}{':ro' if mount.get('readOnly') else ''}"]
    elif path == "/dev/shm" and memory.get("medium") == "Memory" and memory.get("sizeLimit"):  # noqa: S108
        yield "volumeMounts", name, "shm_size", str(memory["sizeLimit"]).removesuffix("i").lower()
    else:
        yield "volumeMounts", f"volume {name} at {path}", "", Left("it is no whole folder of the host")


def _mapping(value: object) -> Mapping[str, object]:
    return {str(key): one for key, one in value.items()} if isinstance(value, Mapping) else {}


def _source(container: Mapping[object, object], index: int) -> str:
    """Why a variable has no value."""
    variables = container.get("env")
    source = _mapping(_mapping(variables[index]).get("valueFrom")) if isinstance(variables, list) else {}
    known = "fieldRef" in source or "resourceFieldRef" in source
    return "Kubernetes fills it in from the pod" if known else "its value is in another object"


def _became(key: str) -> dict[str, str]:
    parts = {
        "image": "container",
        "command": "command",
        "args": "command",
        "env": "env",
        "ports": "port",
        "name": "name",
    }
    if key in parts:
        return {"became": parts[key]}
    if key == "resources":
        return {"became": "the GPU", "why": ""}
    return {"why": WHY.get(key, "no key of a recipe says it")}


def _variables(value: object) -> Iterator[tuple[int, str, str | None]]:
    """Index, name and value; None for a value of another object."""
    for index, one in enumerate(value if isinstance(value, list) else ()):
        if isinstance(one, Mapping) and one.get("name"):
            given = one.get("value")
            yield index, str(one["name"]), None if one.get("valueFrom") else "" if given is None else str(given)


def _ports(value: object) -> Iterator[tuple[int, int]]:
    ports: Sequence[object] = value if isinstance(value, list) else ()
    for one in ports:
        port = one.get("containerPort") if isinstance(one, Mapping) else None
        if isinstance(port, int) and 0 < port < 1 << 16:
            yield port, port
