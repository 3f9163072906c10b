"""Inside a build stage: a program of ours with kernels, compiled for one arch, and its checks that need no GPU.

    program.py --name gemm --units DIR --include DIR --cutlass DIR --arch 12.1f -gencode=... --cuda-home DIR
               --cxx COMPILER [--host-cxx COMPILER] --work DIR --out DIR --jobs N

Every .cu and .cpp in DIR is a unit; ninja (on PATH) compiles them. The CUDA run time and the C++ library are linked in:
the program runs on any Linux with glibc 2.38 (trixie's C++ library asks for it), and says so where there is no driver.
Writes OUT/<name>, OUT/checks.jsonl (a JSON object per check, a wrong one included: who reads it judges) and
WORK/measured.json.

With --host-cxx the program is for another machine: with that compiler the checks alone (sizes.cu) are made for this.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from gb10.inside.compile.extension import check_arch, find_units, run_ninja
from gb10.inside.compile.markers import kernels_of

LAUNCHER = Path(__file__).with_name("launch.py")
FLAGS = ("-std=c++17", "-O3", "-DNDEBUG")
# Temporary names of nvcc would differ from run to run and land in symbol tables.
# Not compressed: the kernels are read back.
DEVICE = ("--expt-relaxed-constexpr", "-objtemp", "--no-compress", "-w")
LINK = ("-Wl,--strip-all", "-Wl,--build-id=none", "-static-libstdc++", "-static-libgcc")
LIBRARIES = ("-lcudart_static", "-ldl", "-lrt", "-lpthread")
CHECKS = "sizes.cu"
# By the elements in a GEMM's mangled name: the product that it must hold. For a wrong arch it compiles into a stub.
PRODUCTS = {"12float_e4m3_t": "QMMA", "12float_e2m1_t": "OMMA"}
LOAD, TRAP = "UTMALDG", "BPT"


def main() -> None:
    """Parse, compile, check."""
    options = parse()
    check_arch(options.arch)
    run_ninja(ninja_file(find_units(options.units), options), options)
    write_checks(options)


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("units", "cutlass", "cuda-home", "work", "out"):
        parser.add_argument(f"--{name}", type=lambda text: Path(text).absolute(), required=True)
    parser.add_argument("--include", type=Path, action="append", default=[], help="folder of headers beside the units")
    parser.add_argument("--name", required=True)
    parser.add_argument("--arch", required=True)
    parser.add_argument("-gencode", required=True, help="nvcc's flag for the arch, as nvcc spells it")
    parser.add_argument("--cxx", required=True, help="the target's C++ compiler")
    parser.add_argument("--host-cxx", help="this machine's, where it is another")
    parser.add_argument("--jobs", type=int, required=True)
    return parser.parse_args()


def ninja_file(units: list[Path], options: argparse.Namespace) -> str:
    """One object per unit and the program; for another machine also the checks for this one."""
    launch = f"{sys.executable} -IS {LAUNCHER}"
    own = (options.cutlass / "include", options.cutlass / "tools/util/include", *options.include)
    system = (options.cuda_home / "include", options.cuda_home / "include/cccl")
    include = (*(f"-I{folder}" for folder in own), *(f"-isystem {folder}" for folder in system))
    flags = " ".join((*FLAGS, f"-DGB10_ARCH={options.arch}", *include))
    nvcc = f"{options.cuda_home}/bin/nvcc -gencode={options.gencode} {' '.join(DEVICE)}"
    search = f"-L{options.cuda_home}/lib64 {' '.join(LIBRARIES)}"
    commands = {
        "cu": f"{launch} {nvcc} -ccbin {options.cxx} {flags} -MD -MF $out.d -c $in -o $out",
        "cpp": f"{launch} {options.cxx} {flags} -MD -MF $out.d -c $in -o $out",
        "link": f"{options.cxx} $in -o $out {' '.join(LINK)} {search}",
        "alone": f"{launch} {nvcc} -ccbin {options.host_cxx} {flags} -DGB10_SIZES_ALONE -MD -MF $out.d -c $in -o $out",
        "host": f"{options.host_cxx} $in -o $out",
    }
    rules = [f"rule {rule}\n  command = {command}\n  description = {rule} $in\n" for rule, command in commands.items()]
    objects = {f"{options.name}/{unit.name}.o": unit for unit in units}
    edges = [f"build {made}: {unit.suffix[1:]} {unit}\n" for made, unit in objects.items()]
    program = f"build {options.out / options.name}: link {' '.join(objects)}\n"
    checks = (
        (
            f"build {options.name}/checks.o: alone {options.units / CHECKS}\n"
            f"build {options.name}/checks: host {options.name}/checks.o\n"
        )
        if options.host_cxx
        else ""
    )
    return "".join((*rules, *edges, program, checks))


def write_checks(options: argparse.Namespace) -> None:
    """OUT/checks.jsonl, by the program itself or by its checks alone; raises SystemExit when they break off."""
    alone = options.work / options.name / "checks"
    argv = [str(alone)] if options.host_cxx else [str(options.out / options.name), "--sizes"]
    run = subprocess.run(argv, capture_output=True, text=True, check=False)
    if run.returncode not in (0, 1):
        raise SystemExit(f"{' '.join(argv)} broke off with {run.returncode}\n{run.stdout}{run.stderr}")
    read_back = "".join(f"{json.dumps(line)}\n" for line in instructions(options.out / options.name))
    (options.out / "checks.jsonl").write_text(run.stdout + read_back, encoding="utf-8")


def instructions(program: Path) -> list[dict[str, Any]]:
    """A check per GEMM of the program: its code holds the product of its elements, bulk loads, and no trap."""
    checks = []
    for name, counts in sorted(kernels_of(program.read_bytes()).items()):
        products = [product for part, product in PRODUCTS.items() if part in name]
        if products:
            right = all(counts[one] for one in (*products, LOAD)) and not counts[TRAP]
            checks.append({"kind": "instructions", "kernel": name, "counts": dict(sorted(counts.items())), "ok": right})
    return checks


if __name__ == "__main__":
    main()
