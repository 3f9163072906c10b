"""Kernels of packages that gb10 compiles into wheels, against formulas in FP64: causal-conv1d, mamba-ssm, exllamav3.

    python3 tests/gpu/package_numerics.py

On a machine with a GPU, torch, and the packages, built from the sources that ``wheels --add`` compiles for 12.1.
Their kernels have no code for one chip alone, so a GPU of capability 9.0 runs the same sources. Exit 1 when an error is
too large, 13 when a package is not there.
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


INVERSE, BIAS = 0.00676727294921875, -10.3828125
CODEBOOKS = (
    lambda x: _pair(x * 89226354 + 64248484),
    lambda x: _pair(x * 0xCBAC1FED),
    lambda x: (sum(x * 0x83DCD12D >> at & 255 for at in (0, 8, 16, 24)) + 1024).double() * INVERSE + BIAS,
)
"""FP64 values of 16-bit states, by EXL3's codebook: plain, mcg, mul1."""


def _pair(x: torch.Tensor) -> torch.Tensor:
    """The sum of two numbers in FP16 that 32 bits hold."""
    bits = (x & 0x8FFF8FFF) ^ 0x3B603B60
    low, high = ((bits >> at & 0xFFFF).to(torch.uint16).view(torch.float16).double() for at in (0, 16))
    return low + high


def _tile_order() -> tuple[torch.Tensor, torch.Tensor]:
    """Row and column of each of a tile's 256 weights: the order of mma.m16n8k16's second operand, two of them."""
    lane, at = torch.arange(256, device="cuda") // 8, torch.arange(256, device="cuda") % 8
    return lane % 4 * 2 + at % 2 + at // 2 % 2 * 8, lane // 8 * 2 + lane // 4 % 2 + at // 4 * 8


def decoded(packed: torch.Tensor, bits: int, book: int) -> torch.Tensor:
    """Weights of tiles: each state is the 16 bits that end where its own ``bits`` end, around the tile's end."""
    rows, columns, _ = packed.shape
    words = packed.view(torch.int32).long() & 0xFFFFFFFF
    stream = (words[..., None] >> torch.arange(31, -1, -1, device="cuda") & 1).flatten(-2)
    ends = (torch.arange(256, device="cuda") + 1) * bits
    window = (ends[:, None] + torch.arange(-16, 0, device="cuda")) % (256 * bits)
    states = (stream[..., window] << torch.arange(15, -1, -1, device="cuda")).sum(-1)
    tiles = torch.zeros(rows, columns, 16, 16, dtype=torch.float64, device="cuda")
    tiles[:, :, *_tile_order()] = CODEBOOKS[book](states)
    return tiles.transpose(1, 2).reshape(rows * 16, columns * 16)


def hadamard(size: int) -> torch.Tensor:
    """Sylvester's, orthonormal."""
    made = torch.ones(1, 1, dtype=torch.float64, device="cuda")
    while len(made) < size:
        made = torch.cat([torch.cat([made, made], 1), torch.cat([made, -made], 1)])
    return made / size**0.5


def trellis(kind: torch.dtype, bits: int, book: int, rows: int, columns: int) -> float:
    """The worst of two: EXL3's weights as they are kept, and between two Hadamard transforms with scales."""
    import exllamav3_ext  # type: ignore[import-not-found] # noqa: PLC0415

    packed = torch.randint(-(2**15), 2**15, (rows // 16, columns // 16, 16 * bits), dtype=torch.int16, device="cuda")
    before, after = (torch.randn(one, device="cuda").to(kind) for one in (rows, columns))
    plain, turned = (torch.empty(rows, columns, dtype=kind, device="cuda") for _ in range(2))
    exllamav3_ext.reconstruct(plain, packed, bits, book == 1, book == 2)
    exllamav3_ext.reconstruct_had_slice(turned, packed, before, after, bits, book == 1, book == 2, 0)
    wanted, turn = decoded(packed, bits, book), hadamard(128)
    blocks = wanted.view(rows // 128, 128, columns // 128, 128)
    whole = torch.einsum("ab,rbcd,de->race", turn, blocks, turn).reshape(rows, columns)
    return max(share(plain, wanted), share(turned, before.double()[:, None] * whole * after.double()))


def transform(kind: torch.dtype, rows: int, columns: int) -> float:
    """The Hadamard transform of 128 numbers at a time."""
    import exllamav3_ext  # noqa: PLC0415

    x = torch.randn(rows, columns, device="cuda").to(kind)
    found = torch.full_like(x, torch.nan)
    exllamav3_ext.had_r_128(x, found, None, None, 1.0)
    return share(found, (x.double().view(-1, 128) @ hadamard(128)).view(rows, columns))


def main() -> int:
    """Print a row for each case."""
    torch.manual_seed(7)
    bad = 0
    absent = [module for module in dict.fromkeys(row[0] for row in CASES) if find_spec(module) is None]
    for module in absent:
        print(f"{module} is not there: not checked")
    for module, result, kinds, shapes in CASES:
        for kind in () if module in absent else kinds:
            for shape in shapes:
                error, most = result(kind, *shape), LARGEST[kind]
                bad += not error <= most
                print(f"{kind!s:16} {module:22} {shape!s:22} {error:.2e} of at most {most:.0e}")
    return 1 if bad else NOT_CHECKED if absent else 0


NOT_CHECKED = 13
CASES = (
    ("causal_conv1d_cuda", convolution, LARGEST, ((1, 64, 7, 4), (2, 4096, 513, 4))),
    ("selective_scan_cuda", scan, LARGEST, ((1, 64, 33, 16), (2, 2048, 2049, 16))),
    ("exllamav3_ext", transform, (torch.float32,), ((256, 384),)),
    ("exllamav3_ext", trellis, (torch.float16,), [(bits, book, 256, 384) for bits in range(1, 9) for book in range(3)]),
)


if __name__ == "__main__":
    sys.exit(main())
