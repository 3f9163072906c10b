"""What a tuning run leaves: the tuned file, a text on what it was tuned on, and a picture."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from gb10.image.moe.release_lookups import Judge
from gb10.image.moe.seeding import ABOUT, Seed
from gb10.image.moe.tile_findings import Choice, Finding, Machine
from gb10.image.moe.tuned_name import DEVICE
from gb10.image.moe.tuned_plot import plot


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
