"""Inside a build stage: a project with a PEP 517 build becomes a wheel for the image's machine and one arch.

    package.py --source DIR --site DIR --image DIR --arch 12.1a -gencode=... --cuda-home DIR --cc COMPILER
               --cxx COMPILER --machine aarch64 --work DIR --out DIR --jobs N [--jit MODULE]

The build machine's Python runs the project's build. All that the build can ask of its machine answers for the image's:
Python's configuration and headers (IMAGE, the image's base), torch (SITE, the image's wheels, of which nothing runs),
the compilers (package_compiler.py, which puts the arch in). The same way natively, so that a key has one result.
``--jit``: the project is a wheel that compiles when it is used; this module of it does so when it is imported.
Writes one wheel to OUT, and WORK/measured.json.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from gb10.inside.compile.compilers import cache_settings, write_measured
from gb10.inside.compile.package_backend import refused

PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"
NEEDED = re.compile(r"#error C\+\+(\d\d) or later compatible compiler is required")
COMPILER = Path(__file__).with_name("package_compiler.py")
HOOK = "from gb10.inside.compile.build_python import answer_for_target\n\nanswer_for_target()\n"
INCLUDE = Path("/usr/include")
FOREIGN = "foreign.txt"
"""In OUT: the code of files that a project compiles for other GPUs alone."""


def main() -> None:
    """Parse, lay out what the build asks, build."""
    line = parser(__doc__)
    line.add_argument("--jit", default="", help="the module whose import compiles")
    options = line.parse_args()
    prepare(options)
    words = [f"--jit={options.jit}"] if options.jit else []
    argv = [sys.executable, "-P", "-m", "gb10.inside.compile.package_backend", "--out", str(options.out), *words]
    run = subprocess.run(argv, cwd=options.source, env={**os.environ, **environment(options)}, check=False)
    if run.returncode:  # it printed the reason: a traceback would push it out of sight
        raise SystemExit(f"the build of the package exited with {run.returncode}")
    write_measured(options.work, lambda made: options.name)


def parser(about: str | None) -> argparse.ArgumentParser:
    """The command line, without what one method alone has."""
    found = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("source", "site", "image", "cuda-home", "work", "out"):
        found.add_argument(f"--{name}", type=lambda text: Path(text).absolute(), required=True)
    for name in ("name", "arch", "cc", "cxx", "machine"):
        found.add_argument(f"--{name}", required=True)
    found.add_argument("-gencode", required=True, help="nvcc's flag for the arch, as nvcc spells it")
    found.add_argument("--jobs", type=int, required=True)
    return found


def prepare(options: argparse.Namespace) -> Path:
    """Lay out all that a build asks; returns a folder to install to."""
    prefix: Path = options.work / "prefix"
    prefix.mkdir(parents=True)
    options.out.mkdir(parents=True, exist_ok=True)
    lay_out_python(options)
    lay_out_compilers(options)
    write_build_files(options)
    return prefix


def configuration_name(machine: str) -> str:
    """The module with the values of ``sysconfig``, as Debian's Python for a machine names it."""
    return f"_sysconfigdata__{machine}-linux-gnu"


def lay_out_python(options: argparse.Namespace) -> None:
    """The target's headers where every build looks for them, its configuration, and the hook of each Python.

    Raises SystemExit when the image's base has no headers of Python.
    """
    machine, headers = f"{options.machine}-linux-gnu", options.image / "usr/include"
    if not (headers / PYTHON / "Python.h").is_file():
        raise refused(f"the image has no headers of {PYTHON}", "add python3-dev to base.packages.image in the recipe")
    own = INCLUDE / PYTHON
    if own.is_symlink() or own.exists():
        raise refused(f"{own} is there already", "leave python3-dev out of base.packages.build in the recipe")
    shutil.copytree(headers / PYTHON, own)
    # pyconfig.h includes this one by a path with the machine's name
    shutil.copytree(headers / machine / PYTHON, own / machine / PYTHON)
    hook = options.work / "python"
    hook.mkdir()
    (hook / "sitecustomize.py").write_text(HOOK, encoding="utf-8")
    values = f"{configuration_name(options.machine)}.py"
    shutil.copyfile(options.image / "usr/lib" / PYTHON / values, hook / values)


