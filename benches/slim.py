"""What the slimming rules save: MB on disk and by zstd -3, layer by layer, and MB by rule and release.

    python3 -m bootstrap benches/slim.py [ENGINE] [--no-zstd]

Takes the locked arm64 wheels, unpacks them layer by layer, and applies the rules as a build does. No byte code is made,
so the figures are below those of the image; the differences are the same. Needs disk for the largest layer.
"""

import argparse
import csv
import io
import json
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from gb10.core.fetch import stored
from gb10.image.context import Context, open_context
from gb10.image.lock.lockfile import load_lock, load_recipe, lock_path
from gb10.image.locked_files import fetch_files
from gb10.image.plan.dag import plan_image
from gb10.image.plan.options import Options
from gb10.image.plan.values import Step
from gb10.image.recipe.arch import parse_arch
from gb10.image.recipe.slim_rules import Extent
from gb10.inside.install.install import BIN, SITE
from gb10.inside.slim.slim import apply, check_needed

EXTENTS: tuple[Extent, ...] = ("none", "publishable", "all")


def main() -> None:
    """Measure each layer of upstream's wheels, print one document."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("engine", nargs="?", default="vllm")
    parser.add_argument("--no-zstd", action="store_true")
    options = parser.parse_args()
    ctx = open_context(os.environ, verbosity=0)
    steps = {extent: layers(ctx, options.engine, extent) for extent in EXTENTS}
    saved: dict[str, float] = {}
    rows = {
        name: layer(ctx, [steps[extent][name] for extent in EXTENTS], saved, zstd=not options.no_zstd)
        for name in steps["none"]
    }
    total = {key: round(sum(row[key] for row in rows.values()), 1) for key in next(iter(rows.values()))}
    print(json.dumps({"layers": rows, "total": total, "rules": dict(sorted(saved.items()))}, indent=1))


def layers(ctx: Context, engine: str, extent: Extent) -> dict[str, Step]:
    """The steps of upstream's layers, with the rules of this extent."""
    path = ctx.catalog.recipe(engine)
    options = Options(arch=parse_arch("12.1f"), platform="linux/arm64", build="amd64")
    plan = plan_image(load_recipe(path), load_lock(lock_path(path)), ctx.catalog.toolkit, replace(options, slim=extent))
    return {step.name: step for step in plan.of_kind("layer") if step.files}


def layer(ctx: Context, steps: list[Step], saved: dict[str, float], *, zstd: bool) -> dict[str, float]:
    """MB of one layer for each extent; ``saved`` gets what each rule saved."""
    fetch_files(ctx, steps[:1])
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory(dir=ctx.store.root) as folder:
        out, gone, done = Path(folder), set[str](), list[object]()
        for file in steps[0].files:
            unpack(stored(ctx.store, file), out)
        for extent, step in zip(EXTENTS, steps, strict=True):
            fresh = [rule for rule in step.slim if rule not in done]
            for rule in fresh:
                before = size(out)
                with redirect_stdout(sys.stderr):
                    gone |= apply(dict(rule), out)
                key = f"{rule['name']} {rule['project']}"
                saved[key] = round(saved.get(key, 0) + (before - size(out)) / 1e6, 1)
            done += fresh
            check_needed(out, gone)
            found[extent] = round(size(out) / 1e6, 1)
            if zstd:
                fast = not fresh and extent != "none"
                found[f"{extent} zstd"] = found[f"{EXTENTS[EXTENTS.index(extent) - 1]} zstd"] if fast else packed(out)
    print(steps[0].name, found, file=sys.stderr, flush=True)
    return found


def unpack(wheel: Path, out: Path) -> None:
    """Lay a wheel out as install.py leaves it, byte code aside; RECORD lists the places."""
    with zipfile.ZipFile(wheel) as archive:
        for member in archive.infolist():
            path = out / placed(member.filename)
            if member.is_dir():
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            content = archive.read(member)
            if member.filename.endswith(".dist-info/RECORD"):
                content = listed(content)
            path.write_bytes(content)


def placed(name: str) -> Path:
    """Where a file of a wheel goes: data and packages side by side, scripts among the programs."""
    first, _, rest = name.partition("/")
    if first.endswith(".data"):
        scheme, _, name = rest.partition("/")
        if scheme == "scripts":
            return BIN / name
    return BIN / name.removeprefix("bin/") if name.startswith("bin/") else SITE / name


def listed(record: bytes) -> bytes:
    """RECORD with the names that uv writes."""
    text = io.StringIO()
    rows: Iterable[list[str]] = csv.reader(io.StringIO(record.decode()))
    names = ([str(placed(row[0])), *row[1:]] for row in rows if row)
    csv.writer(text, lineterminator="\n").writerows(
        [name.removeprefix(f"{SITE}/").replace(f"{BIN}/", "bin/"), *rest] for name, *rest in names
    )
    return text.getvalue().encode()


def size(out: Path) -> int:
    """Bytes of the files below a folder."""
    return sum(path.stat().st_size for path in out.rglob("*") if path.is_file())


def packed(out: Path) -> float:
    """MB of the folder as an archive by zstd -3."""
    with (
        subprocess.Popen(["tar", "-c", "--sort=name", "-C", out, "."], stdout=subprocess.PIPE) as tar,
        subprocess.Popen(["zstd", "-3", "-q", "-c"], stdin=tar.stdout, stdout=subprocess.PIPE) as zstd,
        subprocess.Popen(["wc", "-c"], stdin=zstd.stdout, stdout=subprocess.PIPE) as count,
    ):
        return round(int(count.communicate()[0]) / 1e6, 1)


if __name__ == "__main__":
    main()
