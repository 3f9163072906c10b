"""A picture of a tuning run: what each batch size won over the engine's default, and the spread. Pure."""

from collections.abc import Sequence
from html import escape
from typing import Final

from gb10.image.moe.tile_findings import LEAST_WIN, Choice

WIDTH: Final = 760
HEIGHT: Final = 300
LEFT: Final = 48
BOTTOM: Final = 250
STYLE: Final = (
    "text{font:12px system-ui,sans-serif;fill:currentColor}line{stroke:currentColor;stroke-opacity:.4}"
    ".win{fill:#2a8a4a}.kept{fill:#888}svg{color:#222;background:#fff}"
    "@media(prefers-color-scheme:dark){svg{color:#ddd;background:#161616}}"
)


def plot(title: str, choices: Sequence[Choice]) -> str:
    """An SVG: a bar for each batch size, grey where the default stays; the dashed line is the least win that counts."""
    top = max([*(choice.win for choice in choices), 2 * LEAST_WIN])
    step = (WIDTH - LEFT - 12) / max(len(choices), 1)
    scale = (BOTTOM - 40) / top
    bars = "".join(_bar(choice, LEFT + number * step, step, scale) for number, choice in enumerate(choices))
    line = BOTTOM - LEAST_WIN * scale
    marks = "".join(
        f'<text x="4" y="{BOTTOM - share * scale + 4:.1f}">{share:.0%}</text>' for share in (0.0, LEAST_WIN, top)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img"><style>{STYLE}</style>'
        f'<text x="{LEFT}" y="20">{escape(title)}</text>{marks}{bars}'
        f'<line x1="{LEFT}" y1="{BOTTOM}" x2="{WIDTH - 8}" y2="{BOTTOM}"/>'
        f'<line x1="{LEFT}" y1="{line:.1f}" x2="{WIDTH - 8}" y2="{line:.1f}" stroke-dasharray="4"/>'
        f'<text x="{LEFT}" y="{HEIGHT - 8}">batch size; bars: time saved against the engine\'s default</text></svg>\n'
    )


def _bar(choice: Choice, left: float, step: float, scale: float) -> str:
    high = max(choice.win * scale, 1.0)
    kind = "kept" if choice.kept else "win"
    said = f"batch {choice.size}: {choice.win:.1%}, spread {choice.spread:.1%}"
    return (
        f'<rect class="{kind}" x="{left:.1f}" y="{BOTTOM - high:.1f}" width="{step * 0.7:.1f}" height="{high:.1f}">'
        f"<title>{said}</title></rect>"
        f'<text x="{left:.1f}" y="{BOTTOM + 16}">{choice.size}</text>'
    )