def lay_out_compilers(options: argparse.Namespace) -> None:
    """A CUDA toolkit and a folder of host compilers that go through package_compiler.py."""
    own = options.work / "cuda"
    real = options.work / "toolkit"
    real.mkdir()
    for part in ("bin", "nvvm"):  # nvcc looks for all else beside its real file: there the target's headers must lie
        shutil.copytree(options.cuda_home / part, real / part, symlinks=True)
    for part in ("include", "lib64"):
        (real / part).symlink_to((options.cuda_home / part).resolve())
    for name in (f"{options.machine}-linux", "sbsa-linux"):  # CMake takes the second for Arm servers
        folder = real / "targets" / name
        folder.mkdir(parents=True)
        (folder / "include").symlink_to(real / "include")
        (folder / "lib").symlink_to(real / "lib64")
    (own / "bin").mkdir(parents=True)
    for part in ("include", "lib64", "nvvm", "targets"):
        (own / part).symlink_to(real / part)
    for program in sorted((real / "bin").iterdir()):
        if program.name != "nvcc":
            (own / "bin" / program.name).symlink_to(program)
    config = options.work / "compilers.json"
    told = {
        "nvcc": str(real / "bin/nvcc"),
        "cc": options.cc,
        "c++": options.cxx,
        "arch": options.arch,
        "foreign": str(options.out / FOREIGN),
        "gencode": f"-gencode={options.gencode}",
        "torch": str(options.site / "torch/include"),
        "standard": least_standard(options.site),
        "environment": cache_settings(options.work, options.source, real, options.cxx),
    }
    config.write_text(json.dumps(told), encoding="utf-8")
    (options.work / "bin").mkdir()
    wrappers = {"nvcc": own / "bin/nvcc", "cc": options.work / "bin/cc", "c++": options.work / "bin/c++"}
    for kind, path in wrappers.items():
        path.write_text(f'#!/bin/sh\nexec {sys.executable} -IS {COMPILER} {config} {kind} "$@"\n', encoding="utf-8")
        path.chmod(0o755)


def least_standard(site: Path) -> int:
    """The C++ standard that torch's headers need, by their own words; 0 where they name none."""
    path = site / "torch/include/ATen/ATen.h"
    found = NEEDED.search(path.read_text(encoding="utf-8", errors="replace")) if path.is_file() else None
    return int(found[1]) if found else 0


def write_build_files(options: argparse.Namespace) -> None:
    """What CMake and Meson are told of compilers and machine."""
    cross = options.machine != os.uname().machine
    system = (("CMAKE_SYSTEM_NAME", "Linux"), ("CMAKE_SYSTEM_PROCESSOR", options.machine)) if cross else ()
    abi = f"cpython-{sys.version_info.major}{sys.version_info.minor}-{options.machine}-linux-gnu"
    values = (
        *system,
        *((f"{python}_SOABI", abi) for python in ("Python", "Python3")),  # CMake asks no Python of another machine
        ("CMAKE_C_COMPILER", options.work / "bin/cc"),
        ("CMAKE_CXX_COMPILER", options.work / "bin/c++"),
        ("CMAKE_CUDA_COMPILER", options.work / "cuda/bin/nvcc"),
        ("CUDAToolkit_ROOT", options.work / "cuda"),
        ("CMAKE_PREFIX_PATH", options.site / "torch/share/cmake"),
        ("CMAKE_SKIP_RPATH", "ON"),
    )
    lines = [f'set({name} "{value}")\n' for name, value in values]
    (options.work / "toolchain.cmake").write_text("".join(lines), encoding="utf-8")
    family = {"aarch64": "aarch64", "x86_64": "x86_64"}[options.machine]
    programs = {"c": options.work / "bin/cc", "cpp": options.work / "bin/c++", "cuda": options.work / "cuda/bin/nvcc"}
    machine = {"system": "linux", "cpu_family": family, "cpu": family, "endian": "little"}
    text = "[binaries]\n" + "".join(f"{name} = '{path}'\n" for name, path in programs.items())
    text += "[host_machine]\n" + "".join(f"{name} = '{value}'\n" for name, value in machine.items())
    (options.work / "machine.ini").write_text(text, encoding="utf-8")


def target(options: argparse.Namespace) -> dict[str, object]:
    """What build_python.py and package_backend.py read of the target."""
    return {
        "machine": options.machine,
        "capability": [int(part) for part in options.arch.rstrip("af").split(".")],
        "site": str(options.site),
        "meson": str(options.work / "machine.ini"),
    }


def environment(options: argparse.Namespace) -> dict[str, str]:
    """What the build and every program that it starts read."""
    toolkit, compilers = options.work / "cuda", options.work / "bin"
    return {
        "CC": str(compilers / "cc"),
        "CXX": str(compilers / "c++"),
        "CUDACXX": str(toolkit / "bin/nvcc"),
        "CUDA_HOME": str(toolkit),
        "CUDA_PATH": str(toolkit),
        "CUDAARCHS": options.arch.replace(".", ""),
        "CMAKE_BUILD_PARALLEL_LEVEL": str(options.jobs),
        "CMAKE_GENERATOR": "Ninja",
        "CMAKE_TOOLCHAIN_FILE": str(options.work / "toolchain.cmake"),
        "GB10_TARGET": json.dumps(target(options)),
        "HOME": str(options.work),
        "MAX_JOBS": str(options.jobs),
        "PATH": f"{toolkit}/bin:{os.environ['PATH']}",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        "PYTHONPATH": os.pathsep.join((str(options.work / "python"), os.environ["PYTHONPATH"])),
        "TORCH_CUDA_ARCH_LIST": options.arch,
        "TORCH_EXTENSIONS_DIR": str(options.work / "extensions"),
        "TORCH_NO_COMPILER_WRAPPER": "1",  # ccache comes by package_compiler.py
        "_PYTHON_HOST_PLATFORM": f"linux-{options.machine}",
        "_PYTHON_SYSCONFIGDATA_NAME": configuration_name(options.machine),
    }


if __name__ == "__main__":
    main()
