"""Kernel sets: which modules a wheel of kernels holds, from recipes/kernels; a set may include others. Pure."""

import tomllib
from collections.abc import Mapping
from typing import Any, Final

from gb10.errors import UsageError

ROOM: Final = "kernels/"
COSTS: Final = f"{ROOM}costs.toml"

KernelSet = Mapping[str, Any]
"""A set in its file format: ``name``, ``module`` and ``group`` tables; included entries come first."""


def read_sets(contents: Mapping[str, bytes]) -> dict[str, KernelSet]:
    """Every set among the catalog's files, by the name of its file; raises UsageError for an invalid set."""
    files = {name: content for name, content in contents.items() if name.startswith(ROOM) and name != COSTS}
    raw = {name.removeprefix(ROOM).removesuffix(".toml"): _read(name, content) for name, content in files.items()}
    return {name: merged(name, raw) for name in raw}


def merged(name: str, raw: Mapping[str, KernelSet], above: tuple[str, ...] = ()) -> KernelSet:
    """A set with the included sets of the same owner; releases are those that all of them support."""
    own = dict(raw[name])
    for short in own.pop("includes", ()):
        other = f"{name.removesuffix(own['name'])}{short}"
        if other not in raw or other in (*above, name):
            raise UsageError(
                f"the kernel set {own['name']} includes {short!r}",
                where=f"recipes/{ROOM}{name}.toml",
                hint=f"known: {', '.join(sorted(raw))}",
            )
        below = merged(other, raw, (*above, name))
        own["flashinfer"] = [release for release in own["flashinfer"] if release in below["flashinfer"]]
        for part in ("module", "group"):
            own[part] = [*below.get(part, ()), *own.get(part, ())]
        own["without"] = {**below.get("without", {}), **own.get("without", {})}
    return own


def content(kernels: KernelSet) -> KernelSet:
    """The part of a set that affects its wheel: not its name, its tested releases or its cost.

    ``wheels`` are not included: they are inputs with their own digests.
    """
    words = {name: value for name, value in kernels.items() if name not in ("name", "flashinfer", "includes")}
    for part in ("module", "group"):
        words[part] = [
            {word: told for word, told in entry.items() if word not in ("cost", "wheels")}
            for entry in kernels.get(part, ())
        ]
    return words


def entries(kernels: KernelSet) -> tuple[Mapping[str, Any], ...]:
    """Its modules and groups, in the order in which they are compiled."""
    return (*kernels.get("module", ()), *kernels.get("group", ()))


def target_wheels(kernels: KernelSet) -> tuple[str, ...]:
    """Additional image wheels that provide headers and libraries to its modules."""
    return tuple(dict.fromkeys(name for entry in entries(kernels) for name in entry.get("wheels", ())))


def _read(name: str, content: bytes) -> KernelSet:
    try:
        return tomllib.loads(content.decode())
    except ValueError as error:
        raise UsageError(f"cannot read the kernel set recipes/{name}", where=str(error)) from error
