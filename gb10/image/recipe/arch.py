"""Arch: a GPU target as users write it (``12.1f``) and its spelling for each tool. Pure."""

import re
from dataclasses import dataclass
from typing import Final

from gb10.errors import UsageError

MEANING: Final = {
    "": "baseline: runs on this capability and later minors of the family, without the tensor-core extensions",
    "f": "family-portable: every 12.x device at or above this capability",
    "a": "architecture-specific: this capability only, the superset of features",
}
# flashinfer.compilation_context (0.7.2) does not compile plain 12.x targets; it uses these instead.
FLASHINFER_PLAIN: Final = {"12.0": "12.0f", "12.1": "12.1a"}
# nvcc release notes: sm_120 came with 12.8, sm_121 and the family targets with 12.9.
MINIMUM_CUDA: Final = {("12.0", ""): "12.8", ("12.0", "a"): "12.8"}
PLATFORMS: Final = {"12.1": "linux/arm64", "12.0": "linux/amd64"}
SPELLING: Final = re.compile(r"12[._]?([01])([af]?)")
SHARED_MEMORY: Final = 101_376
"""Bytes that one block may have on compute capability 12.x: CUDA C++ programming guide, table of capabilities."""


@dataclass(frozen=True, order=True, slots=True)
class Arch:
    """A compute capability (``"12.1"``) and its suffix (``""``, ``"a"`` or ``"f"``)."""

    capability: str
    suffix: str

    def __str__(self) -> str:
        return self.capability + self.suffix

    @property
    def digits(self) -> str:
        """``121f``: the number in nvcc's and CMake's names."""
        return self.capability.replace(".", "") + self.suffix

    @property
    def sm(self) -> str:
        """``sm_121f``: the real architecture, as cuobjdump prints it."""
        return f"sm_{self.digits}"

    @property
    def gencode(self) -> str:
        """nvcc's flag for SASS of exactly this target."""
        return f"-gencode=arch=compute_{self.digits},code={self.sm}"

    @property
    def flashinfer(self) -> str:
        """FLASHINFER_CUDA_ARCH_LIST, which keeps the suffix verbatim (0.6.7 and later)."""
        return str(self)

    @property
    def kernels(self) -> str:
        """The arch that FlashInfer compiles its kernels for when this one is requested."""
        return str(self) if self.suffix else FLASHINFER_PLAIN[self.capability]

    @property
    def torch(self) -> str:
        """TORCH_CUDA_ARCH_LIST at run time: torch.utils.cpp_extension rejects ``f`` (2.14), so ``a`` stands for it."""
        return self.capability + ("a" if self.suffix else "")

    @property
    def cmake(self) -> str:
        """CMAKE_CUDA_ARCHITECTURES: SASS only."""
        return f"{self.digits}-real"

    @property
    def triton(self) -> tuple[str, int, int]:
        """Triton's GPUTarget: backend, capability as an integer, warp size."""
        return ("cuda", int(self.capability.replace(".", "")), 32)

    @property
    def minimum_cuda(self) -> str:
        """The first CUDA toolkit whose nvcc knows this target."""
        return MINIMUM_CUDA.get((self.capability, self.suffix), "12.9")

    @property
    def platform(self) -> str:
        """The image platform of the devices with this capability: GB10 is Arm, the RTX boards sit in x86 hosts."""
        return PLATFORMS[self.capability]

    @property
    def meaning(self) -> str:
        """The meaning of the suffix, and FlashInfer's arch if it differs."""
        other = f"; FlashInfer's kernels are compiled for {self.kernels}" if self.kernels != str(self) else ""
        return MEANING[self.suffix] + other


ARCHES: Final = tuple(Arch(capability, suffix) for capability in PLATFORMS for suffix in ("a", "f", ""))


def parse_arch(text: str) -> Arch:
    """The arch a user wrote; raises UsageError that lists the valid ones and the closest."""
    known = {str(arch): arch for arch in ARCHES}
    if text in known:
        return known[text]
    raise UsageError(
        f"unknown arch {text!r}; valid: {', '.join(known)}",
        hint=f"{_meant(text)}a GB10 is 12.1f, the default",
    )


def _meant(text: str) -> str:
    """A line about an arch that is only spelled in another way."""
    found = closest_arch(text) if SPELLING.search(text.strip().lower()) else None
    return f"closest is {found}: {found.meaning}\n" if found else ""


def closest_arch(text: str) -> Arch:
    """The valid arch that ``text`` names in another spelling (``sm_121a``, ``121``, ``12.1F``), else GB10's.

    Without a suffix it is the family's: a plain arch has no tensor-core instructions.
    """
    found = SPELLING.search(text.strip().lower())
    return Arch(f"12.{found[1]}", found[2] or "f") if found else Arch("12.1", "f")
