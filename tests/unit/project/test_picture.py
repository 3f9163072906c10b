"""The pictures in docs/pictures are what scripts/picture.py draws, and their text stays inside."""

import importlib.util
import xml.etree.ElementTree as ET
from pathlib import Path
from types import ModuleType
from typing import Final

import pytest

ROOT = Path(__file__).resolve().parents[3]
NAMES = ("way", "way-dark")
SVG: Final = "{http://www.w3.org/2000/svg}"
WIDEST: Final = 0.605
"""A letter's width against the font's size: that of a fixed font, which no sentence of the others reaches."""


def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("picture", ROOT / "scripts/picture.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", NAMES)
def test_a_picture_is_what_the_script_draws(name: str) -> None:
    committed = (ROOT / f"docs/pictures/{name}.svg").read_text(encoding="utf-8")
    assert committed == script().pictures()[name], "python3 -m bootstrap scripts/picture.py draws it"


@pytest.mark.parametrize("name", NAMES)
def test_text_stays_inside_its_box_and_the_picture(name: str) -> None:
    root = ET.fromstring((ROOT / f"docs/pictures/{name}.svg").read_text(encoding="utf-8"))  # noqa: S314 - our own file
    page = (0.0, 0.0, *map(float, root.attrib["viewBox"].split()[2:]))
    boxes = [numbers(rect, "x", "y", "width", "height") for rect in root.iter(f"{SVG}rect")]
    for text in root.iter(f"{SVG}text"):
        x, y, size = numbers(text, "x", "y", "font-size")
        length = len(text.text or "") * size * WIDEST
        start = x - (length if text.get("text-anchor") == "end" else 0)
        for left, top, wide, tall in [page, *(box for box in boxes if inside(box, x, y))]:
            assert left <= start, text.text
            assert start + length <= left + wide, text.text
            assert top + size <= y <= top + tall, text.text


def numbers(element: ET.Element, *names: str) -> tuple[float, ...]:
    return tuple(float(element.attrib[name]) for name in names)


def inside(box: tuple[float, ...], x: float, y: float) -> bool:
    left, top, wide, tall = box
    return left <= x <= left + wide and top <= y <= top + tall


def test_both_pictures_are_in_readme() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert all(f"docs/pictures/{name}.svg" in readme for name in NAMES)
