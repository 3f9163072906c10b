"""Compilers that run while requests wait: processes by name, and files that caches get."""

import os
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from gb10.core.child_sessions import PARENT, SESSION, stat_fields

COMPILERS: Final = frozenset(
    {"nvcc", "cicc", "ptxas", "cudafe++", "fatbinary", "nvlink", "cc1plus", "cc1", "clang", "ld.lld", "ptxas-blackwell"}
)
"""nvcc and Triton run these; CuTe DSL compiles in the engine's process and shows as files of its cache."""
OF_A_KERNEL: Final = frozenset({"nvcc", "cicc", "ptxas", "ptxas-blackwell", "nvlink"})
"""Those that make code for the GPU."""
LOOK: Final = 0.01
YOUNG: Final = 6
"""Looks at a new process: its name changes when it becomes the compiler. It may have a number before it is listed."""
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
CONTAINER: Final = re.compile(r"[0-9a-f]{64}")
"""In the cgroup of a process: the id of the container that it is in."""


@dataclass(kw_only=True)
class Compiles:
    """What was compiled while somebody looked."""

    processes: Counter[str] = field(default_factory=Counter)
    files: Counter[str] = field(default_factory=Counter)
    """New files with code for the GPU, by cache."""
    unseen: tuple[str, ...] = ()
    """Of the server's leaders and containers, those that this machine has no process of: nobody saw what they ran."""

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

    @property
    def away(self) -> str:
        """What nobody saw; empty when all of the server is here."""
        count = len(self.unseen)
        return f"{count} rank{'s' * (count > 1)} on other machines, whose compilers nobody sees" if count else ""


@contextmanager
def compiles_seen(
    server: Callable[[], Sequence[str]], caches: Mapping[str, Path] | None = None, proc: Path = Path("/proc")
) -> Iterator[Compiles]:
    """Look for compilers that a server of this machine runs, in containers too, while the context lasts.

    ``server`` is asked at the end for the numbers of its leaders, or the ids of its containers: others compile, too.
    """
    found = Compiles()
    ran: list[tuple[str, set[str]]] = []
    ended = threading.Event()
    before = {name: _kernels(path) for name, path in (caches or {}).items()}
    thread = threading.Thread(target=_watch, args=(ran, ended, proc), daemon=True)
    thread.start()
    try:
        yield found
    finally:
        ended.set()
        thread.join()
        own = server()
        found.processes.update(program for program, places in ran if not places.isdisjoint(own))
        here = set[str]().union(*(places_of(proc, name) for name in _processes(proc)))
        found.unseen = tuple(one for one in own if one not in here)
        for name, path in (caches or {}).items():
            new = len(_kernels(path) - before[name])
            if new:
                found.files[name] = new


def _processes(proc: Path) -> set[str]:
    return {name for name in os.listdir(proc) if name.isdecimal()}  # noqa: PTH208 - names alone, a hundred times a second


def _newest(proc: Path) -> str:
    """The number that was given to a process or thread last: while it stays, there is no new one to list."""
    return (proc / "loadavg").read_text(encoding="ascii").split()[-1]


def places_of(proc: Path, name: str) -> set[str]:
    """Where a process belongs: its own number, those of its ancestors and their sessions, its container."""
    found = set[str]()
    with suppress(OSError):  # it has ended
        found.update(CONTAINER.findall((proc / name / "cgroup").read_text(encoding="utf-8", errors="replace")))
    line = set[str]()
    while name not in line and (fields := stat_fields(proc / name)):
        line.add(name)
        found.add(fields[SESSION])
        name = fields[PARENT]
    return found | line


def _watch(ran: list[tuple[str, set[str]]], ended: threading.Event, proc: Path) -> None:
    """Each compiler that starts until the end, with where it belongs."""
    old = _processes(proc)
    young: dict[str, int] = {}
    # As they were when a process was new: it, or its parent, may have ended when it is known as a compiler.
    places = dict[str, set[str]]()
    counted: set[str] = set()
    over, newest, quiet = False, "", 0
    while not over:  # once more after the end: what runs then was started before
        over = ended.wait(LOOK)
        before, newest = newest, _newest(proc)
        quiet = quiet + 1 if newest == before else 0
        if quiet < YOUNG or over:
            now = _processes(proc)
            young |= dict.fromkeys(now - old, 0)
            old = now
        for name in [one for one, looks in young.items() if looks < YOUNG]:
            young[name] += 1
            if name not in places:
                places[name] = places_of(proc, name)
            try:
                program = (proc / name / "comm").read_text(encoding="utf-8", errors="replace").strip()
            except OSError:  # it has ended
                young.pop(name)
                continue
            if program in COMPILERS and name not in counted:
                counted.add(name)
                ran.append((program, places[name] | places_of(proc, name)))


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
