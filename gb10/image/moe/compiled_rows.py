"""``moe check --compile``: each row through the engine's launch code and the release's Triton, for capability 12.1."""

import json
import os
import platform
import sys
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from packaging.version import Version
from pydantic import BaseModel, ConfigDict, ValidationError

from gb10.core.fields import Model
from gb10.core.files import Artifact, digest
from gb10.core.host import Host
from gb10.core.installation import PACKAGE
from gb10.core.proc import SILENT, CommandFailedError, capture_while_active
from gb10.errors import FetchError, LockStaleError, UsageError
from gb10.image.moe.file_verdict import FileVerdict
from gb10.image.moe.input_files import Batch, Sizes
from gb10.image.moe.release_lookups import SITE, Judge
from gb10.image.moe.tuned_name import DEVICE, Family
from gb10.image.recipe.arch import SHARED_MEMORY
from gb10.image.recipe.locked import LockedWheel
from gb10.sources.index.client import fetch_all

LOCK: Final = "recipes/moe/triton.lock.json"
LEFT: Final = ("cupti", "nvperf", "libproton", "/lib/ocml.bc", "/lib/ockl.bc", "/bin/nvdisasm", "/bin/cuobjdump")
"""Parts of a wheel that no compile for an NVIDIA GPU needs."""
PROGRAM: Final = "triton/backends/nvidia/bin/"
LARGEST: Final = 1 << 30
KNOWS_121: Final = Version("3.6.0")
"""Triton from here brings a ptxas that has sm_121; before, the lock's ptxas serves."""


class TritonLock(Model):
    """Wheels of the versions that releases pin, for each interpreter and machine."""

    version: Literal[1]
    wheels: tuple[LockedWheel, ...]


def triton_site(host: Host, root: Path, version: str) -> Path:
    """The folder that Python imports this Triton from; made once. Raises UsageError, FetchError, LockStaleError."""
    wheel = _wheel(root, version)

    def make(work: Path) -> None:
        host.reporter.say(f"unpacking Triton {version}, once ({wheel.size >> 20} MiB to download)")
        found = fetch_all([Artifact(wheel.filename, wheel.sha256, wheel.size)], host.store, host.env)
        _unpack(found[wheel.sha256], work)

    return host.store.ensure("triton", digest(["triton", 1, wheel.sha256]), make)


def _wheel(root: Path, version: str) -> LockedWheel:
    try:
        lock = TritonLock.model_validate_json((root / LOCK).read_bytes())
    except (ValidationError, OSError) as error:
        raise LockStaleError(f"{LOCK} is not valid", where=str(error)[:400]) from error
    python, machine = f"cp3{sys.version_info.minor}", platform.machine()
    of_version = [wheel for wheel in lock.wheels if wheel.version == version]
    found = [wheel for wheel in of_version if f"-{python}-" in wheel.filename and f"_{machine}." in wheel.filename]
    if not of_version:
        known = ", ".join(sorted({wheel.version for wheel in lock.wheels}))
        raise UsageError(f"--compile has no Triton {version}", hint=f"{LOCK} has {known}; name one: --triton VERSION")
    if not found:
        raise UsageError(f"Triton {version} is not locked for Python 3.{sys.version_info.minor} on {machine}")
    return found[0]


