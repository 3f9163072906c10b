"""What a node pulls of a layer, by how it is compressed: MB, and CPU seconds to pack and to unpack.

    python3 -m bootstrap benches/pulls.py [LAYER...] [--engine vllm] [--deepest LEVEL]

Takes the locked arm64 wheels of each layer that the store has, downloads none, and names those that it lacks. Unpacks
them, and applies the rules of `--slim publishable` as a build does; without byte code, which a build adds. CPU seconds
can be compared on a machine that does other work, too. Prints one document. Layers are copied by `COPY --link`, so a
node that has the image pulls a layer again only when the layer's own files change.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from contextlib import redirect_stdout
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benches.slim import layers, size, unpack
from gb10.core.fetch import stored
from gb10.image.context import Context, open_context
from gb10.image.plan.values import Step
from gb10.inside.slim.slim import apply

LEVELS = (1, 3, 9, 12, 19)


def main() -> None:
    """Measure each layer, print one document."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("layers", nargs="*")
    parser.add_argument("--engine", default="vllm")
    parser.add_argument("--deepest", type=int, default=12, help="Level 19 takes a CPU second for 2 MB.")
    given = parser.parse_args()
    ctx = open_context(os.environ, verbosity=0)
    steps = layers(ctx, given.engine, "publishable")
    chosen = given.layers or [name for name, step in steps.items() if not absent(ctx, step)]
    print(json.dumps({name: measured(ctx, steps[name], given.deepest) for name in chosen}, indent=1))


def absent(ctx: Context, step: Step) -> list[str]:
    """The wheels of a layer that the store lacks."""
    return [file.filename for file in step.files if not stored(ctx.store, file).exists()]


def measured(ctx: Context, step: Step, deepest: int) -> dict[str, object]:
    """One layer: its archive, by gzip as Docker makes it, and by each level of zstd."""
    left_out = absent(ctx, step)
    with tempfile.TemporaryDirectory(dir=ctx.store.root) as folder:
        out, archive = Path(folder) / "out", Path(folder) / "layer.tar"
        out.mkdir()
        for file in step.files:
            if file.filename not in left_out:
                unpack(stored(ctx.store, file), out)
        gone = {name.partition("-")[0].replace("_", "-") for name in left_out}
        for rule in (rule for rule in step.slim if rule["project"] not in gone):
            with redirect_stdout(sys.stderr):
                apply(dict(rule), out)
        subprocess.run(["tar", "-cf", archive, "--sort=name", "-C", out, "."], check=True)
        ways = {"gzip": ["gzip", "-6"]} | {
            f"zstd:{level}": ["zstd", f"-{level}"] for level in LEVELS if level <= deepest
        }
        rows = {name: packed(argv, archive) for name, argv in ways.items()}
        print(step.name, rows, file=sys.stderr, flush=True)
        return {"mb": round(size(out) / 1e6, 1), "without": left_out, "packed": rows}


def packed(argv: list[str], archive: Path) -> dict[str, float]:
    """MB as packed, CPU seconds to pack and to unpack."""
    result = archive.with_suffix(".packed")
    with archive.open("rb") as whole, result.open("wb") as small:
        pack = cpu([*argv, "-c"], whole, small)
    with result.open("rb") as small, Path(os.devnull).open("wb") as nothing:
        back = cpu([argv[0], "-dc"], small, nothing)
    return {"mb": round(result.stat().st_size / 1e6, 1), "pack_cpu_s": pack, "unpack_cpu_s": back}


def cpu(argv: list[str], source: object, sink: object) -> float:
    """CPU seconds of a filter; raises CalledProcessError."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(argv, stdin=source, stdout=sink, check=True)  # type: ignore[call-overload]
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 1)


if __name__ == "__main__":
    main()
