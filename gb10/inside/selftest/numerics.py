"""Our grouped FP8 kernel against products in fp64: shapes of experts, ragged and empty groups, each kind of scale.

``NAMESPACE:OPERATOR`` of torch.ops is an argument, so that another operator of the same schema can be tried.
"""

import itertools
import sys
from typing import Any

from gb10.inside.selftest.common import library, say

SHAPES = (
    (8, 512, 1024, (0, 1, 7, 64, 128, 3, 200, 33)),
    (16, 1408, 2048, (17,) * 16),
    (4, 768, 512, (300, 0, 0, 212)),
    (8, 2048, 7168, (1, 1, 1, 1, 1, 1, 1, 1)),
)
"""Experts, n, k, rows of each expert."""


def case(torch: Any, operator: Any, shape: tuple[int, int, int, tuple[int, ...]], row: bool, column: bool) -> float:  # noqa: ANN401
    """The worst error of a case, relative to the sum of the products' sizes, in the output's own rounding."""
    experts, n, k, rows = shape
    generator = torch.Generator(device="cuda").manual_seed(experts * n + k)

    def random(*size: int) -> Any:  # noqa: ANN401
        return torch.randn(*size, device="cuda", generator=generator)

    total = sum(rows)
    a, b = random(total, k).to(torch.float8_e4m3fn), random(experts, n, k).to(torch.float8_e4m3fn)
    a_scales = random(total if row else 1, 1).abs() + 0.1
    b_scales = random(experts, n if column else 1).abs() + 0.1
    starts = torch.tensor([sum(rows[:at]) for at in range(experts)], dtype=torch.int64, device="cuda")
    sizes = torch.tensor([[count, n, k] for count in rows], dtype=torch.int32, device="cuda")
    out = torch.zeros(total, n, dtype=torch.bfloat16, device="cuda")
    strides = [torch.full((experts,), size, dtype=torch.int64, device="cuda") for size in (k, k, n)]
    operator(out, a, b, a_scales, b_scales, starts, sizes, *strides, row, column)
    torch.cuda.synchronize()
    worst = 0.0
    for expert, count in enumerate(rows):
        if not count:
            continue
        part = slice(int(starts[expert]), int(starts[expert]) + count)
        left, right = a[part].double(), b[expert].double()
        scale = (a_scales[part] if row else a_scales).double() * b_scales[expert].double()
        exact, size = (left @ right.T) * scale, (left.abs() @ right.abs().T) * scale
        allowed = exact.abs() * 2**-8 + size * 2**-16
        error = ((out[part].double() - exact).abs() - allowed).clamp(min=0) / size
        worst = max(worst, float(error.max())) if bool(torch.isfinite(out[part]).all()) else float("inf")
    return worst


def main() -> None:
    """A line for each case, then one for all."""
    torch = library("torch")
    if len(sys.argv) > 2:
        library(sys.argv[2])
    namespace, _, name = sys.argv[1].partition(":")
    operator = getattr(getattr(torch.ops, namespace), name, None)
    if operator is None:
        say("numerics", why=f"torch.ops.{namespace} has no {name}")
        return
    worst = 0.0
    for shape, row, column in itertools.product(SHAPES, (False, True), (False, True)):
        error = case(torch, operator, shape, row, column)
        say("case", experts=shape[0], n=shape[1], k=shape[2], per_row=row, per_column=column, beyond=min(error, 1e30))
        worst = max(worst, error)
    say("numerics", worst=min(worst, 1e30), cases=4 * len(SHAPES))


if __name__ == "__main__":
    main()
