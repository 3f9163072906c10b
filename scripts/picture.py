#!/usr/bin/env python3
"""Draw the picture of README, light and dark, from docs/pictures/way.toml.

python3 -m bootstrap scripts/picture.py
"""

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final
from xml.sax.saxutils import escape

FOLDER: Final = Path(__file__).resolve().parents[1] / "docs/pictures"
FONT: Final = "-apple-system, 'Segoe UI', 'Noto Sans', Helvetica, Arial, 'DejaVu Sans', sans-serif"
MONO: Final = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
MARGIN, GAP, CARD, TALL, TOP = 12, 26, 190, 148, 12
BAND, STORE = 44, 46
Colours = Mapping[str, str]


def main() -> None:
    """Write every theme's picture."""
    for name, svg in pictures().items():
        (FOLDER / f"{name}.svg").write_text(svg, encoding="utf-8")


def pictures() -> dict[str, str]:
    """The pictures as text, by name."""
    drawing = tomllib.loads((FOLDER / "way.toml").read_text(encoding="utf-8"))
    return {name: picture(drawing, colours) for name, colours in drawing["theme"].items()}


def picture(drawing: Mapping[str, Any], colours: Colours) -> str:
    """One picture: cards in a row with arrows between them, bands below them, the store at the bottom."""
    cards, bands = drawing["card"], drawing["band"]
    wide = left(len(cards)) - GAP + MARGIN
    store_top = TOP + TALL + BAND + 20
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {store_top + STORE + 12}" role="img" '
        f'aria-label="{escape(drawing["title"])}" font-family="{FONT}">',
        f"<title>{escape(drawing['title'])}</title>",
        *(part for number, card in enumerate(cards) for part in drawn_card(number, card, colours)),
        *(drawn_arrow(number, colours) for number in range(1, len(cards))),
        *(part for band in bands for part in drawn_band(band, colours)),
        *drawn_store(drawing["store"], wide, store_top, colours),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def left(number: int) -> int:
    """Where a card begins."""
    return MARGIN + number * (CARD + GAP)


def text(x: float, y: float, words: str, colour: str, size: int, *, more: str = "") -> str:
    return f'<text x="{x:g}" y="{y:g}" fill="{colour}" font-size="{size}"{more}>{escape(words)}</text>'


def box(x: float, y: float, size: tuple[float, float], fill: str, edge: str) -> str:
    wide, tall = size
    return f'<rect x="{x:g}" y="{y:g}" width="{wide:g}" height="{tall:g}" rx="10" fill="{fill}" stroke="{edge}"/>'


def drawn_card(number: int, card: Mapping[str, Any], colours: Colours) -> Iterator[str]:
    x, strong = left(number), card["tone"] == "strong"
    fill, edge = (colours["accent"],) * 2 if strong else (colours["card"], colours["edge"])
    head, body = (colours["on_accent"],) * 2 if strong else (colours["text"], colours["weak"])
    yield box(x, TOP, (CARD, TALL), fill, edge)
    yield text(x + 16, TOP + 32, card["step"], body, 15)
    yield text(x + 34, TOP + 32, card["name"], head, 20, more=' font-weight="600"')
    for row, line in enumerate(card["lines"]):
        yield text(x + 16, TOP + 68 + row * 25, line, body, 16)


def drawn_arrow(number: int, colours: Colours) -> str:
    """The arrow that leads to a card."""
    x, y = left(number) - GAP, TOP + TALL / 2
    line = f"M{x + 4:g} {y:g}h{GAP - 9:g}m-5 -5l5 5l-5 5"
    return f'<path d="{line}" fill="none" stroke="{colours["accent"]}" stroke-width="2" stroke-linecap="round"/>'


def drawn_band(band: Mapping[str, Any], colours: Colours) -> Iterator[str]:
    """A line below its cards, where that happens, and by which verb."""
    x, end, y = left(band["first"] - 1), left(band["last"]) - GAP, TOP + TALL + 14
    yield f'<path d="M{x} {y}v6H{end}v-6" fill="none" stroke="{colours["edge"]}" stroke-width="1.5"/>'
    yield text(x + 4, y + 28, band["name"], colours["text"], 16)
    yield text(end - 4, y + 28, band["text"], colours["weak"], 15, more=f' text-anchor="end" font-family="{MONO}"')


def drawn_store(store: Mapping[str, str], wide: int, top: int, colours: Colours) -> Iterator[str]:
    yield box(MARGIN, top, (wide - 2 * MARGIN, STORE), "none", colours["edge"])
    yield text(MARGIN + 16, top + 29, store["name"], colours["text"], 16, more=' font-weight="600"')
    yield text(MARGIN + 76, top + 29, store["text"], colours["weak"], 16)


if __name__ == "__main__":
    main()
