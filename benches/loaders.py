"""Seconds and memory of the engines' weight loaders, on one set of safetensors: a first start and a second, one run.

    python3 benches/loaders.py DIR [--make GIB] [--loader NAME]... [--device cuda:0|cpu] [--limit GB/S] [--patience S]

On a machine with torch and the loaders' packages; DIR holds .safetensors files, or ``--make`` writes some there. Each
loader runs in a process of its own, first with the files out of the page cache, then again as that run has left it. It
brings each tensor to the device and drops it, as vLLM 0.33's iterators do (model_loader/weight_utils.py). ``peak`` is
the largest resident memory of the process without mapped files (RssAnon), sampled each 20 ms; ``resident`` with them;
``cached`` what the page cache grew by; ``device`` the most of the GPU that was taken. ``--limit`` bounds what a process
reads from the disk by its cgroup (io.max); where that cannot be set, the run says so and goes on without. A loader that
has not ended after ``--patience`` seconds is killed, and its row says so.
"""

# ruff: noqa: PLC0415 - each loader is imported in the process that tries it
import argparse
import contextlib
import json
import os
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

GIB = 1 << 30
FILE_GIB = 4
TENSOR = (8192, 8192)
BLOCK = 16 << 20


def make(folder: Path, gib: int) -> None:
    """Files of random bytes, in matrices of 128 MiB."""
    import torch  # type: ignore[import-not-found]
    from safetensors.torch import save_file  # type: ignore[import-not-found]

    folder.mkdir(parents=True, exist_ok=True)
    one, base = TENSOR[0] * TENSOR[1] * 2, torch.randint(-(1 << 15), 1 << 15, TENSOR, dtype=torch.int16)
    for number, written in enumerate(range(0, gib, FILE_GIB)):
        count = min(FILE_GIB, gib - written) * GIB // one
        tensors = {f"layers.{number}.{at}.weight": base + number + at for at in range(count)}
        save_file(tensors, folder / f"model-{number:05}.safetensors")


def mapped(files: list[str], device: str) -> Iterator[Any]:
    from safetensors import safe_open  # type: ignore[import-not-found]

    for file in files:
        with safe_open(file, framework="pt") as opened:
            for name in opened.keys():  # noqa: SIM118 - no mapping
                # a mapped page is read when it is copied: to the CPU, too
                yield opened.get_tensor(name).to(device, copy=True)


def prefetched(files: list[str], device: str) -> Iterator[Any]:
    """The files are read into the page cache ahead, by threads; then as ``mapped``."""

    def read(file: str) -> None:
        with Path(file).open("rb", buffering=0) as stream:
            while stream.read(BLOCK):
                pass

    for file in files:
        threading.Thread(target=read, args=(file,), daemon=True).start()
    yield from mapped(files, device)


def eager(files: list[str], device: str) -> Iterator[Any]:
    from safetensors.torch import load

    for file in files:
        for tensor in load(Path(file).read_bytes()).values():
            yield tensor.to(device)


def fastsafetensors(files: list[str], device: str) -> Iterator[Any]:
    from fastsafetensors import SingleGroup  # type: ignore[import-not-found]
    from fastsafetensors.parallel_loader import ParallelLoader  # type: ignore[import-not-found]

    loader = ParallelLoader(pg=SingleGroup(), hf_weights_files=files, device=device, nogds=True)
    try:
        for _, tensor in loader.iterate_weights():
            yield tensor
    finally:
        loader.close()


def instanttensor(files: list[str], device: str) -> Iterator[Any]:
    import instanttensor as package  # type: ignore[import-not-found]

    with package.safe_open(files, framework="pt", device=device, copy=True) as opened:
        for _, tensor in opened.tensors():
            yield tensor


def runai_streamer(files: list[str], device: str) -> Iterator[Any]:
    from runai_model_streamer import SafetensorsStreamer  # type: ignore[import-not-found]

    with SafetensorsStreamer() as streamer:
        streamer.stream_files(files)
        for _, tensor in streamer.get_tensors():
            yield tensor.to(device)


LOADERS: dict[str, Callable[[list[str], str], Iterator[Any]]] = {
    "mapped": mapped,
    "prefetched": prefetched,
    "eager": eager,
    "fastsafetensors": fastsafetensors,
    "instanttensor": instanttensor,
    "runai_streamer": runai_streamer,
}


