"""What PyTorch's cap of its memory holds and what is outside of it, on any GPU: ``python3 benches/torch_cap.py``.

It needs PyTorch alone. Each row is a process of its own; those with a script start as a container of ``run`` does.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import torch  # type: ignore[import-not-found]

SCRIPT: Final = Path(__file__).resolve().parents[1] / "gb10/serving/run/launch.sh"
GIB: Final = 1 << 30
KEY: Final = "per_process_memory_fraction"
NEW: Final = "PYTORCH_ALLOC_CONF"
OLD: Final = "PYTORCH_CUDA_ALLOC_CONF"


def taken() -> tuple[int, str]:
    """How many GiB are given before one is refused, and PyTorch's words."""
    held: list[object] = []
    try:
        while len(held) < torch.cuda.mem_get_info()[1] / GIB:
            held.append(torch.empty(GIB, dtype=torch.uint8, device="cuda"))
    except torch.OutOfMemoryError as error:
        return len(held), str(error).partition(" Of the allocated")[0]
    return len(held), "none was refused"


def refused() -> dict[str, object]:
    """GiB until one is refused, and whether the process goes on."""
    size, words = taken()
    torch.cuda.empty_cache()
    one = torch.randn(2048, 2048, device="cuda")
    given = torch.empty(2 * GIB, dtype=torch.uint8, device="cuda").numel() == 2 * GIB
    return {"GiB": size, "words": words, "goes on": bool(torch.isfinite(one @ one).all()) and given}


def set_anew() -> dict[str, object]:
    """GiB after a program has set the allocator anew."""
    torch.zeros(1, device="cuda")
    for text in ("expandable_segments:True", "expandable_segments:False,max_split_size_mb:64"):
        torch._C._accelerator_setAllocatorSettings(text)
    return {"GiB": taken()[0]}


def cached() -> dict[str, object]:
    """Whether what is cached in small blocks goes back for a large one."""
    allowed = torch.cuda.get_per_process_memory_fraction() * torch.cuda.mem_get_info()[1]
    blocks = [torch.empty(24 << 20, dtype=torch.uint8, device="cuda") for _ in range(int(allowed * 0.75 / (24 << 20)))]
    del blocks
    before = torch.cuda.memory_reserved()
    large = torch.empty(int(allowed * 0.8), dtype=torch.uint8, device="cuda")
    return {"cached GiB": round(before / GIB, 2), "given GiB": round(large.numel() / GIB, 2)}


def outside() -> dict[str, object]:
    """MiB that the GPU has given and PyTorch's allocator has not."""
    rows: dict[str, object] = {}

    def note(name: str) -> None:
        torch.cuda.synchronize()
        free, total = torch.cuda.mem_get_info()
        rows[name] = round((total - free - torch.cuda.memory_reserved()) / (1 << 20))

    half = {"device": "cuda", "dtype": torch.bfloat16}
    torch.zeros(1, device="cuda")
    note("context")
    torch.randn(4096, 4096, **half) @ torch.randn(4096, 4096, **half)
    note("and cuBLAS")
    layers, batch = [torch.nn.Linear(2048, 2048, **half) for _ in range(64)], torch.randn(64, 2048, **half)

    def step() -> None:
        found = batch
        for layer in layers:
            found = torch.nn.functional.silu(layer(found)) + found

    with torch.no_grad():
        step()
        note("before graphs")
        pool, graphs = torch.cuda.graph_pool_handle(), [torch.cuda.CUDAGraph() for _ in range(50)]
        for graph in graphs:
            with torch.cuda.graph(graph, pool=pool):
                step()
            graph.replay()
        note("and 50 graphs")
    torch.distributed.init_process_group("nccl", init_method="tcp://127.0.0.1:29511", rank=0, world_size=1)
    torch.distributed.all_reduce(torch.ones(1 << 20, device="cuda"))
    note("and NCCL of one rank")
    torch.distributed.destroy_process_group()
    return rows


PARTS: Final[Mapping[str, Callable[[], dict[str, object]]]] = {
    one.__name__: one for one in (refused, set_anew, cached, outside)
}


def row(part: str, settings: Mapping[str, str], *, launched: bool = False) -> None:
    """Run a part with these variables, and print what it says."""
    clean = {key: value for key, value in os.environ.items() if key not in (NEW, OLD)}
    argv = [sys.executable, str(Path(__file__).resolve()), part]
    with tempfile.TemporaryDirectory() as folder:
        if launched:
            argv = ["bash", "-c", SCRIPT.read_text(encoding="utf-8"), f"{folder}/run/launch.sh", "1", " ".join(argv)]
        done = subprocess.run(argv, check=False, capture_output=True, text=True, env={**clean, **settings})
    said = (done.stdout or done.stderr).strip().splitlines() or [""]
    print(f"{part}, {settings}{', launch.sh' if launched else ''}: {said[-1]}", flush=True)


def main() -> None:
    """All rows, or one part in this process."""
    if sys.argv[1:]:
        print(json.dumps(PARTS[sys.argv[1]]()))
        return
    print(torch.__version__, torch.cuda.get_device_name(0), torch.cuda.get_device_capability(0))
    cap = f"{KEY}:0.233"
    row("refused", {})
    row("refused", {NEW: cap})
    row("refused", {OLD: cap})
    row("refused", {NEW: f"{cap},expandable_segments:True"})
    row("refused", {NEW: cap, OLD: "max_split_size_mb:128"})
    row("refused", {NEW: cap, OLD: "max_split_size_mb:128"}, launched=True)
    row("refused", {NEW: f"backend:cudaMallocAsync,{cap}"})
    row("refused", {NEW: "no_such_key:0.2"})
    row("set_anew", {NEW: cap})
    row("cached", {NEW: cap})
    row("outside", {NEW: f"{KEY}:0.9"})


if __name__ == "__main__":
    main()
