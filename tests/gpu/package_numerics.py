"""Kernels of two packages that gb10 compiles into wheels, against formulas in FP64: causal-conv1d and mamba-ssm.

    python3 tests/gpu/package_numerics.py

On a machine with a GPU, torch, and the two packages, built from the sources that ``wheels --add`` compiles for 12.1.
Their kernels have no code for one chip alone, so a GPU of capability 9.0 runs the same sources. Exit 1 when an error is
too large, 13 when one of the packages is not there.
"""

import sys
from importlib.util import find_spec

import torch  # type: ignore[import-not-found]

LARGEST = {torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}
"""Of the difference's norm, as a share of the result's."""


def share(found: torch.Tensor, wanted: torch.Tensor) -> float:
    return float((found.double() - wanted).norm() / wanted.norm())


def convolution(kind: torch.dtype, batch: int, width: int, length: int, taps: int) -> float:
    """Each channel with the ``taps`` inputs up to its own, then SiLU."""
    x = torch.randn(batch, width, length, device="cuda").to(kind)
    weight, bias = torch.randn(width, taps, device="cuda").to(kind), torch.randn(width, device="cuda").to(kind)
    import causal_conv1d_cuda  # type: ignore[import-not-found] # noqa: PLC0415 - one of the two may be there

    out = torch.empty_like(x)
    causal_conv1d_cuda.causal_conv1d_fwd(x, weight, bias, None, None, out, None, True)
    padded = torch.nn.functional.pad(x.double(), (taps - 1, 0))
    summed = sum(padded[:, :, at : at + length] * weight.double()[:, at, None] for at in range(taps))
    wanted = summed + bias.double()[:, None]
    return share(out, wanted * torch.sigmoid(wanted))


def scan(kind: torch.dtype, batch: int, width: int, length: int, states: int) -> float:
    """h' = exp(delta A) h + delta B u; y = C h + D u, gated by SiLU(z), with delta through softplus."""
    u, delta, z = (torch.randn(batch, width, length, device="cuda").to(kind) for _ in range(3))
    b, c = (torch.randn(batch, 1, states, length, device="cuda").to(kind) for _ in range(2))
    a = -torch.rand(width, states, device="cuda") - 0.5
    d, bias = torch.randn(width, device="cuda"), torch.rand(width, device="cuda") - 4.0
    import selective_scan_cuda  # type: ignore[import-not-found] # noqa: PLC0415

    found = selective_scan_cuda.fwd(u, delta, a, b, c, d, z, bias, True)[-1]
    steps = torch.nn.functional.softplus(delta.double() + bias.double()[:, None])
    state, rows = torch.zeros(batch, width, states, dtype=torch.float64, device="cuda"), []
    for at in range(length):
        step = steps[:, :, at, None]
        state = torch.exp(step * a.double()) * state + step * b.double()[:, :, :, at] * u.double()[:, :, at, None]
        rows.append((state * c.double()[:, :, :, at]).sum(-1))
    wanted = torch.stack(rows, -1) + d.double()[:, None] * u.double()
    gate = z.double()
    return share(found, wanted * gate * torch.sigmoid(gate))


def main() -> int:
    """Print a row for each case."""
    torch.manual_seed(7)
    bad = 0
    absent = [module for module in CASES if find_spec(module) is None]
    for module in absent:
        print(f"{module} is not there: not checked")
    for kind, most in LARGEST.items():
        for module, (result, shapes) in CASES.items():
            for shape in () if module in absent else shapes:
                error = result(kind, *shape)
                bad += not error <= most
                print(f"{kind!s:16} {module:22} {shape!s:22} {error:.2e} of at most {most:.0e}")
    return 1 if bad else NOT_CHECKED if absent else 0


NOT_CHECKED = 13
CASES = {
    "causal_conv1d_cuda": (convolution, ((1, 64, 7, 4), (2, 4096, 513, 4))),
    "selective_scan_cuda": (scan, ((1, 64, 33, 16), (2, 2048, 2049, 16))),
}


if __name__ == "__main__":
    sys.exit(main())
