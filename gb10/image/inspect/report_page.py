"""The page about an image: one HTML file without a script, a font or a picture from elsewhere. Pure."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Final

from jinja2 import DictLoader, Environment, StrictUndefined

from gb10.image.inspect.build_log import Build
from gb10.image.inspect.summary import ImageSummary, Layer, PatchStory
from gb10.image.proof.arch_match import MEANING, RANK, Judged
from gb10.inside.scan.binary import Binary
from gb10.inside.scan.code_fit import code_fit
from gb10.inside.scan.installed import package_of


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle: its left upper corner, width and height."""

    x: float
    y: float
    width: float
    height: float


def treemap(values: Sequence[float], box: Box) -> list[Box]:
    """A box for each value, largest value first, that together fill ``box``. Values must be above 0."""
    total = sum(values)
    scale = box.width * box.height / total if total else 0
    left, done = [value * scale for value in values], list[Box]()
    while left:
        count = _row(left, min(box.width, box.height))
        row, left = left[:count], left[count:]
        placed, box = _place(row, box)
        done += placed
    return done


def _row(areas: Sequence[float], side: float) -> int:
    """How many of the next areas share a row, so that the worst of them is as square as it can be."""
    for count in range(1, len(areas)):
        if _worst(areas[: count + 1], side) > _worst(areas[:count], side):
            return count
    return len(areas)


def _worst(row: Sequence[float], side: float) -> float:
    """The largest ratio of a long side to a short one in a row along ``side``."""
    total = sum(row)
    if not total or not side:
        return float("inf")
    return max(side * side * max(row) / (total * total), total * total / (side * side * min(row)))


def _place(row: Sequence[float], box: Box) -> tuple[list[Box], Box]:
    """The row along the shorter side of a box, and what is left of the box."""
    total = sum(row)
    if box.width >= box.height:
        deep = total / box.height if box.height else 0
        y, placed = box.y, []
        for area in row:
            placed.append(Box(box.x, y, deep, area / deep if deep else 0))
            y += placed[-1].height
        return placed, Box(box.x + deep, box.y, box.width - deep, box.height)
    deep = total / box.width if box.width else 0
    x, placed = box.x, []
    for area in row:
        placed.append(Box(x, box.y, area / deep if deep else 0, deep))
        x += placed[-1].width
    return placed, Box(box.x, box.y + deep, box.width, box.height - deep)


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


def tiles(one: ImageSummary, groups: Mapping[str, Mapping[str, int]]) -> tuple[Tile, ...]:
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


def against(one: ImageSummary, before: Build) -> tuple[tuple[str, int, int], ...]:
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


TEMPLATE: Final = "report.html.j2"


def page(
    one: ImageSummary, templates: Mapping[str, str], *, built: Build | None = None, before: Build | None = None
) -> str:
    """The page: with the build that made the image, and the one before, if they are kept."""
    judged = one.verdict.judged if one.verdict else ()
    names = columns(judged, one.verdict.arch.capability) if one.verdict else []
    jinja = Environment(
        loader=DictLoader({TEMPLATE: templates[TEMPLATE]}),
        undefined=StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    jinja.filters |= {"mb": megabytes, "time": duration}
    jinja.tests["linked"] = linked
    return jinja.get_template(TEMPLATE).render(
        one=one,
        plan=one.plan,
        tiles=tiles(one, one.groups),
        columns=names,
        heat=heat(judged, names),
        fits=[(fit, count, MEANING[fit]) for fit, count in one.verdict.counts.items() if count] if one.verdict else [],
        built=built,
        bars=bars(built) if built else (),
        before=before,
        against=against(one, before) if before else (),
        life=life,
        rules=sorted(one.plan.slim, key=lambda rule: -rule.mb) if one.plan else [],
    )


def linked(address: str) -> bool:
    """Whether the page makes a link of what a patch names as its upstream: never of a ``javascript:``."""
    return address.startswith("https://")


def megabytes(size: float) -> str:
    """``1,068.7 MB``, ``7.23 GB``."""
    return f"{size / 1e9:.2f} GB" if abs(size) >= 2e9 else f"{size / 1e6:,.1f} MB"


def duration(seconds: float) -> str:
    """``12.3 s``, ``9 min 6 s``, ``1 h 2 min``."""
    if seconds < 100:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"
