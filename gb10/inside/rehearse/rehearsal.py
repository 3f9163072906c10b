"""Inside a build stage: run the engine's rehearsal, and write the kernels that it compiled as layers.

    rehearsal.py --image ROOT --scripts DIR --request FILE --site PATH --cxx COMPILER --out DIR --epoch SECONDS

ROOT is the image's root file system; nothing of it is run. Its Python packages are linked into this stage, beside
packages of this machine for what is compiled. DIR has our scripts, as in the package gb10. OUT gets a folder for each
layer.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from gb10.inside.compile import compilers
from gb10.inside.rehearse.compiler_text import KeyUnknownError, host_text, toolkit_text
from gb10.inside.rehearse.triton_key import image_answers
from gb10.inside.scan.elf import Elf
from gb10.inside.scan.sealed import FOLDERS, seal

WORK = Path("/tmp/rehearsal")  # noqa: S108 - of the stage, and dropped with it
CACHES = Path("/") / FOLDERS
TRITON = "triton"
TOOLKIT = "nvidia/cu13"
MODULES = "modules"
B12X = "b12x"
MANAGER = "gb10_caches.py"
PLUGIN = "gb10_b12x.py"
LAUNCHER = "gb10/inside/compile/launch.py"
SLOTS = "gb10/inside/compile/compile_slots.py"
REHEARSE = "gb10.image.explain.child.rehearse"
REPORT = "report.json"
RECORDED = ("METADATA", "RECORD", "entry_points.txt")
Report = dict[str, object]


def main() -> None:
    """Link the packages, run the rehearsal, write the layers."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("image", "scripts", "request", "site", "out"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--cxx", required=True)
    parser.add_argument("--epoch", type=int, required=True)
    options = parser.parse_args()
    request = json.loads(options.request.read_text(encoding="utf-8"))
    WORK.mkdir(parents=True)
    image, own = options.image / options.site.relative_to("/"), options.site
    link_packages(image, own, request["linked"])
    environment = engine_environment(request["environment"], own)
    answers: dict[str, object] = {**image_answers(image / TRITON, own / TRITON), "site": str(image)}
    if MODULES in request["caches"]:
        answers |= toolchain(options, image)
        environment |= slots_environment(options.scripts)
        if "home" in answers:
            environment |= cache_environment(Path(str(answers["home"])), options.cxx)
    request |= {"image": answers, "environment": environment, "model": str(WORK)}
    (WORK / "config.json").write_text(json.dumps(request["config"]), encoding="utf-8")
    (WORK / "request.json").write_text(json.dumps(request), encoding="utf-8")
    report = run_rehearsal(options.scripts, environment)
    for name in request["caches"]:
        write_layer(options.out / f"cache-{name}", name)
    if any((CACHES / B12X).glob("*/*.o")):
        write_plugin(options.out / f"cache-{B12X}" / own.relative_to("/"), options.scripts / PLUGIN)
    write_report(options.out / f"cache-{TRITON}", report, options.scripts / MANAGER, own)
    clamp(options.out, options.epoch)


def engine_environment(given: dict[str, str], own: Path) -> dict[str, str]:
    """The environment of the engine's process."""
    libraries = [write_stubs(own), *map(str, sorted(own.glob("nvidia/cu*/lib")))]
    return {
        **given,
        "PATH": os.environ["PATH"],
        "HOME": str(WORK),
        "XDG_CACHE_HOME": str(WORK / "cache"),
        "TRITON_CACHE_DIR": str(CACHES / TRITON),
        "B12X_COMPILE_CACHE_DIR": str(CACHES / B12X),  # in no key of b12x
        "LD_LIBRARY_PATH": ":".join(libraries),
        "PYTHONHASHSEED": "0",
        "GB10_LAUNCH_LOG": str(WORK / "compilers.jsonl"),
    }


def toolchain(options: argparse.Namespace, image: Path) -> dict[str, object]:
    """The compilers of an engine's own modules, and what the image's compilers print; or why that is ``unknown``."""
    try:
        (host,) = (options.image / "usr/bin").glob("*-linux-gnu-g++-*")
        printed = {
            "nvcc": toolkit_text(image / TOOLKIT / "bin/nvcc", options.site / TOOLKIT / "bin/nvcc"),
            "c++": host_text(host, "c++", options.cxx),
        }
    except (KeyUnknownError, OSError, ValueError, subprocess.CalledProcessError) as error:
        return {"unknown": f"what the image's compilers print is not known: {error}"[:300]}
    return {
        "root": str(options.image),
        "site": str(image),
        "toolkit": str(image / TOOLKIT),
        "home": str(cuda_home(options.site / TOOLKIT, image / TOOLKIT)),
        "cxx": options.cxx,
        "launch": str(options.scripts / LAUNCHER),
        "printed": printed,
    }


def slots_environment(scripts: Path) -> dict[str, str]:
    """The variable by which launch.py waits for the memory of a compiler, as in each compile stage."""
    given = {"open": WORK / "slots", "pool": WORK / "pool", "peaks": scripts / "peaks.json", "jobs": os.cpu_count()}
    options = [f"--{name}={value}" for name, value in given.items()]
    subprocess.run([sys.executable, "-IS", scripts / SLOTS, *options], check=True)
    return {"GB10_CCACHE": str(WORK / "slots/ccache")}


