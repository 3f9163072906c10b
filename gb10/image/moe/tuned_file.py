"""What a tuning run leaves: the tuned file, a text on what it was tuned on, and a picture."""

import json
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Final

from gb10.image.moe.release_lookups import Judge
from gb10.image.moe.seeding import ABOUT, Seed
from gb10.image.moe.tile_findings import LEAST_WIN, Choice, Finding, Machine
from gb10.image.moe.tuned_name import DEVICE

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
    tooltip = f"batch {choice.size}: {choice.win:.1%}, spread {choice.spread:.1%}"
    return (
        f'<rect class="{kind}" x="{left:.1f}" y="{BOTTOM - high:.1f}" width="{step * 0.7:.1f}" height="{high:.1f}">'
        f"<title>{tooltip}</title></rect>"
        f'<text x="{left:.1f}" y="{BOTTOM + 16}">{choice.size}</text>'
    )


def write_tuned(
    judge: Judge, seed: Seed, choices: Sequence[Choice], findings: Iterable[Finding], out: Path
) -> list[str]:
    """Write the picture, and the file when a row won. Sizes that were not tuned keep the engine's own rows."""
    picture = out / f"{seed.name.removesuffix('.json')}.svg"
    picture.write_text(plot(f"{seed.name}, {judge.engine} {judge.version}", choices), encoding="utf-8")
    if all(choice.kept for choice in choices):
        return [str(picture)]
    rows = {**seed.rows, **{choice.size: choice.row for choice in choices}}
    folder = out / "configs" / f"triton_{judge.triton.replace('.', '_')}" if judge.engine == "sglang" else out
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps({str(size): dict(rows[size]) for size in sorted(rows)}, indent=1) + "\n"
    (folder / seed.name).write_text(text, encoding="ascii")
    (folder / f"{seed.name}{ABOUT}").write_text(tuned_on(judge, seed, choices, findings), encoding="utf-8")
    return [str(folder / seed.name), str(picture)]


def tuned_on(judge: Judge, seed: Seed, choices: Sequence[Choice], findings: Iterable[Finding]) -> str:
    """The text beside the file: engine, GPU, driver, Triton, PyTorch, clock, and what each winner won."""
    machines = {one.host: one for one in findings if isinstance(one, Machine)}
    lines = [f"file: {seed.name}", f"made by: moe tune, for {judge.engine} {judge.version}"]
    for host, one in machines.items():
        lines += [
            f"tuned on {host}: {one.gpu}, {one.units} units, {one.clock_mhz} MHz at the start",
            f"  {one.driver}",
            f"  Triton {one.triton}, PyTorch {one.torch}",
        ]
        if one.gpu != DEVICE:
            lines.append(f"  this is no {DEVICE}: its timings say nothing of one")
    won = [choice for choice in choices if not choice.kept]
    lines += [f"batch {choice.size}: {choice.win:.1%} faster, spread {choice.spread:.1%}" for choice in won]
    return "\n".join([*lines, f"the default stays for {len(choices) - len(won)} of {len(choices)} batch sizes"]) + "\n"
