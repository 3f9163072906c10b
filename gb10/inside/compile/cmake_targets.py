"""Inside a build stage: CMake targets of an engine's own project, compiled for one arch, each where its wheel has it.

    cmake_targets.py --source DIR --targets A,B --wheel vllm --cutlass DIR --accepted v4.7.1 --nested qutlass PIN DIR
                     --torch DIR --python DIR --arch 12.1f --cuda-home DIR --cc COMPILER --cxx COMPILER
                     --machine aarch64 --work DIR --out DIR --jobs N

The project configures itself, as upstream builds it, with these handed in. CUTLASS: its release must be the one that
the project names, or ``--accepted`` must name that one. torch: the target's, by its CMake files; what the project asks
torch itself for is read from the target's sources, since nothing of the target runs. Of the nested projects, which it
fetches from git, those that ``--nested`` names (cmake_nested.py); the others are left out. ``all`` stands for every
target that is compiled then. Writes OUT/<path in the wheel>, OUT/manifest.json, OUT/reads.json and WORK/measured.json.
"""

import argparse
import ast
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from gb10.inside.compile import cmake_manifest, cmake_nested
from gb10.inside.compile.cmake_nested import Nested
from gb10.inside.compile.compilers import cache_settings, write_measured
from gb10.inside.compile.extension import defined_version

LAUNCHER = Path(__file__).with_name("launch.py")
PINNED = re.compile(r'(?m)^\s*set\(CUTLASS_REVISION "(\S+)"\)')
LINK = "-Wl,--strip-all -Wl,--build-id=none -Wl,--as-needed"


