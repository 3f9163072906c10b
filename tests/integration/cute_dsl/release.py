"""A release of the CuTe DSL at work on the CPU: kernels compiled in a process of its own, their SASS read back."""

import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from gb10.core.proc import capture, stream
from tests.integration.pinned import pinned

KERNEL = Path(__file__).with_name("block_scaled.py")
DEPENDENCIES = Path(__file__).with_name("deps.txt")
PRODUCT = re.compile(r"\b[A-Z]MMA\.[A-Z0-9.]+")


@dataclass(frozen=True, slots=True)
class Release:
    """A directory that holds the release, what it needs, and nvdisasm."""

    root: Path

    def compile(self, folder: Path, *instructions: str, arch: str = "sm_121a") -> None:
        """Make INSTRUCTION.cubin in ``folder`` for each; raises CommandFailedError with a log of what the DSL said."""
        (packages,) = self.root.glob("nvidia_cutlass_dsl/*_packages")
        chosen = {"PYTHONPATH": f"{packages}:{self.root}", "PYTHONDONTWRITEBYTECODE": "1", "CUTE_DSL_ARCH": arch}
        kept = {key: value for key, value in os.environ.items() if not key.startswith("CUTE_DSL_")}
        argv = [sys.executable, "-s", str(KERNEL), str(folder), *instructions]
        stream(argv, log=folder / "log", env=kept | chosen, cwd=folder)

    def sass(self, cubin: Path) -> str:
        """What NVIDIA's disassembler says of a cubin."""
        return capture([str(self.root / "nvidia/cu13/bin/nvdisasm"), str(cubin)])


def products(sass: str) -> list[str]:
    """The matrix instructions in a disassembly."""
    return PRODUCT.findall(sass)


def release(*pins: Path) -> Release:
    """The release that these files pin."""
    return Release(pinned("cute-dsl", DEPENDENCIES, *pins))