def cache_environment(home: Path, cxx: str) -> dict[str, str]:
    """The variables of ccache, which keeps modules for the next model that has the same; REBUILD compiles all again.

    ``CCACHE_BASEDIR`` stays unset: SGLang reads the paths that its compiler lists, so they must not become relative.
    """
    try:
        settings = compilers.cache_settings(WORK, WORK, home, cxx)
    except SystemExit as error:
        print(f"without a compile cache: {error}", flush=True)
        return {"CCACHE_DISABLE": "1"}
    own = {name: value for name, value in settings.items() if name.startswith("CCACHE_") and name != "CCACHE_BASEDIR"}
    anew = {"CCACHE_RECACHE": "1"} if os.environ.get("REBUILD") else {}
    return {**own, **anew, "CCACHE_DIR": "/ccache", "CCACHE_MAXSIZE": "5G"}


def cuda_home(own: Path, image: Path) -> Path:
    """A CUDA_HOME of this machine's nvcc and the image's headers: nvcc looks for them in ``bin/../include``."""
    home = WORK / "cuda"
    (home / "bin").mkdir(parents=True)
    for program in (own / "bin").iterdir():
        (home / "bin" / program.name).symlink_to(program)
    (home / "nvvm").symlink_to(own / "nvvm")
    (home / "include").symlink_to(image / "include")
    return home


def link_packages(image: Path, own: Path, names: Iterable[str]) -> None:
    """Link the image's packages to the paths that they have in the image: compiled code names its source file."""
    for name in names:
        for path in sorted([*image.glob(name), *image.glob(f"{name}-*.dist-info")]):
            if not (own / path.name).exists():
                (own / path.name).symlink_to(path)


def write_stubs(site: Path) -> str:
    """Libraries without symbols, for those of CUDA that torch loads and never calls here. Returns their folder."""
    folder = WORK / "stubs"
    folder.mkdir()
    torch = [path for path in sorted((site / "torch/lib").glob("*.so*")) if path.is_file()]
    present = {path.name for path in (*torch, *site.glob("nvidia/cu*/lib/*"))}
    needed = {name for path in torch for name in Elf(path.read_bytes()).dynamic()[0]} - present
    for name in sorted(name for name in needed if name.startswith(("libcu", "libnccl", "libnv"))):
        argv = ["gcc", "-shared", "-nostdlib", f"-Wl,-soname,{name}", "-x", "c", "/dev/null", "-o", str(folder / name)]
        subprocess.run(argv, check=True)
    return str(folder)


def run_rehearsal(scripts: Path, environment: dict[str, str]) -> Report:
    """Run the engine in a process of its own; its report. The output goes to the log of this stage."""
    argv = [sys.executable, "-B", "-P", "-m", REHEARSE, str(WORK / "request.json"), str(WORK / REPORT)]
    environment = {**environment, "PYTHONPATH": str(scripts)}
    ended = subprocess.run(argv, check=False, env=environment).returncode
    if ended == 0:
        report: Report = json.loads((WORK / REPORT).read_text(encoding="utf-8"))
        return report
    shutil.rmtree(CACHES, ignore_errors=True)  # some kernels may be written in part
    stopped = f"its process ended with {ended}; the log of the build has its last words"
    return {"stopped": stopped, "made": [], "left": [], "flashinfer": [], "zeroed": {}}


def write_layer(out: Path, name: str) -> None:
    """Copy one cache to its place in the image, and list its files with their hashes."""
    target = out / FOLDERS / name
    target.mkdir(parents=True)
    if (CACHES / name).is_dir():
        unfinished = shutil.ignore_patterns("lock", "*.lock", "tmp.*", "*.tmp")
        shutil.copytree(CACHES / name, target, dirs_exist_ok=True, ignore=unfinished)
    for path in target.rglob("*"):  # b12x keeps its files for their owner alone, and the image may run as another user
        path.chmod(0o755 if path.is_dir() else 0o644)
    seal(target)


def write_plugin(site: Path, module: Path) -> None:
    """Install the plugin by which b12x looks in the image first; vLLM finds it by the entry point of a distribution."""
    info = site / f"{module.stem}-1.dist-info"
    info.mkdir(parents=True)
    shutil.copy(module, site / module.name)
    name = module.stem.replace("_", "-")
    texts = {
        "METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n",
        "entry_points.txt": f"[vllm.general_plugins]\n{module.stem} = {module.stem}:register\n",
        "RECORD": "".join(f"{path},,\n" for path in (module.name, *(f"{info.name}/{one}" for one in RECORDED))),
    }
    for file, text in texts.items():
        (info / file).write_text(text, encoding="utf-8")


def clamp(root: Path, epoch: int) -> None:
    """Every time stamp becomes the lock's date."""
    for folder, names, files in os.walk(root):
        for name in (*names, *files):
            os.utime(Path(folder) / name, (epoch, epoch), follow_symlinks=False)
    os.utime(root, (epoch, epoch))


def write_report(out: Path, report: Report, manager: Path, site: Path) -> None:
    """Write the report beside Triton's kernels, install Triton's cache manager, print the counts."""
    (out / FOLDERS / REPORT).write_text(json.dumps(report, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    (out / site.relative_to("/")).mkdir(parents=True)
    shutil.copy(manager, out / site.relative_to("/") / manager.name)
    counts = {name: len(found) for name, found in report.items() if isinstance(found, list)}
    print(f"kernels compiled: {counts['made']}, left: {counts['left']}", flush=True)


if __name__ == "__main__":
    main()
