"""The values of the page that `report` writes: boxes, cells, bars and rows, as the template draws them. Pure."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Final

from gb10.image.build.build_log import Build
from gb10.image.inspect.summary import Layer, PatchStory, Portrait
from gb10.image.inspect.treemap import Box, treemap
from gb10.image.proof.arch_match import RANK, Judged
from gb10.inside.binary import Binary
from gb10.inside.loader import code_fit
from gb10.inside.packages import package_of

ASPECT: Final = 2.0
"""Width of the map of layers by its height; on a phone it is stretched."""
SMALL: Final = 0.004
"""Shares of the image below which a part of a layer is drawn with the others."""
ROWS: Final = 48
TASKS: Final = 24
HUES: Final = 8
REST: Final = "other files"
SASS: Final = "sm_"
OTHERS: Final = {"PTX": "compute_", "LTO": "lto_"}
"""Columns for code that no GPU runs as it is, and how its names begin."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Tile:
    """A box of the map, in percent of its parent."""

    name: str
    size: int
    box: Box
    hue: int = 0
    inner: tuple["Tile", ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Heat:
    """A library: its best fit, and for each column how many pieces, and how dark that is (0 to 1)."""

    name: str
    package: str
    fit: str
    cells: tuple[tuple[int, float], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Bar:
    """A task of a build: where it begins and how long it is, in percent of the whole."""

    name: str
    start: float
    width: float
    seconds: float
    cpu: float = 0.0


def tiles(one: Portrait, groups: Mapping[str, Mapping[str, int]]) -> tuple[Tile, ...]:
    """The layers by size, and in each its packages."""
    layers = sorted((layer for layer in one.layers if layer.size), key=lambda layer: -layer.size)
    boxes = treemap([layer.size for layer in layers], Box(0, 0, 100 * ASPECT, 100))
    return tuple(
        Tile(
            name=layer.name.removeprefix("layer-"),
            size=layer.size,
            box=Box(box.x / ASPECT, box.y, box.width / ASPECT, box.height),
            hue=number % HUES,
            inner=_inner(layer, groups.get(layer.name, {}), SMALL * one.size, box.width / (box.height or 1)),
        )
        for number, (layer, box) in enumerate(zip(layers, boxes, strict=True))
    )


def _inner(layer: Layer, sizes: Mapping[str, int], least: float, aspect: float) -> tuple[Tile, ...]:
    """A layer's packages in percent of its box; all that are small are one of them."""
    named = {name: size for name, size in sizes.items() if size >= least}
    rest = layer.size - sum(named.values())
    rows = sorted(named.items(), key=lambda row: -row[1]) + ([(REST, rest)] if rest > 0 else [])
    if len(rows) < 2 or sum(named.values()) > layer.size:
        return ()
    boxes = treemap([size for _, size in rows], Box(0, 0, 100 * aspect, 100))
    return tuple(
        Tile(name=name, size=size, box=Box(box.x / aspect, box.y, box.width / aspect, box.height))
        for (name, size), box in zip(rows, boxes, strict=True)
    )


def columns(judged: Sequence[Judged], capability: str) -> list[str]:
    """The columns of a heat map: SASS of the GPU's generation, best fit first; PTX; SASS of others by generation."""
    codes = {code for one in judged for code in one.binary.codes}
    sass = {code for code in codes if code.startswith(SASS)}
    own = {code for code in sass if generation(code) == int(capability.partition(".")[0])}
    best = sorted(own, key=lambda code: (RANK[code_fit(code, capability)], code))
    ptx = [name for name, prefix in OTHERS.items() if any(code.startswith(prefix) for code in codes)]
    return [*best, *ptx, *(f"{number}.x" for number in sorted({generation(code) for code in sass - own}, reverse=True))]


def heat(judged: Sequence[Judged], names: Sequence[str]) -> tuple[Heat, ...]:
    """The libraries with GPU code, those with the most of it, in the order of their packages."""
    found = [one for one in judged if one.binary.codes]
    most = sorted(found, key=lambda one: -sum(one.binary.codes.values()))[:ROWS]
    top = max((math.log1p(_count(one.binary, name)) for one in most for name in names), default=1.0)
    rows = [
        Heat(
            name=one.binary.path.rpartition("/")[2],
            package=package_of(one.binary.path),
            fit=str(one.fit),
            cells=tuple((n := _count(one.binary, name), round(math.log1p(n) / top, 3)) for name in names),
        )
        for one in most
    ]
    return tuple(sorted(rows, key=lambda row: (row.package, row.name)))


def generation(code: str) -> int:
    """``sm_121f`` -> 12."""
    return int("".join(filter(str.isdigit, code.partition("_")[2])) or 0) // 10


def _count(binary: Binary, column: str) -> int:
    """How many pieces of a library a column stands for."""
    if column.endswith(".x"):
        number = int(column.removesuffix(".x"))
        wanted = [code for code in binary.codes if code.startswith(SASS) and generation(code) == number]
    elif column in OTHERS:
        wanted = [code for code in binary.codes if code.startswith(OTHERS[column])]
    else:
        wanted = [code for code in binary.codes if code == column]
    return sum(binary.codes[code] for code in wanted)


def bars(build: Build) -> tuple[Bar, ...]:
    """The tasks of a build that took time, in the order in which they began; of compilers also their CPU seconds."""
    ran = sorted((task for task in build.tasks if not task.hit), key=lambda task: task.start)
    whole = max((task.start + task.seconds for task in ran), default=0.0) or 1.0
    compiled = {step.name: step.cpu for step in build.steps if not step.hit}
    longest = sorted(ran, key=lambda task: -task.seconds)[:TASKS]
    return tuple(
        Bar(
            name=task.name,
            start=100 * task.start / whole,
            width=max(0.3, 100 * task.seconds / whole),
            seconds=task.seconds,
            cpu=compiled.get(task.name, 0.0),
        )
        for task in ran
        if task in longest
    )


def against(one: Portrait, before: Build) -> tuple[tuple[str, int, int], ...]:
    """Layers that a build before did not have: name, bytes, and those of the layer in its place, if any was there."""
    old, sizes = list(before.layers), list(before.layers.values())
    same = SequenceMatcher(a=old, b=[layer.digest for layer in one.layers], autojunk=False)
    rows = [
        (layer.name, layer.size, sizes[then + place] if then + place < last else 0)
        for tag, then, last, first, end in same.get_opcodes()
        if tag in {"replace", "insert"}
        for place, layer in enumerate(one.layers[first:end])
    ]
    return tuple(rows)


def life(patch: PatchStory) -> str:
    """The life of a patch: since when the defect is there, where the patch is applied, when it can go."""
    since = f"defect since {patch.since}; " if patch.since else ""
    until = f"gone in {patch.until}" if patch.until else "not mended upstream yet"
    return f"{since}applied to {patch.applies}; {until}" if patch.applies else "not of this checkout"
