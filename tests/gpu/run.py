"""The grouped kernels on this machine's GPU against fp64: `python3 tests/gpu/run.py --cutlass DIR [--check TOOL]`.

Needs nvcc 13 and a GPU of capability 12.x, on which it is the shipped code that runs; or 9.0, which lacks one
instruction of it: in a copy of one header the SM120 mnemonic is replaced by Ada's, which is the same product of the
same fragments. What stays as shipped: kernel layer, TMA descriptors, barriers, copies, epilogue. Standard library only.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
KERNELS = ROOT / "kernels/moe"
TILE = re.compile(r"^\s*X\((\w+), (\w+), (\d+), (\d+), (\d+), (\w+)\)", re.MULTILINE)
HEADER = Path("cute/arch/mma_sm120.hpp")
SMALL = ("empty", "narrow n", "k not of whole tiles")
TARGETS = {"9.0": "sm_90a", "12.0": "sm_120f", "12.1": "sm_121f"}


def main() -> int:
    """Compile one program per tile, run all, sum up; 1 when a case is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cutlass", type=Path, required=True, help="a tree of CUTLASS >= 4.6, or 4.5 as patched")
    parser.add_argument(
        "--check",
        action="append",
        default=[],
        choices=["memcheck", "racecheck", "synccheck"],
        help="also under this tool of compute-sanitizer, the smallest cases",
    )
    parser.add_argument("--only", default="", help="cases whose name holds this")
    parser.add_argument("--random", type=int, default=12, help="how many random cases")
    parser.add_argument("--tile", default="", help="tiles whose name holds this")
    parser.add_argument("--out", type=Path, help="write every case's JSON line here")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        work, target = Path(folder), gpu_target()
        includes = [overlay(options.cutlass, work)] if target == "sm_90a" else []
        tiles = [tile for tile in TILE.findall((KERNELS / "tiles.h").read_text()) if options.tile in tile[0]]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            programs = list(pool.map(lambda tile: build(tile, options.cutlass, includes, target, work), tiles))
        cases = [case for program in programs for case in run([str(program), options.only, str(options.random)])]
        for tool in options.check:
            for program in programs:
                check(program, tool)
    if options.out:
        options.out.write_text("".join(json.dumps(case) + "\n" for case in cases))
    return report(cases, target)


def gpu_target() -> str:
    """What to compile for; SystemExit when there is no GPU on which this can run."""
    absent = [tool for tool in ("nvcc", "nvidia-smi") if shutil.which(tool) is None]
    if absent:
        raise SystemExit(f"no {' and no '.join(absent)} on PATH: this needs a GPU, its driver and the CUDA toolkit")
    query = ["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"]
    found = subprocess.run(query, capture_output=True, text=True, check=True).stdout.split()
    if not found or found[0] not in TARGETS:
        raise SystemExit(f"the GPU here is {found or 'none'}: these kernels run on {', '.join(TARGETS)}")
    return TARGETS[found[0]]


def overlay(cutlass: Path, work: Path) -> Path:
    """A folder for the front of the include path, with the one header in which the mnemonic is Ada's."""
    text = (cutlass / "include" / HEADER).read_text()
    swapped, count = re.subn(r"kind::f8f6f4\.(?=m16n8k32\.row\.col\.f32\.e4m3\.e4m3\.f32)", "", text)
    if count != 1:
        raise SystemExit(f"{HEADER} names the instruction {count} times, not once: look at it")
    target = work / "overlay" / HEADER
    target.parent.mkdir(parents=True)
    target.write_text(swapped.replace("#if defined(CUTE_ARCH_F8F6F4_MMA_ENABLED)", "#if 1"))
    return work / "overlay"


def build(tile: Sequence[str], cutlass: Path, includes: list[Path], target: str, work: Path) -> Path:
    """The program of one tile."""
    name = tile[0]
    unit = work / f"{name}.cu"
    unit.write_text(f'#define GB10_ONLY(X) X({",".join(tile)})\n#include "{Path(__file__).with_name("numerics.cu")}"\n')
    compute = target.replace("sm_", "compute_")
    folders = [*includes, cutlass / "include", cutlass / "tools/util/include", KERNELS]
    argv = [
        "nvcc",
        "-std=c++17",
        "-O3",
        "-DNDEBUG",
        "--expt-relaxed-constexpr",
        "-w",
        *(f"-I{at}" for at in folders),
        f"-gencode=arch={compute},code={target}",
        str(unit),
        "-lcuda",
        "-o",
        str(work / name),
    ]
    subprocess.run(argv, check=True)
    return work / name


def run(argv: list[str]) -> list[dict[str, object]]:
    """The cases of one program; SystemExit when it broke off."""
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        raise SystemExit(
            f"{Path(argv[0]).name} broke off with {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
        )
    return [json.loads(line) for line in done.stdout.splitlines()]


def check(program: Path, tool: str) -> None:
    """The same program where every access is checked; SystemExit on the first error."""
    sanitizer = shutil.which("compute-sanitizer")
    if sanitizer is None:
        raise SystemExit("compute-sanitizer is not on PATH: it comes with the CUDA toolkit")
    for case in SMALL:
        argv = [sanitizer, "--tool", tool, "--error-exitcode", "9", str(program), case, "0"]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        print(f"{tool} {program.name}, {case}: {done.stdout.strip().splitlines()[-1].strip('= ')}", flush=True)
        if done.returncode:
            raise SystemExit(done.stdout[-3000:] + done.stderr[-3000:])


def report(cases: list[dict[str, object]], target: str) -> int:
    """One line per tile and output; the wrong cases in full."""
    wrong = [case for case in cases if not case["ok"]]
    for tile, out in dict.fromkeys((case["tile"], case["out"]) for case in cases):
        errors = [float(str(case["error"])) for case in cases if (case["tile"], case["out"]) == (tile, out)]
        print(f"{tile:24} {out}  {len(errors)} cases, worst relative error {max(errors):.2e}")
    for case in wrong:
        print(f"WRONG {json.dumps(case)}")
    print(f"{len(cases)} cases on {target}, {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
