"""A benchmark program under Nsight Compute: what limits each kernel on each shape, by the GPU's own counters.

The names are ncu's; tests hold them against NVIDIA's list for each chip (docs/profile.md says what each tells).
"""

import csv
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gb10.core.files import read_plain_file
from gb10.core.host import Host
from gb10.core.proc import CommandFailedError, capture, last_lines, stream
from gb10.errors import UsageError, VerifyError
from gb10.image.gemm.gemm_benchmarks import BuiltProgram, Line, Measured, output_reader

NCU: Final = "ncu"
USUAL: Final = Path("/usr/local/cuda/bin/ncu")
"""Where CUDA's packages install it; DGX OS has the folder on no PATH."""
TIME: Final = "gpu__time_duration.sum"
TENSOR: Final = "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active"
COMPUTE: Final = "sm__throughput.avg.pct_of_peak_sustained_elapsed"
MEMORY: Final = "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed"
HITS: Final = "lts__t_sector_hit_rate.pct"
WARPS: Final = "sm__warps_active.avg.pct_of_peak_sustained_active"
COMMON: Final = (TIME, TENSOR, COMPUTE, MEMORY, HITS, WARPS)
SECTOR: Final = 32
"""Bytes of a sector of the L2."""
TRAFFIC: Final[Mapping[str, Mapping[str, int]]] = {
    "12.1": {"lts__d_sectors_fill_device.sum": SECTOR, "lts__d_sectors_fill_sysmem.sum": SECTOR},
    "12.0": {"dram__bytes.sum": 1},
}
"""What counts traffic with memory, by compute capability, and the bytes of one count.

A GB10 (chip GB20B) has no counter of its DRAM: what fills the L2 from memory is counted, so reads alone."""
KERNEL: Final = "device_kernel"
"""The function that every GEMM of CUTLASS is launched as; the program's own kernels have other names."""
RUNS: Final = 1
WARM_UP: Final = 3
"""Launches that the program makes before the runs of a shape (benches/gemm/main.cpp)."""
LARGEST: Final = 64 << 20
NEEDS: Final = "--profile needs a GPU of the arch on this machine"
REFUSED: Final = "ERR_NVGPUCTRPERM"


@dataclass(frozen=True, kw_only=True, slots=True)
class ProfiledShape:
    """One kernel on one shape: the last of its launches. In ``values`` None is a metric that was not collected."""

    kernel: str
    shape: str
    values: Mapping[str, float | None]

    @property
    def memory_bytes(self) -> float | None:
        """Traffic with memory; None where a counter of it is missing."""
        sizes = {name: size for counters in TRAFFIC.values() for name, size in counters.items()}
        counted = [(value, sizes[name]) for name, value in self.values.items() if name in sizes]
        known = [value * size for value, size in counted if value is not None]
        return sum(known) if known and len(known) == len(counted) else None


@dataclass(frozen=True, kw_only=True, slots=True)
class Profiled:
    """What Nsight Compute saw; ``report`` is its own file, for ncu-ui."""

    ncu: str
    report: Path
    metrics: tuple[str, ...]
    shapes: tuple[ProfiledShape, ...]


def find_ncu(env: Mapping[str, str]) -> str:
    """The program. Raises UsageError where it is not installed."""
    found = shutil.which(NCU, path=env.get("PATH")) or shutil.which(USUAL)
    if found is None:
        raise UsageError(
            "Nsight Compute (ncu) is not installed",
            where=f"neither on PATH nor at {USUAL}",
            hint="apt install cuda-nsight-compute-13-0 (NVIDIA's repository, set up on DGX OS); or omit --profile",
        )
    return found


def metrics_of(capability: str) -> tuple[str, ...]:
    """The metrics to collect on a GPU of a compute capability. Raises VerifyError for one that we do not know. Pure."""
    if capability not in TRAFFIC:
        raise VerifyError(
            f"no metrics are chosen for compute capability {capability}", hint=f"for {', '.join(TRAFFIC)}"
        )
    return (*COMMON, *TRAFFIC[capability])


def collecting(ncu: str, program: Path, report: Path, metrics: Sequence[str]) -> tuple[str, ...]:
    """The command line that profiles. The clocks stay as they are, so times are those of a benchmark. Pure."""
    return (
        *(ncu, "--config-file", "off", "--clock-control", "none", "--target-processes", "application-only"),
        *("--kernel-name-base", "function", "--kernel-name", KERNEL, "--metrics", ",".join(metrics)),
        *("--force-overwrite", "--export", str(report), str(program), "--runs", str(RUNS)),
    )


