"""Times rows of the fused MoE kernel on this machine's GPU: a JSON file is the request, each finding a line of JSON."""

import json
import os
import random
import sys
import time
from pathlib import Path
from typing import Any

import torch  # type: ignore[import-not-found]

from gb10.image.moe.child.gpu_inputs import ROUTINGS, Weights, make_batch, make_weights, needed_bytes
from gb10.image.moe.child.gpu_launch import TOLERANCE, Gemms, launch_code
from gb10.image.moe.child.launching import grouped

DRAWS = 4
"""Routings in one CUDA graph."""
SCREENED = 3
FINAL = 20
FINALISTS = 8


def main() -> None:
    """Screen and time every batch size of the request."""
    request = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    say(kind="machine", **machine())
    total = torch.cuda.get_device_properties(0).total_memory
    need = needed_bytes(request["shape"], request["hidden"], request["topk"], max(request["sizes"]))
    if need > request["memory"]:
        say(kind="refused", need=need, memory=request["memory"])
        return
    torch.cuda.set_per_process_memory_fraction(min(1.0, request["memory"] / total))
    launch = launch_code(request["source"], request["engine"], request["shape"])
    weights = make_weights(request["shape"], request["hidden"], request["seed"])
    for size in request["sizes"]:
        started = time.monotonic()
        tune(request, launch, weights, size)
        say(kind="done", size=size, seconds=round(time.monotonic() - started, 2), compiled=compiled())
    say(kind="end", peak=torch.cuda.max_memory_allocated(), compiled=compiled())


def say(**found: Any) -> None:
    """One line for who reads along."""
    print(json.dumps(found), flush=True)


def machine() -> dict[str, Any]:
    """What a timing depends on; clocks and driver come from the driver's own files where they are."""
    import triton  # noqa: PLC0415

    properties = torch.cuda.get_device_properties(0)
    version = Path("/proc/driver/nvidia/version")
    driver = version.read_text(encoding="ascii", errors="replace").splitlines()[0] if version.exists() else "unknown"
    return {
        "gpu": properties.name,
        "capability": list(torch.cuda.get_device_capability()),
        "units": properties.multi_processor_count,
        "memory": properties.total_memory,
        "driver": " ".join(driver.split()),
        "torch": torch.__version__,
        "triton": triton.__version__,
        "clock_mhz": clock(),
    }


def clock() -> int | None:
    """The clock of the multiprocessors now, where NVML is there."""
    try:
        return int(torch.cuda.clock_rate())
    except (ModuleNotFoundError, RuntimeError, AttributeError):
        return None


def compiled() -> int:
    """Kernels in Triton's cache: what was compiled for this run, if the cache was empty before."""
    return sum(1 for _ in Path(os.environ["TRITON_CACHE_DIR"]).glob("*/*.cubin"))


def tune(request: dict[str, Any], launch: Any, weights: Weights, size: int) -> None:
    """One batch size: each row once or thrice, then the fastest and the default in turns."""
    batch = make_batch(
        request["shape"], request["hidden"], request["topk"], size=size, draws=DRAWS, seed=request["seed"]
    )
    gemms = Gemms(request["engine"], request["shape"], request["topk"], weights, batch)
    default = request["defaults"][str(size)]
    screened = {key(one["row"]): one["us"] for one in request["known"] if one["size"] == size}
    for row in [default, *request["rows"]]:
        if key(row) not in screened:
            screened[key(row)] = screen(launch, gemms, row, size)
    ranked = sorted((us, name) for name, us in screened.items() if us is not None)
    chosen = [json.loads(name) for _, name in ranked[:FINALISTS]]
    groups = [grouped(request, row, size) for row in chosen[:2]]
    finalists = {key(row): row for row in (default, *chosen, *(row for row in groups if row))}
    final(launch, gemms, list(finalists.values()), size)


def key(row: dict[str, int]) -> str:
    """A row as text."""
    return json.dumps(row, sort_keys=True)


def screen(launch: Any, gemms: Gemms, row: dict[str, int], size: int) -> float | None:
    """Microseconds of both GEMMs, the slower routing of the two; None for a row that fails or computes wrongly."""
    found, why, wrong = None, None, 0.0
    started = time.monotonic()
    try:
        times = []
        for routing in ROUTINGS:
            orders = gemms.sorted(routing, row["BLOCK_SIZE_M"], 1)
            gemms.run(launch, row, routing, orders)
            wrong = max(wrong, gemms.error(routing))
            times.append(min(once(lambda: gemms.run(launch, row, routing, orders)) for _ in range(SCREENED)))  # noqa: B023
        found = max(times) if wrong <= TOLERANCE else None
        why = None if found is not None else f"wrong by {wrong:.3f}"
    except Exception as error:
        why = f"{type(error).__name__}: {str(error).splitlines()[0][:200]}" if str(error) else type(error).__name__
    say(kind="screen", size=size, row=row, us=found, why=why, error=wrong, seconds=round(time.monotonic() - started, 3))
    return found


def once(run: Any) -> float:
    """Microseconds on the GPU."""
    before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    before.record()
    run()
    after.record()
    after.synchronize()
    return float(before.elapsed_time(after)) * 1000


def final(launch: Any, gemms: Gemms, rows: list[dict[str, int]], size: int) -> None:
    """CUDA graphs of all rows, replayed in turns in changing order: drift of clocks meets every row alike."""
    chance = random.Random(size)  # noqa: S311
    for routing in ROUTINGS:
        graphs = [graph(launch, gemms, row, routing) for row in rows]
        times: list[list[float]] = [[] for _ in rows]
        for turn in range(FINAL + 1):
            order = list(range(len(rows)))
            chance.shuffle(order)
            for number in order:
                spent = once(graphs[number].replay) / DRAWS
                if turn:
                    times[number].append(round(spent, 3))
        for row, found in zip(rows, times, strict=True):
            say(kind="final", size=size, routing=routing, row=row, us=found)
        del graphs


def graph(launch: Any, gemms: Gemms, row: dict[str, int], routing: str) -> Any:
    """A CUDA graph of both GEMMs for each drawn routing."""
    orders = gemms.sorted(routing, row["BLOCK_SIZE_M"], DRAWS)
    gemms.run(launch, row, routing, orders)
    torch.cuda.synchronize()
    made = torch.cuda.CUDAGraph()
    with torch.cuda.graph(made):
        gemms.run(launch, row, routing, orders)
    made.orders = orders
    return made
