"""Sums over ranks by NCCL: whether they are right, how fast, and what NCCL's own log says of the way."""

import os
import sys
import time

from gb10.inside.selftest.common import library, say

SIZE = 256 << 20
TIMES = 10


def main() -> None:
    """Rank and world from the environment, as torchrun sets them. Rank 0 prints a line."""
    torch = library("torch")
    distributed = library("torch.distributed")
    times = int(sys.argv[1]) if len(sys.argv) > 1 else TIMES
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    distributed.init_process_group("nccl")
    values = torch.full((SIZE // 4,), float(rank + 1), device="cuda")
    distributed.all_reduce(values)
    right = bool((values == world * (world + 1) / 2).all())
    for _ in range(2):
        distributed.all_reduce(values)
    torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(times):
        distributed.all_reduce(values)
    torch.cuda.synchronize()
    took = (time.perf_counter() - began) / times
    if rank == 0:
        say("allreduce", right=right, world=world, bus_gb_s=SIZE * 2 * (world - 1) / world / took / 1e9)
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
