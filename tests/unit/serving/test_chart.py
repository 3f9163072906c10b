"""Charts: round numbers at their places, every word escaped, nothing outside the paper."""

import re
from xml.etree import ElementTree

import pytest

from gb10.serving.chart import WIDTH, Axis, Bar, LevelFigures, Mark, Point, axis_of, bars, effects, launches, levels

HOSTILE = "<b>\"&'</b>"
EFFECTS: list[dict[str, object]] = [
    {"label": "steps/s at 2", "word": "faster", "tooltip": HOSTILE, "effect": 0.05, "low": 0.04, "high": 0.06},
    {"label": "tok/s at 2", "word": "not resolved", "tooltip": "", "effect": -0.1, "low": None, "high": None},
    {"label": "none", "word": "no figure", "tooltip": "", "effect": None},
]


@pytest.mark.parametrize(
    ("low", "high", "texts"),
    [
        (104.0, 113.0, ["105.0", "107.5", "110.0", "112.5"]),
        (0.0, 1200.0, ["0", "500", "1,000"]),
        (-3.0, 22.0, ["0", "10", "20"]),
        (0.061, 0.069, ["0.062", "0.064", "0.066", "0.068"]),
    ],
)
def test_ticks_are_round_and_say_what_they_are(low: float, high: float, texts: list[str]) -> None:
    axis = Axis(low=low, high=high, start=0, end=100)
    found = axis.ticks()
    assert [text for _, text in found] == texts
    assert [axis.at(float(text.replace(",", ""))) for _, text in found] == pytest.approx([place for place, _ in found])


def test_an_axis_of_one_value_or_none_has_room() -> None:
    assert axis_of([5.0], 0, 10).low < 5 < axis_of([5.0], 0, 10).high
    assert axis_of([], 0, 10).ticks()
    assert axis_of([3.0, float("inf")], 0, 10, zero=True).low == 0


DRAWN = {
    "launches": launches(HOSTILE, [Point(number=n, side="AB"[n % 2], value=100.0 + n) for n in range(6)]),
    "one launch": launches("one", [Point(number=0, side="A", value=3.0)]),
    "effects": effects(HOSTILE, EFFECTS, 0.02),
    "levels": levels(
        HOSTILE,
        [LevelFigures(concurrency=count, values=(10.0 * count, 11.0 * count)) for count in (1, 4, 16)],
        [Mark(concurrency=32, value=500.0, tooltip=HOSTILE)],
    ),
    "bars": bars(
        HOSTILE,
        [
            Bar(name=HOSTILE * 9, result="STABLE", value=12.0, tooltip=HOSTILE),
            Bar(name="b", result="GARBAGE", value=None, tooltip=""),
        ],
    ),
}


@pytest.mark.parametrize("name", DRAWN)
def test_a_drawing_is_well_formed_and_stays_on_its_paper(name: str) -> None:
    root = ElementTree.fromstring(DRAWN[name])  # noqa: S314 - our own text
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    assert width == WIDTH
    for part in root.iter():
        for place, most in (("x", width), ("x1", width), ("x2", width), ("cx", width), ("y", height), ("cy", height)):
            assert -1 <= float(part.attrib.get(place, 0)) <= most + 1, (part.tag, part.attrib)
    assert not re.search(r"<b>|nan|inf", DRAWN[name])


def test_the_longest_bar_comes_first_and_a_row_without_a_figure_says_why() -> None:
    texts = [part.text for part in ElementTree.fromstring(DRAWN["bars"]) if part.tag == "text"]  # noqa: S314
    assert texts[-4:] != []
    assert texts.index("GARBAGE") > texts.index("12")
