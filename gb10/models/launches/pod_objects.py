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


def pod_launches(
    document: SafeDocument, values: Mapping[object, object], first: int = 0
) -> tuple[ContainerLaunch, ...]:
    """Every container of the objects of one document; ``first`` is the document's line in its file, from 0."""
    return tuple(_containers(document, values, (), first))[:MOST]


def _containers(document: SafeDocument, value: object, at: At, first: int) -> Iterator[ContainerLaunch]:
    """Containers in any depth: of pods, templates, and templates of templates; init containers are other programs."""
    if len(at) > DEEPEST:
        return
    if isinstance(value, Mapping):
        for key, one in value.items():
            if key == "containers" and isinstance(one, list):
                for index, container in enumerate(one):
                    if isinstance(container, Mapping):
                        yield _container(document, container, (*at, "containers", index), first)
            else:
                yield from _containers(document, one, (*at, str(key)), first)
    elif isinstance(value, list):
        for index, one in enumerate(value):
            yield from _containers(document, one, (*at, index), first)


def _container(document: SafeDocument, container: Mapping[object, object], at: At, first: int) -> ContainerLaunch:
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
    taken = [Taken(line=line(str(key)), written=str(key), **_became(str(key))) for key in container]
    return ContainerLaunch(
        form="Kubernetes",
        name=str(container.get("name") or f"line-{line()}"),
        line=line(),
        image=image,
        words=words,
        environment={name: value for _, name, value in variables if value is not None},
        ports=tuple(_ports(container.get("ports"))),
        options={},
        gpu=any(name in str(container.get("resources")) for name in GPUS),
        entrypoint=" ".join(command),
        taken=(
            *taken,
            *(
                Taken(line=line("env", index), written=name, why="its value is in another object")
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
