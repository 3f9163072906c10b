"""Inside a build stage: kernels of our own, compiled for one arch, linked into one library of torch operators.

    extension.py --units DIR --kernels SET.json --cutlass DIR --torch DIR --arch 12.1f -gencode=... --cuda-home DIR
                 --cxx COMPILER --work DIR --out DIR --jobs N

Every .cu and .cpp in DIR is a unit; ninja (on PATH) compiles them. Writes what aot.py writes: OUT/<module>/<module>.so,
OUT/manifest.json, WORK/measured.json. The library is linked against the target's torch, although it calls only the
stable C ABI: torch loads its own libraries without RTLD_GLOBAL, so a library that does not name them finds none of
their symbols; and the linker, by -z defs, refuses every symbol that neither they nor CUDA nor libc export.
"""

import argparse
import hashlib
import json
import operator
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from gb10.inside.compile.compilers import cache_settings, write_measured
from gb10.inside.compile.markers import kernels_of, missing

LAUNCHER = Path(__file__).with_name("launch.py")
COMPARE: dict[str, Callable[[list[int], list[int]], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "<": operator.lt,
    ">": operator.gt,
}
FLAGS = ("-std=c++17", "-O3", "-DNDEBUG", "-DUSE_CUDA")
# Hidden: else a template's static variables are one for the whole process, other libraries' CUTLASS included.
HOST = ("-fPIC", "-fvisibility=hidden")
# Temporary names of nvcc would differ from run to run and land in symbol tables.
# Not compressed: the kernels are read back.
DEVICE = ("--expt-relaxed-constexpr", "-objtemp", "--no-compress", *(f"-Xcompiler={flag}" for flag in HOST))
LINK = ("-Wl,-z,defs", "-Wl,--as-needed", "-Wl,--strip-all", "-Wl,--build-id=none")
LIBRARIES = ("-ltorch_cpu", "-ltorch_cuda", "-lcudart")


def main() -> None:
    """Parse, check, compile, write the manifest."""
    options = parse()
    kernels = json.loads(options.kernels.read_text(encoding="utf-8"))
    module = only_module(kernels)
    check_arch(options.arch)
    versions = {
        "cutlass": defined_version(options.cutlass / "include/cutlass/version.h", "CUTLASS"),
        "torch": defined_version(options.torch / "include/torch/headeronly/version.h", "TORCH_VERSION"),
    }
    check_cutlass(kernels, versions["cutlass"], options.cutlass)
    units = find_units(options.units)
    compile_units(units, module["name"], options)
    check_markers(options.out / module["name"] / f"{module['name']}.so", module)
    write_manifest(kernels, module, len(units), versions, options)


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("units", "kernels", "cutlass", "torch", "cuda-home", "work", "out"):
        parser.add_argument(f"--{name}", type=lambda text: Path(text).absolute(), required=True)
    parser.add_argument("--arch", required=True)
    parser.add_argument("-gencode", required=True, help="nvcc's flag for the arch, as nvcc spells it")
    parser.add_argument("--cxx", required=True, help="the target's C++ compiler")
    parser.add_argument("--jobs", type=int, required=True)
    return parser.parse_args()


def only_module(kernels: dict[str, Any]) -> dict[str, Any]:
    """The module of a set: all units become one library."""
    modules: list[dict[str, Any]] = kernels["module"]
    if len(modules) != 1:
        raise SystemExit(f"the kernel set {kernels['name']} names {len(modules)} modules: its units become one library")
    return modules[0]


def check_arch(arch: str) -> None:
    """Raise SystemExit for a plain arch: its code would lack the tensor-core instructions of the family."""
    if arch[-1] not in "af":
        raise SystemExit(f"kernels of ours are not compiled for {arch}: name {arch}f or {arch}a")


def defined_version(header: Path, prefix: str) -> str:
    """``4.5.0`` out of a header's ``#define <prefix>_MAJOR 4`` and so on; raises SystemExit when it is not there."""
    text = header.read_text(encoding="utf-8") if header.exists() else ""
    parts = [re.search(rf"(?m)^#define {prefix}_{part}\s+(\d+)\s*$", text) for part in ("MAJOR", "MINOR", "PATCH")]
    if not all(parts):
        raise SystemExit(
            f"{header} is not there, or defines no {prefix}_MAJOR, _MINOR and _PATCH: "
            "the recipe names another source or other headers than the units need"
        )
    return ".".join(part[1] for part in parts if part)


def check_cutlass(kernels: dict[str, Any], version: str, tree: Path) -> None:
    """Raise SystemExit when the CUTLASS that is there is not what the set was written for."""
    if not all(holds(version, text) for text in kernels["cutlass"].split(",")):
        raise SystemExit(
            f"the kernel set {kernels['name']} needs CUTLASS {kernels['cutlass']}, the source brings {version}: "
            "take another source, or hold the units against this one and change `cutlass` in the set"
        )
    absent = [header for header in kernels.get("headers", ()) if not (tree / "include" / header).is_file()]
    if absent:
        raise SystemExit(
            f"CUTLASS {version} lacks {', '.join(absent)}, which the kernel set {kernels['name']} needs: "
            "name cutlass among the recipe's patches"
        )


def holds(version: str, condition: str) -> bool:
    """Whether ``4.5.0`` is ``>=4.5``; raises SystemExit for what is no such condition."""
    found = re.fullmatch(r"\s*(>=|<=|==|<|>)\s*(\d+(?:\.\d+)*)\s*", condition)
    if not found:
        raise SystemExit(f"cutlass = {condition!r} is no condition: write >=4.5, or >=4.5,<4.6")
    here, there = ([int(part) for part in text.split(".")] for text in (version, found[2]))
    width = max(len(here), len(there))
    return COMPARE[found[1]](*(parts + [0] * (width - len(parts)) for parts in (here, there)))


def find_units(folder: Path) -> list[Path]:
    """The units, GPU code first because it takes longest. Raises SystemExit when there is none."""
    units = [path for path in folder.iterdir() if path.suffix in (".cu", ".cpp")]
    if not units:
        raise SystemExit(f"no .cu and no .cpp in {folder}")
    return sorted(units, key=lambda path: (path.suffix != ".cu", path.name))


def compile_units(units: list[Path], name: str, options: argparse.Namespace) -> None:
    """OUT/<name>/<name>.so, and what each unit cost; raises SystemExit when one does not compile or link."""
    run_ninja(ninja_file(units, name, options.out / name / f"{name}.so", options), options)


def run_ninja(text: str, options: argparse.Namespace) -> None:
    """Build all that a ninja file names, and write what each unit cost; raises SystemExit when ninja fails."""
    options.work.mkdir(parents=True, exist_ok=True)
    (options.work / "build.ninja").write_text(text, encoding="utf-8")
    cache = cache_settings(options.work, options.units, options.cuda_home, options.cxx)
    ninja = ["ninja", "-C", str(options.work), "-j", str(options.jobs)]
    run = subprocess.run(ninja, env=os.environ | cache, check=False)
    if run.returncode:  # ninja printed the reason: a traceback would push it out of sight
        raise SystemExit(f"ninja exited with {run.returncode}")
    write_measured(options.work)


def check_markers(library: Path, module: dict[str, Any]) -> None:
    """Raise SystemExit when a kernel lacks the instructions that the set requires: it compiled into a stub."""
    wrong = missing(kernels_of(library.read_bytes()), module.get("instructions", {}))
    if wrong:
        raise SystemExit(f"{library.name} does not hold what it should:\n" + "\n".join(wrong))


def ninja_file(units: Iterable[Path], name: str, library: Path, options: argparse.Namespace) -> str:
    """One object per unit, and the library."""
    launch = f"{sys.executable} -IS {LAUNCHER}"
    include = (
        f"-I{options.cutlass}/include",
        f"-I{options.cutlass}/tools/util/include",
        *(
            f"-isystem {path}"
            for path in (options.torch / "include", options.cuda_home / "include", options.cuda_home / "include/cccl")
        ),
    )
    nvcc = (f"{options.cuda_home}/bin/nvcc", f"-ccbin {options.cxx}", f"-gencode={options.gencode}", *DEVICE)
    search = (f"-L{options.torch}/lib", f"-L{options.cuda_home}/lib64")
    commands = {
        "cu": " ".join((launch, *nvcc, *FLAGS, *include, "-MD -MF $out.d -c $in -o $out")),
        "cpp": " ".join((launch, options.cxx, *FLAGS, *HOST, *include, "-MD -MF $out.d -c $in -o $out")),
        "link": " ".join((options.cxx, "-shared $in -o $out", *LINK, *search, *LIBRARIES)),
    }
    rules = [f"rule {rule}\n  command = {command}\n  description = {rule} $in\n" for rule, command in commands.items()]
    objects = {f"{name}/{unit.name}.o": unit for unit in units}
    edges = [f"build {made}: {unit.suffix[1:]} {unit}\n" for made, unit in objects.items()]
    return "".join((*rules, *edges, f"build {library}: link {' '.join(objects)}\n  description = link {library}\n"))


def write_manifest(
    kernels: dict[str, Any], module: dict[str, Any], units: int, versions: dict[str, str], options: argparse.Namespace
) -> None:
    """OUT/manifest.json: the same inputs give the same bytes."""
    library = options.out / module["name"] / f"{module['name']}.so"
    built = {
        "cubins": module.get("cubins", [options.arch]),
        "units": units,
        "sha256": hashlib.sha256(library.read_bytes()).hexdigest(),
    }
    manifest = {"version": kernels["version"], **versions, "arch": options.arch, "modules": {module["name"]: built}}
    (options.out / "manifest.json").write_text(json.dumps(manifest, indent=2, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