def main() -> None:
    """Parse, check, configure, compile, install, write the manifest."""
    options = parse()
    check_cutlass(options)
    options.settings, nested = cmake_nested.hand_in(options)
    lay_out_target(options)
    configure(options)
    targets, left_out = choose_targets(options, nested)
    for target in targets:
        cmake_manifest.codes_of(options, target)  # before anything is compiled: what it will hold must run on the arch
    cmake(options, "--build", str(options.work), "--parallel", str(options.jobs), "--target", *targets)
    for target in targets:
        cmake(options, "--install", str(options.work), "--component", target, "--prefix", str(options.out))
    cmake_manifest.write_manifest(options, targets, left_out)
    cmake_manifest.write_reads(options, targets)
    write_measured(options.work, cmake_manifest.target_of)


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("source", "cutlass", "torch", "python", "cuda-home", "work", "out"):
        parser.add_argument(f"--{name}", type=lambda text: Path(text).absolute(), required=True)
    for name in ("targets", "wheel", "arch", "cc", "cxx", "machine"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--accepted", default="", help="the release that the project names, where CUTLASS is another")
    parser.add_argument(
        "--nested",
        nargs=3,
        action="append",
        default=[],
        metavar=("NAME", "PIN", "DIR"),
        help="a nested project that lies in DIR, and its tag or commit",
    )
    parser.add_argument("--jobs", type=int, required=True)
    return parser.parse_args()


def choose_targets(options: argparse.Namespace, nested: list[Nested]) -> tuple[list[str], dict[str, str]]:
    """The targets that are compiled, and with ``all`` what is left out; this is printed with the reason.

    Raises SystemExit for a target that the project has not.
    """
    targets: list[str] = options.targets.split(",")
    known = known_targets(options.work)
    if targets == ["all"]:
        left_out: dict[str, str] = cmake_nested.left_out(sorted(known), nested, options)
        for name, why in left_out.items():
            print(f"left out: {name}: {why}", flush=True)
        return sorted(known), left_out
    absent = [name for name in targets if name not in known]
    if absent:
        handed = {name for name, _, _ in options.nested}
        raise SystemExit(
            f"the project has no target {', '.join(absent)}; known: {', '.join(sorted(known))}. Left out, because each "
            f"is a git repository of its own: {', '.join(one.name for one in nested if one.name not in handed)}"
            + "".join(cmake_nested.why_absent(name, nested, options) for name in absent)
        )
    return targets, {}


def check_cutlass(options: argparse.Namespace) -> None:
    """Raise SystemExit unless CUTLASS is the release that the project names, or the recipe says that it need not be.

    The project itself takes whatever lies in VLLM_CUTLASS_SRC_DIR, unless a patch of ours guards it. Where the recipe
    means another release, the project's own line is made to name that one.
    """
    path = options.source / "CMakeLists.txt"
    text = path.read_text(encoding="utf-8")
    found = PINNED.search(text)
    if found is None:
        raise SystemExit(f"{path} names no CUTLASS_REVISION as it is read here, so no release can be held against it")
    wanted = found[1]
    here = "v" + defined_version(options.cutlass / "include/cutlass/version.h", "CUTLASS")
    if wanted not in (here, options.accepted):
        raise SystemExit(
            f"the engine names CUTLASS {wanted}, the source brings {here}: take that release from git, or "
            f"say in the recipe that another one is meant: cutlass: {{instead-of: {wanted}, why: …}}"
        )
    print(f"CUTLASS {here}" + (f" instead of {wanted}, as the recipe allows" if here != wanted else ""), flush=True)
    path.write_text(f"{text[: found.start(1)]}{here}{text[found.end(1) :]}", encoding="utf-8")


def lay_out_target(options: argparse.Namespace) -> None:
    """The target's files where CMake looks for them, and a torch that answers what the project asks it."""
    for part in ("bin", "nvvm"):  # nvcc tells CMake where its real file lies: there are no headers of the target
        link = options.cuda_home / part
        if link.is_symlink():
            real = link.resolve()
            link.unlink()
            shutil.copytree(real, link, symlinks=True)
    for name in (f"{options.machine}-linux", "sbsa-linux"):  # CMake takes the second for Arm servers
        folder = options.cuda_home / "targets" / name
        folder.mkdir(parents=True, exist_ok=True)
        for link, to in (("include", "include"), ("lib", "lib64")):
            if not (folder / link).is_symlink():
                (folder / link).symlink_to(options.cuda_home / to)
    answers = {
        "torch/__init__.py": "from torch import utils as utils\n",
        "torch/utils/__init__.py": f"cmake_prefix_path = {str(options.torch / 'share/cmake')!r}\n",
        "torch/utils/cpp_extension.py": f"COMMON_NVCC_FLAGS = {nvcc_flags(options.torch)!r}\n",
    }
    for name, text in answers.items():
        path = torch_stand_in(options) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def torch_stand_in(options: argparse.Namespace) -> Path:
    """Where the torch lies that answers the project."""
    return Path(f"{options.work}-torch")


def nvcc_flags(torch: Path) -> list[str]:
    """COMMON_NVCC_FLAGS as the target's torch.utils.cpp_extension has it; raises SystemExit when it has none."""
    tree = ast.parse((torch / "utils/cpp_extension.py").read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.Assign) and [getattr(to, "id", "") for to in node.targets] == ["COMMON_NVCC_FLAGS"]:
            flags: list[str] = ast.literal_eval(node.value)
            return flags
    raise SystemExit("torch.utils.cpp_extension has no COMMON_NVCC_FLAGS: the project needs them")


def configure(options: argparse.Namespace) -> None:
    """CMake's first run. Release, SASS as the project chooses it for the arch, everything in measured and cached."""
    launcher = f"{sys.executable};-IS;{LAUNCHER}"
    values = {
        "CMAKE_BUILD_TYPE": "Release",
        "CMAKE_C_COMPILER": options.cc,
        "CMAKE_CXX_COMPILER": options.cxx,
        "CMAKE_CXX_COMPILER_LAUNCHER": launcher,
        "CMAKE_CUDA_COMPILER": f"{options.cuda_home}/bin/nvcc",
        "CMAKE_CUDA_COMPILER_LAUNCHER": launcher,
        "CMAKE_CUDA_FLAGS": "-objtemp",  # temporary names of nvcc would differ from run to run
        "CMAKE_CUDA_HOST_COMPILER": options.cxx,
        "CMAKE_MODULE_LINKER_FLAGS": LINK,
        "CMAKE_SKIP_RPATH": "ON",  # torch is loaded before its extensions
        "CUDAToolkit_ROOT": str(options.cuda_home),
        "CUDA_TOOLKIT_ROOT_DIR": str(options.cuda_home),
        "CUTLASS_INCLUDE_DIR": f"{options.cutlass}/include",
        "CUTLASS_TOOLS_UTIL_INCLUDE_DIR": f"{options.cutlass}/tools/util/include",
        "FETCHCONTENT_FULLY_DISCONNECTED": "ON",
        "Python_INCLUDE_DIR": str(python_headers(options)),
        "Python_SOSABI": "abi3",
        "Torch_DIR": f"{options.torch}/share/cmake/Torch",
        "VLLM_PYTHON_EXECUTABLE": sys.executable,
        "VLLM_TARGET_DEVICE": "cuda",
    }
    if options.machine != os.uname().machine:
        values |= {"CMAKE_SYSTEM_NAME": "Linux", "CMAKE_SYSTEM_PROCESSOR": options.machine}
    defined = (f"-D{name}={value}" for name, value in values.items())
    cmake(options, "-G", "Ninja", "-S", str(options.source), "-B", str(options.work), *defined)


def python_headers(options: argparse.Namespace) -> Path:
    """The target's Python headers; pyconfig.h includes one by a path with the machine's name, found beside them."""
    version = f"python{sysconfig.get_python_version()}"
    own = Path(f"{options.work}-python") / version
    shutil.copytree(options.python / version, own, dirs_exist_ok=True)
    machine = f"{options.machine}-linux-gnu"
    shutil.copytree(options.python / machine / version, own / machine / version, dirs_exist_ok=True)
    return own


def cmake(options: argparse.Namespace, *arguments: str) -> None:
    """Run CMake with what the project and the compile cache read; raises SystemExit when it fails."""
    own = cache_settings(options.work, options.source, options.cuda_home, options.cxx)
    own |= {
        "CUDA_TOOLKIT_ROOT": str(options.cuda_home),  # FindCUDA reads only this one for another machine
        "CUDA_HOME": str(options.cuda_home),
        "PATH": f"{options.cuda_home}/bin:{os.environ['PATH']}",
        "PYTHONPATH": str(torch_stand_in(options)),
        "TORCH_CUDA_ARCH_LIST": options.arch,
        "VLLM_CUTLASS_SRC_DIR": str(options.cutlass),
        **options.settings,
    }
    run = subprocess.run(["cmake", *arguments], env=os.environ | own, check=False)
    if run.returncode:  # it printed the reason: a traceback would push it out of sight
        raise SystemExit(f"cmake exited with {run.returncode}")


def known_targets(work: Path) -> set[str]:
    """The project's targets that are modules: ninja makes ``NAME.abi3.so`` of them."""
    listed = subprocess.run(
        ["ninja", "-C", str(work), "-t", "targets", "all"], check=True, capture_output=True, text=True
    )
    return set(re.findall(r"(?m)^([A-Za-z_]\w*)(?:\.[\w-]+)*\.so: ", listed.stdout))


if __name__ == "__main__":
    main()
