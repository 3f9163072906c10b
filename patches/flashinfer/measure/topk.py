"""Compare two builds of FlashInfer's CUB top-k module on a GPU: python3 topk.py BEFORE.so AFTER.so

Needs torch, apache-tvm-ffi and a GPU of capability 9.0 or newer. Prints how many results were compared and differ, then
times of both, by turns. Without a tie-break, indices are not unique: then the selected values are compared.
"""

import itertools
import statistics
import sys
from collections.abc import Iterator
from functools import partial

import torch
import tvm_ffi

SHAPES = ((1, 64), (7, 1000), (64, 8192), (3, 8193), (5, 65536), (2, 1 << 20), (1, 1 << 21))
DTYPES = (torch.float32, torch.float16, torch.bfloat16)
TIMED = ((64, 8192), (16, 131072), (4, 1 << 20))
PAGE = 16
UNUSED = -9


def selected(scores: torch.Tensor, indices: torch.Tensor, starts: torch.Tensor | None = None) -> torch.Tensor:
    """The scores at ``indices`` by row, from the row's start on, sorted; padding counts as minus infinity."""
    places = indices if starts is None else indices + starts[:, None]
    values = scores.gather(1, places.clamp(0, scores.shape[1] - 1).long()).float()
    return values.masked_fill(indices < 0, float("-inf")).sort(1).values


def plain(module: tvm_ffi.Module, scores: torch.Tensor, k: int, tie: int) -> dict[str, torch.Tensor]:
    """``cub_topk``: values, and indices where a tie-break makes them unique."""
    indices = torch.full((len(scores), k), UNUSED, device="cuda", dtype=torch.int64)
    values = torch.zeros(len(scores), k, device="cuda", dtype=scores.dtype)
    module.cub_topk(scores, indices, values, None, k, tie)
    found = {"values": values.float().sort(1).values, "gathered": selected(scores, indices)}
    return found | ({"indices": indices.sort(1).values} if tie else {})


def transforms(
    module: tvm_ffi.Module, scores: torch.Tensor, k: int, tie: int, inputs: dict[str, torch.Tensor]
) -> dict[str, torch.Tensor]:
    """Both transforms, with row starts where ``inputs`` has them; raw indices show what the page table was asked.

    Each gets as much workspace as the module asks for. The page table is filled with and without raw indices.
    """
    window, lengths = inputs.get("starts"), inputs["lengths"]
    offsets = torch.zeros(len(scores), device="cuda", dtype=torch.int32)
    ragged, paged, alone, raw = (torch.full((len(scores), k), UNUSED, device="cuda", dtype=torch.int32) for _ in "1234")
    space = workspace(module.cub_topk_ragged_transform_workspace_size(scores, lengths, k, tie, window is not None))
    module.cub_topk_ragged_transform(scores, ragged, offsets, lengths, space, k, tie, window)
    for out, indices in ((paged, raw), (alone, None)):
        asked = (scores, lengths, k, tie, indices is not None, window is not None)
        space = workspace(module.cub_topk_page_table_transform_workspace_size(*asked))
        module.cub_topk_page_table_transform(
            scores, out, inputs["table"], lengths, indices, space, k, tie, PAGE, None, window, window
        )
    found = {"ragged values": selected(scores, ragged, window), "raw values": selected(scores, raw, window)}
    exact = {"ragged": ragged, "paged": paged, "alone": alone, "raw": raw}
    return found | ({name: tensor.sort(1).values for name, tensor in exact.items()} if tie else {})


def workspace(size: int) -> torch.Tensor:
    """So many bytes on the GPU."""
    return torch.empty(max(size, 1), device="cuda", dtype=torch.uint8)


def times(modules: list[tvm_ffi.Module], rows: int, length: int, dtype: torch.dtype, windows: bool) -> list[float]:
    """Median microseconds of the ragged transform for each module, 200 calls each, by turns; k is 2,048."""
    scores = torch.randn(rows, length, device="cuda").to(dtype)
    lengths = torch.full((rows,), length, device="cuda", dtype=torch.int32)
    starts = torch.zeros(rows, device="cuda", dtype=torch.int32) if windows else None
    out, offsets = torch.empty(rows, 2048, device="cuda", dtype=torch.int32), torch.zeros_like(lengths)
    spaces = [
        workspace(one.cub_topk_ragged_transform_workspace_size(scores, lengths, 2048, 0, windows)) for one in modules
    ]
    taken: list[list[float]] = [[] for _ in modules]
    for _ in range(200):
        for module, space, mine in zip(modules, spaces, taken, strict=True):
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            module.cub_topk_ragged_transform(scores, out, offsets, lengths, space, 2048, 0, starts)
            end.record()
            torch.cuda.synchronize()
            mine.append(start.elapsed_time(end) * 1000)
    return [statistics.median(mine) for mine in taken]


def cases() -> Iterator[tuple[torch.Tensor, int, int, dict[str, torch.Tensor]]]:
    """Scores, k, tie-break, and what the transforms read, with an empty row among the lengths."""
    for dtype, (rows, length), tie in itertools.product(DTYPES, SHAPES, (0, 1, 2)):
        scores = torch.randn(rows, length, device="cuda").to(dtype)
        lengths = torch.randint(0, length + 1, (rows,), device="cuda", dtype=torch.int32)
        lengths[0] = 0
        starts = (length - lengths) // 3  # also where a row of the page table begins
        table = torch.randint(0, 1000, (rows, length // PAGE + length // 3 + 1), device="cuda", dtype=torch.int32)
        for k in sorted({min(k, length) for k in (1, 17, 64, 2048)}):
            yield scores, k, tie, {"lengths": lengths, "table": table, "starts": starts}


def main(before: str, after: str) -> int:
    torch.manual_seed(0)
    modules = [tvm_ffi.load_module(path) for path in (before, after)]
    compared = different = 0
    for scores, k, tie, inputs in cases():
        whole = {name: tensor for name, tensor in inputs.items() if name != "starts"}
        for run in (plain, partial(transforms, inputs=whole), partial(transforms, inputs=inputs)):
            old, new = (run(module, scores, k, tie) for module in modules)
            for name in old:
                compared += 1
                different += not torch.equal(old[name], new[name])
    print(f"{compared} results compared, {different} differ, on {torch.cuda.get_device_name()}")
    for (rows, length), dtype, windows in itertools.product(TIMED, DTYPES, (False, True)):
        old_time, new_time = times(modules, rows, length, dtype, windows)
        print(f"{rows} x {length} {dtype}, windows {windows}: {old_time:.1f} us, {new_time:.1f} us")
    return int(different > 0)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