def reading(ncu: str, report: Path, metrics: Sequence[str]) -> tuple[str, ...]:
    """The command line that prints a report as CSV. Pure."""
    shown = ("--page", "raw", "--csv", "--print-units", "base", "--metrics", ",".join(metrics))
    return (ncu, "--config-file", "off", "--import", str(report), *shown)


def profile(host: Host, ncu: str, program: BuiltProgram, measured: Measured) -> Profiled:
    """Run a program that was measured on this machine's GPU again, under ncu. Raises VerifyError."""
    if measured.gpu is None:
        raise VerifyError(f"nothing of {program.name} was profiled", where=measured.why_not, hint=NEEDS)
    metrics = metrics_of(str(measured.gpu["capability"]))
    report = host.store.root / "logs" / f"profile-{program.name}-{program.key[:12]}.ncu-rep"
    log = report.with_suffix(".log")
    env = {**host.env, "LC_ALL": "C"}
    found: list[Line] = []
    tail = ""
    report.unlink(missing_ok=True)
    with host.reporter.task(f"profile {program.name}, several passes a launch") as task:
        try:
            stream(
                collecting(ncu, program.path, report, metrics),
                log=log,
                on_line=output_reader(host, task, found),
                env=env,
            )
        except CommandFailedError as error:
            tail = f"exit code {error.returncode}"
    if tail or not report.is_file():
        raise _refusal(read_plain_file(log, LARGEST).decode("utf-8", "replace"), log, tail)
    try:
        text = capture(reading(ncu, report, metrics), env=env)
    except CommandFailedError as error:
        raise VerifyError(
            "Nsight Compute cannot read its own report", where=f"{error.tail}\nreport: {report}"
        ) from error
    return Profiled(ncu=ncu, report=report, metrics=metrics, shapes=shapes_of(found, read_launches(text, metrics)))


def _refusal(said: str, log: Path, tail: str) -> VerifyError:
    """The error of a profile that has no report."""
    if REFUSED in said:
        return VerifyError(
            "the driver lets administrators alone read the GPU's counters",
            where=f"{REFUSED}\nlog: {log}",
            hint="run it as root; or set NVreg_RestrictProfilingToAdminUsers=0 for the module nvidia, and reboot",
        )
    where = "\n".join(filter(None, (tail, last_lines(said, 8), f"log: {log}")))
    return VerifyError("Nsight Compute made no report", where=where, hint="docs/profile.md says what it needs")


def read_launches(text: str, metrics: Sequence[str]) -> tuple[Mapping[str, float | None], ...]:
    """The metrics of each launch in ncu's CSV, whose first row has the units. Raises VerifyError. Pure."""
    lines = text.splitlines()
    start = next((at for at, line in enumerate(lines) if line.startswith('"ID"')), None)
    if start is None:
        raise VerifyError("Nsight Compute printed no table", where=last_lines(text, 4))
    _, *rows = csv.DictReader(lines[start:])
    return tuple({name: _number(row.get(name)) for name in metrics} for row in rows)


def _number(text: str | None) -> float | None:
    """``204,154,080`` and ``50.60``; None for what ncu could not collect (``(!) n/a``)."""
    try:
        return float((text or "").replace(",", ""))
    except ValueError:
        return None


def shapes_of(lines: Sequence[Line], launches: Sequence[Mapping[str, float | None]]) -> tuple[ProfiledShape, ...]:
    """The last launch of each shape, by the order in which the program launches. Raises VerifyError. Pure."""
    counts = [1 if line["kind"] == "result" else WARM_UP + RUNS if line["kind"] == "time" else 0 for line in lines]
    if sum(counts) != len(launches):
        raise VerifyError(
            f"Nsight Compute saw {len(launches)} launches of {KERNEL}, and the program makes {sum(counts)}",
            hint="the report is whole: open it in ncu-ui",
        )
    rest, found = iter(launches), list[ProfiledShape]()
    for line, count in zip(lines, counts, strict=True):
        own = [next(rest) for _ in range(count)]
        if line["kind"] == "time":
            found.append(ProfiledShape(kernel=str(line["kernel"]), shape=str(line["shape"]), values=own[-1]))
    return tuple(found)