def _unpack(wheel: Path, site: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        for entry in archive.infolist():
            name = entry.filename
            if name.startswith("/") or ".." in name.split("/") or entry.file_size > LARGEST:
                raise FetchError(f"{wheel.name} is not a wheel", where=f"it holds {name[:100]!r}")
            if any(part in name for part in LEFT):
                continue
            archive.extract(entry, site)
            if name.startswith(PROGRAM) and not name.endswith("/"):
                (site / name).chmod(0o755)


COMPILES: Final[tuple[Family, ...]] = ("moe", "dense")
SECONDS: Final = 600
"""Silence after which a compile is ended: the largest tiles take a minute."""
LIMITS: Final = {"RLIMIT_CPU": 3600, "RLIMIT_FSIZE": 256 << 20, "RLIMIT_AS": 32 << 30, "RLIMIT_CORE": 0}
START: Final = "import sys; sys.path.insert(0, {root!r}); from gb10.image.moe.child.compile_tiles import main; main()"
PTXAS: Final = "nvidia/cu13/bin/ptxas"


class Kernel(BaseModel):
    """One GEMM as compiled. ``shared``, ``stack``, ``spilled`` in bytes; ``mma``: the instructions that multiply."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    shared: int
    registers: int | None
    stack: int | None
    spilled: int | None
    mma: list[str]


class CompiledRow(BaseModel):
    """A row's kernels: the first GEMM and the second, or why one does not compile."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    row: int
    kernels: list[Kernel]
    error: str | None

    @property
    def problem(self) -> str | None:
        """Why a GB10 cannot run it."""
        most = max((kernel.shared for kernel in self.kernels), default=0)
        if self.error:
            return f"it does not compile: {self.error}"
        return (
            f"it needs {most:,} bytes of shared memory; a GB10 has {SHARED_MEMORY:,}" if most > SHARED_MEMORY else None
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Compiled:
    """One row of a file: the batch sizes that get it, by the first and the last; ``formula``: bytes, None without."""

    path: str
    first: int
    last: int
    config: Mapping[str, Any]
    formula: int | None
    found: CompiledRow


def compile_rows(
    judge: Judge, root: Path, batch: Batch, verdicts: Sequence[FileVerdict], sizes: Sizes, *, nvcc: LockedWheel
) -> Iterator[Compiled]:
    """Every different row that Triton gets. ``nvcc``: the wheel with the ptxas for a Triton that has none for 12.1.

    Raises UsageError when a release's launch code is not known or the compiler ends.
    """
    if not judge.triton or not judge.compiles:
        raise UsageError(f"Triton {judge.triton or 'of an unknown version'} does not compile for capability 12.1")
    site = triton_site(judge.host, root, judge.triton)
    shapes = {given.path: given.meant.shape for given in batch.files if given.meant}
    for verdict in verdicts:
        if verdict.family in COMPILES:
            yield from _of_file(judge, verdict, dict(shapes[verdict.path]), sizes, _environment(judge, site, nvcc))


def _environment(judge: Judge, site: Path, nvcc: LockedWheel) -> dict[str, str]:
    env = {"SITE": str(site)}
    if Version(judge.triton) >= KNOWS_121:
        return env
    found = fetch_all([Artifact(nvcc.filename, nvcc.sha256, nvcc.size)], judge.host.store, judge.host.env)
    program = judge.host.store.ensure("triton", f"ptxas-{nvcc.sha256}", lambda work: _ptxas(found[nvcc.sha256], work))
    path = str(program / PTXAS)
    return {**env, "TRITON_PTXAS_PATH": path, "TRITON_PTXAS_BLACKWELL_PATH": path}


def _ptxas(wheel: Path, work: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extract(PTXAS, work)
    (work / PTXAS).chmod(0o755)


def _of_file(
    judge: Judge, verdict: FileVerdict, shape: dict[str, Any], sizes: Sizes, more: dict[str, str]
) -> Iterator[Compiled]:
    rows = [row for row in verdict.rows if row.use == "triton" and isinstance(row.config, Mapping)]
    first = {json.dumps(row.config, sort_keys=True): row for row in reversed(rows)}
    chosen = sorted(first.values(), key=lambda row: row.first)
    asked = [{"config": row.config, "size": row.first, "shape": shape} for row in chosen]
    for row, found in zip(chosen, _compile(judge, verdict, asked, sizes, more), strict=True):
        yield Compiled(
            path=verdict.path, first=row.first, last=row.last, config=row.config, formula=row.shared, found=found
        )


def _compile(
    judge: Judge, verdict: FileVerdict, asked: list[dict[str, Any]], sizes: Sizes, more: dict[str, str]
) -> list[CompiledRow]:
    path = judge.kernel(verdict.family or "moe")
    request = {
        "limits": LIMITS,
        "triton": more["SITE"],
        "version": judge.triton,
        "source": str(judge.files / SITE / (path or "")),
        "engine": judge.engine,
        "family": verdict.family,
        "device": DEVICE,
        "shared": SHARED_MEMORY,
        "rows": [{**row, "topk": sizes.topk, "hidden": sizes.hidden, "group": sizes.group} for row in asked],
    }
    with judge.host.store.folder("moe") as work:
        (work / "request.json").write_text(json.dumps(request), encoding="utf-8")
        argv = (sys.executable, "-I", "-S", "-c", START.format(root=str(PACKAGE.parent)), str(work / "request.json"))
        own = {"HOME": str(work), "PATH": os.defpath, "TMPDIR": str(work), "TRITON_CACHE_DIR": str(work / "cache")}
        env = {**own, **{name: value for name, value in more.items() if name.startswith("TRITON_")}}
        try:
            lines = capture_while_active(argv, patience=SECONDS, env=env, cwd=work).splitlines()
            return [CompiledRow.model_validate_json(line) for line in lines]
        except CommandFailedError as error:
            why = f"no sign of life for {SECONDS} s" if error.returncode == SILENT else error.tail[-1500:]
            raise UsageError(f"Triton {judge.triton} ended while it compiled {verdict.path}", where=why) from error
        except ValidationError as error:
            raise UsageError("the compiling process gave no readable answer", where=str(error)[:400]) from error
