"""Rectangles whose areas are as values are, laid out by the squarified treemap of Bruls, Huizing and van Wijk. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass


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
