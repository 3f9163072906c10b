"""No-op, side by side in one run: `./build.py image` against a bare cached `docker buildx build` of its Dockerfile.

    python3 -m bootstrap benches/noop.py [--runs 10]

Needs the image: run `make image` first.
"""

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from gb10.containers.buildx.build import BuildRequest, build
from gb10.containers.buildx.commands import open_buildx
from gb10.containers.reach import connect_or_start
from gb10.core.proc import capture
from gb10.image.build.assemble import image_request
from gb10.image.build.image_build import ImageBuild
from gb10.image.context import open_context
from gb10.image.plan.catalog import ROOT
from gb10.image.request.planning import Request, make_plan


def main() -> None:
    """Alternate the two, print both medians and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10)
    runs = parser.parse_args().runs
    ctx = open_context(os.environ, verbosity=-1)
    plan = make_plan(ctx, Request(engine="vllm", arch="12.1f"))
    engine = connect_or_start(ctx.env, ctx.store)
    buildx = open_buildx(engine, ctx.env, ctx.store)
    with ImageBuild(ctx, plan).prepared(engine) as context:
        request: BuildRequest = image_request(plan, context, engine, plan.tags[-1])
        log = ctx.store.root / "logs/bench.log"
        ours = [sys.executable, str(ROOT / "build.py"), "image", "--quiet"]
        sides: dict[str, Callable[[], object]] = {
            "build.py image": lambda: capture(ours, env=os.environ),
            "docker buildx build": lambda: build(buildx, request, log=log),
        }
        times = measure(sides, runs)
    medians = {name: statistics.median(values) for name, values in times.items()}
    ratio = medians["build.py image"] / medians["docker buildx build"]
    print(json.dumps({"runs": runs, "median_s": medians, "all_s": times, "ratio": round(ratio, 2)}, indent=1))


def measure(sides: dict[str, Callable[[], object]], runs: int) -> dict[str, list[float]]:
    """Seconds of each side, alternating, after one run of each that is not counted."""
    times: dict[str, list[float]] = {name: [] for name in sides}
    for run in range(runs + 1):
        for name, act in sides.items():
            begin = time.monotonic()
            act()
            if run:
                times[name].append(round(time.monotonic() - begin, 3))
    return times


if __name__ == "__main__":
    main()
