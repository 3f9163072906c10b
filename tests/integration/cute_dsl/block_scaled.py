"""One block-scaled product of warp level in CuTe DSL, compiled for CUTE_DSL_ARCH into a cubin; no GPU, no driver.

``block_scaled.py FOLDER INSTRUCTION...`` with a release of the DSL on PYTHONPATH; FOLDER gets INSTRUCTION.cubin.
"""
# mypy: disable-error-code="import-not-found, untyped-decorator"

import sys
from pathlib import Path

import cutlass
from cutlass import Float4E2M1FN, Float8E4M3FN, Float8E8M0FNU, Float32, Int32, cute
from cutlass.cute.nvgpu import warp
from cutlass.cute.runtime import make_fake_compact_tensor

NUMBERS = {
    "MmaMXF4NVF4Op": (Float4E2M1FN, Float8E4M3FN),
    "MmaMXF4Op": (Float4E2M1FN, Float8E8M0FNU),
    "MmaMXF8Op": (Float8E4M3FN, Float8E8M0FNU),
}
"""The DSL's class of an instruction: its factors, their scales."""
LANES = 32
A, B, A_SCALES, B_SCALES, SUMS = range(4), range(4, 6), range(6, 7), range(7, 8), range(8, 12)
"""The 32-bit words of each operand that one lane holds."""


def held(words: cute.Tensor, which: range, lane: Int32, number: type[cutlass.Numeric]) -> cute.Tensor:
    """An operand in the lane's registers, read as numbers of this kind."""
    registers = cute.make_rmem_tensor(((len(which) * 32 // number.width,), 1, 1), number)
    for place, word in enumerate(which):
        cute.recast_tensor(registers, Int32)[place] = words[word, lane]
    return registers


@cute.kernel
def multiply(words: cute.Tensor, instruction: cutlass.Constexpr) -> None:
    """Sums += A * B by one instruction of one warp, all operands in registers."""
    lane, _, _ = cute.arch.thread_idx()
    number, scale = NUMBERS[instruction]
    atom = cute.make_mma_atom(getattr(warp, instruction)(number, Float32, scale))
    atom.set(warp.Field.SFA, held(words, A_SCALES, lane, scale).iterator)
    atom.set(warp.Field.SFB, held(words, B_SCALES, lane, scale).iterator)
    sums = held(words, SUMS, lane, Float32)
    cute.gemm(atom, sums, held(words, A, lane, number), held(words, B, lane, number), sums)
    for place in cutlass.range_constexpr(len(SUMS)):
        words[SUMS[place], lane] = cute.recast_tensor(sums, Int32)[place]


@cute.jit
def launch(words: cute.Tensor, instruction: cutlass.Constexpr) -> None:
    """The kernel on one warp."""
    multiply(words, instruction).launch(grid=(1, 1, 1), block=(LANES, 1, 1))


def cubin(instruction: str, folder: str) -> bytes:
    """The kernel with this instruction, compiled, and not loaded: that alone would take a driver."""
    words = make_fake_compact_tensor(Int32, (SUMS.stop, LANES))
    options = f"--keep-cubin --dump-dir={folder}"
    made: bytes = cute.compile(launch, words, instruction, no_jit_engine=True, options=options).__cubin__
    return made


if __name__ == "__main__":
    for name in sys.argv[2:]:
        (Path(sys.argv[1]) / f"{name}.cubin").write_bytes(cubin(name, sys.argv[1]))
