"""Kernel sets: which modules a wheel of kernels holds, from recipes/kernels; a set may include others. Pure."""

import tomllib
from collections.abc import Mapping
from typing import Any, Final

from pydantic import Field

from gb10.core.document import check_value
from gb10.core.fields import Model
from gb10.errors import UsageError

ROOM: Final = "kernels/"
COSTS: Final = f"{ROOM}costs.toml"
UNITS: Final = f"{ROOM}units.toml"

KernelSet = Mapping[str, Any]
"""A set in its file format (SetFile): ``name``, ``module`` and ``group`` tables; included entries come first."""


class Entry(Model):
    """A module or a group of modules, and the function that makes it."""

    name: str
    factory: str | None = Field(default=None, pattern=r"^flashinfer(\.\w+)+:\w+$")
    """``package.module:function`` of FlashInfer. Our own modules have none: all units of the set are one module."""
    arguments: tuple[str | int | bool, ...] = ()
    capabilities: tuple[str, ...] = ()
    """Compute capabilities that get it. Default: all."""
    cubins: tuple[str, ...] = ()
    """The GPU code that it must hold, where its own code decides that. Default: the plan's arch."""
    instructions: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """What every kernel whose name contains the key must hold."""
    wheels: tuple[str, ...] = ()
    cost: str | None = None
    """Its entry in costs.toml. Default: its name."""


class SetFile(Model):
    """``recipes/kernels/<owner>-<name>.toml``."""

    name: str
    version: str | None = None
    """Of the wheel, for kernels of our own."""
    flashinfer: tuple[str, ...] = ()
    """The releases that it was tried with."""
    cutlass: str | None = None
    headers: tuple[str, ...] = ()
    includes: tuple[str, ...] = ()
    module: tuple[Entry, ...] = ()
    group: tuple[Entry, ...] = ()
    without: dict[str, str] = Field(default_factory=dict)
    """Factories that are left out of a group, with the reason."""


def read_sets(contents: Mapping[str, bytes]) -> dict[str, KernelSet]:
    """Every set among the catalog's files, by the name of its file; raises UsageError for an invalid set."""
    files = {
        name: content for name, content in contents.items() if name.startswith(ROOM) and name not in (COSTS, UNITS)
    }
    raw = {_name_of(path): _read(path, content) for path, content in files.items()}
    return {name: merged(name, raw) for name in raw}


def merged(name: str, raw: Mapping[str, KernelSet], above: tuple[str, ...] = ()) -> KernelSet:
    """A set with the included sets of the same owner behind its own part; releases are those that all support."""
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
        tried = below.get("flashinfer", ())
        own.setdefault("flashinfer", tried)
        own["flashinfer"] = [release for release in own["flashinfer"] if release in tried]
        for part in ("module", "group"):
            own[part] = [*own.get(part, ()), *below.get(part, ())]
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


def _name_of(path: str) -> str:
    return path.removeprefix(ROOM).removesuffix(".toml")


def _read(path: str, content: bytes) -> KernelSet:
    try:
        found = tomllib.loads(content.decode())
    except ValueError as error:
        raise UsageError(f"cannot read the kernel set recipes/{path}", where=str(error)) from error
    check_value(_tuples(found), SetFile, where=f"recipes/{path}", what="kernel set")
    if not _name_of(path).endswith(f"-{found['name']}"):
        raise UsageError(
            f"recipes/{path} has the name {found['name']!r}",
            hint="`name` is what follows the owner in the file's name: flashinfer-NAME.toml",
        )
    return found


def _tuples(value: object) -> object:
    if isinstance(value, dict):
        return {name: _tuples(inner) for name, inner in value.items()}
    return tuple(_tuples(inner) for inner in value) if isinstance(value, list) else value
