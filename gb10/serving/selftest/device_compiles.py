"""Compilers that run while requests wait: processes by name, and files that caches get."""

import os
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

COMPILERS: Final = frozenset(
    {"nvcc", "cicc", "ptxas", "cudafe++", "fatbinary", "nvlink", "cc1plus", "cc1", "clang", "ld.lld", "ptxas-blackwell"}
)
"""nvcc and Triton run these; CuTe DSL compiles in the engine's process and shows as files of its cache."""
OF_A_KERNEL: Final = frozenset({"nvcc", "cicc", "ptxas", "ptxas-blackwell", "nvlink"})
"""Those that make code for the GPU."""
LOOK: Final = 0.01
YOUNG: Final = 6
"""Looks at a new process: its name changes when it becomes the compiler."""
CACHES: Final[Mapping[str, str]] = {
    "TRITON_CACHE_DIR": "triton",
    "TORCHINDUCTOR_CACHE_DIR": "inductor",
    "FLASHINFER_WORKSPACE_BASE": "flashinfer",
    "CUTE_DSL_CACHE_DIR": "cute",
    "TVM_FFI_CACHE_DIR": "tvm-ffi",
    "VLLM_CACHE_ROOT": "vllm",
}
"""Folders of caches: a server that is started for the test gets its own, empty ones."""
KERNELS: Final = (".cubin", ".so", ".o", ".mlir", ".ptx")


@dataclass(kw_only=True)
class Compiles:
    """What was compiled while somebody looked."""

    processes: Counter[str] = field(default_factory=Counter)
    files: Counter[str] = field(default_factory=Counter)
    """New files with code for the GPU, by cache."""

    @property
    def of_kernels(self) -> int:
        """Compiler runs that made GPU code, or else files with it: one compile may show as both."""
        return max(
            sum(count for name, count in self.processes.items() if name in OF_A_KERNEL), sum(self.files.values())
        )

    @property
    def words(self) -> str:
        """In a sentence."""
        found = {**self.processes, **{f"new in {name}": count for name, count in self.files.items()}}
        return ", ".join(f"{name} {count}" for name, count in sorted(found.items())) or "nothing"


@contextmanager
def compiles_seen(caches: Mapping[str, Path] | None = None, proc: Path = Path("/proc")) -> Iterator[Compiles]:
    """Look for compilers of this machine, in containers too, while the context lasts."""
    found = Compiles()
    ended = threading.Event()
    before = {name: _kernels(path) for name, path in (caches or {}).items()}
    thread = threading.Thread(target=_watch, args=(found, ended, proc), daemon=True)
    thread.start()
    try:
        yield found
    finally:
        ended.set()
        thread.join()
        for name, path in (caches or {}).items():
            new = len(_kernels(path) - before[name])
            if new:
                found.files[name] = new


def _watch(found: Compiles, ended: threading.Event, proc: Path) -> None:
    old = {name for name in os.listdir(proc) if name.isdecimal()}  # noqa: PTH208 - names alone, a hundred times a second
    young: dict[str, int] = {}
    counted: set[str] = set()
    while not ended.wait(LOOK):
        now = {name for name in os.listdir(proc) if name.isdecimal()}  # noqa: PTH208
        for name in now - old:
            young[name] = 0
        old = now
        for name in [one for one, looks in young.items() if looks < YOUNG]:
            young[name] += 1
            try:
                program = (proc / name / "comm").read_text(encoding="utf-8", errors="replace").strip()
            except OSError:  # it has ended
                young.pop(name)
                continue
            if program in COMPILERS and name not in counted:
                counted.add(name)
                found.processes[program] += 1


def _kernels(path: Path) -> set[str]:
    """The files with code below a folder."""
    return {str(one) for one in path.rglob("*") if one.suffix in KERNELS} if path.is_dir() else set()


def judge_compiles(first: Compiles, second: Compiles, promised: Sequence[str] | None) -> list[str]:
    """What is wrong: a second request that compiles, or a first one though the image promised its kernels. Pure.

    ``promised``: what the image's report leaves to the device; None when the image promises nothing.
    """
    wrong = []
    if promised is not None and first.of_kernels > len(promised):
        wrong.append(
            f"the first request compiled {first.of_kernels} kernels ({first.words}), the image leaves {len(promised)}"
        )
    if second.of_kernels:
        wrong.append(f"the second request of the same form compiled, too: {second.words}")
    return wrong