def fields(path: str) -> dict[str, int]:
    """The sizes of a file of /proc, in bytes."""
    rows = (line.split() for line in Path(path).read_text(encoding="ascii").splitlines())
    return {row[0].rstrip(":"): int(row[1]) * 1024 for row in rows if len(row) == 3 and row[2] == "kB"}


def child(loader: str, device: str, files: list[str]) -> None:
    """One loader, in this process: print what it took."""
    import torch

    on_gpu = device.startswith("cuda")
    torch.zeros(1, device=device)
    most = {"RssAnon": 0, "VmRSS": 0}
    stop = threading.Event()

    def watch() -> None:
        while not stop.wait(0.02):
            found = fields("/proc/self/status")
            most.update((name, max(value, found[name])) for name, value in most.items())

    before, cached = fields("/proc/self/status"), fields("/proc/meminfo")["Cached"]
    watcher = threading.Thread(target=watch)
    watcher.start()
    free = torch.cuda.mem_get_info()[0] if on_gpu else 0
    began, count, device_peak = time.perf_counter(), 0, 0
    for tensor in LOADERS[loader](files, device):
        count += tensor.nbytes
        device_peak = max(device_peak, free - torch.cuda.mem_get_info()[0]) if on_gpu else 0
    if on_gpu:
        torch.cuda.synchronize()
    seconds = time.perf_counter() - began
    stop.set()
    watcher.join()
    print(
        json.dumps(
            {
                "seconds": round(seconds, 1),
                "gib": round(count / GIB, 1),
                "peak": round((most["RssAnon"] - before["RssAnon"]) / GIB, 2),
                "resident": round((most["VmRSS"] - before["VmRSS"]) / GIB, 2),
                "cached": round((fields("/proc/meminfo")["Cached"] - cached) / GIB, 1),
                "device": round(device_peak / GIB, 1) if on_gpu else None,
                "cpu_s": round(sum(resource.getrusage(resource.RUSAGE_SELF)[:2]), 1),
            }
        )
    )


def forget(files: list[str]) -> None:
    """Take the files out of the page cache."""
    for file in files:
        number = os.open(file, os.O_RDONLY)
        os.fsync(number)
        os.posix_fadvise(number, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(number)


def limited(folder: Path, rate: float) -> Path | None:
    """A cgroup whose processes read so many GB a second from the folder's disk; None, and why, where it cannot be."""
    group = Path("/sys/fs/cgroup/loaders-bench")
    device = folder.stat().st_dev
    try:
        group.mkdir(exist_ok=True)
        (group / "io.max").write_text(f"{os.major(device)}:{os.minor(device)} rbps={round(rate * 1e9)}\n")
    except OSError as error:
        print(f"reads are not limited: {error}", file=sys.stderr)
        return None
    return group


def main() -> int:
    """Print two rows for each loader."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--make", type=int, metavar="GIB")
    parser.add_argument("--loader", action="append", choices=LOADERS)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--limit", type=float, metavar="GB/S")
    parser.add_argument("--patience", type=float, metavar="S", default=900.0)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    given = parser.parse_args()
    files = sorted(map(str, given.folder.glob("*.safetensors")))
    if given.child:
        child(given.child, given.device, files)
        return 0
    if given.make and not files:
        make(given.folder, given.make)
        files = sorted(map(str, given.folder.glob("*.safetensors")))
    if not files:
        parser.error(f"no .safetensors file in {given.folder}: --make GIB writes some")
    group = limited(given.folder, given.limit) if given.limit else None
    for loader in given.loader or LOADERS:
        for first in (True, False):
            if first:
                forget(files)
            command = [sys.executable, __file__, str(given.folder), "--device", given.device, "--child", loader]
            with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
                if group is not None:
                    with contextlib.suppress(ProcessLookupError):
                        (group / "cgroup.procs").write_text(str(process.pid))
                try:
                    out, err = process.communicate(timeout=given.patience)
                except subprocess.TimeoutExpired:
                    process.kill()
                    out, err = process.communicate()
                    err += f"no end after {given.patience:g} s"
            row = json.loads(out.splitlines()[-1]) if process.returncode == 0 else {"not run": err.strip()[-300:]}
            print(json.dumps({"loader": loader, "start": "first" if first else "again", **row}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
