"""Inside a build stage: FlashInfer's own AOT machinery over a named kernel set, for one arch.

    aot.py --source SDIST --kernels SET.json --arch 12.1f --cuda-home DIR --cxx COMPILER --work DIR --out DIR --jobs N

``flashinfer.aot`` sets its directories, runs ninja and copies the results; this driver hands it our list of modules
instead of its list of all. Writes OUT/<module>/<module>.so, OUT/manifest.json (what each must hold) and
WORK/measured.json (CPU seconds and peak RSS per module). PYTHONPATH must offer torch (ours: stub_torch), tvm_ffi,
jinja2, filelock, packaging. GB10_CCACHE names a ccache to use.
"""

import argparse
import contextlib
import hashlib
import importlib
import io
import json
import os
import shutil
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from gb10.inside.compile.compilers import cache_settings, write_measured

LAUNCHER = Path(__file__).with_name("launch.py")
TORCH = Path(__file__).with_name("stub_torch")
# flashinfer.compilation_context compiles no plain 12.x target.
PLAIN = {"12.0": "12.0f", "12.1": "12.1a"}
WHOLE = "flashinfer.aot:gen_all_modules"
"""All that FlashInfer compiles ahead of time for an arch, for its own choice of data types and head sizes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Module:
    """One kernel module, or several of a group: how FlashInfer makes them, and the GPU code that each must hold."""

    name: str
    factory: str
    arguments: tuple[Any, ...]
    cubins: tuple[str, ...]
    group: bool = False


class Spec(Protocol):
    """What FlashInfer makes of a module: a ninja file's worth of sources under one name."""

    name: str
    sources: list[Path]


@dataclass(frozen=True, kw_only=True, slots=True)
class Made:
    """A spec, and the GPU code that it must hold: none when it has no unit of GPU code."""

    spec: Spec
    declared: tuple[str, ...]

    @property
    def cubins(self) -> tuple[str, ...]:
        """The GPU code that the manifest declares."""
        return self.declared if any(Path(source).suffix == ".cu" for source in self.spec.sources) else ()


def main() -> None:
    """Parse, select, compile, write the manifest."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("source", "kernels", "cuda-home", "work", "out"):
        parser.add_argument(f"--{name}", type=lambda text: Path(text).absolute(), required=True)
    parser.add_argument("--arch", required=True)
    parser.add_argument("--cxx", required=True, help="the target's C++ compiler")
    parser.add_argument("--jobs", type=int, required=True)
    options = parser.parse_args()
    kernels = json.loads(options.kernels.read_text(encoding="utf-8"))
    modules = select(kernels, options.arch)
    options.work.mkdir(parents=True, exist_ok=True)
    os.environ.update(environment(options))
    write_manifest(kernels, options, compile_modules(kernels, modules, options))
    write_measured(options.work)


def select(kernels: dict[str, Any], arch: str) -> tuple[Module, ...]:
    """The modules and groups for this arch's capability; ``cubins`` defaults to the compiled arch."""
    capability = arch.rstrip("af")
    compiled = PLAIN.get(arch, arch)
    return tuple(
        Module(
            name=entry["name"],
            factory=entry["factory"],
            arguments=tuple(entry.get("arguments", ())),
            cubins=tuple(entry.get("cubins", (compiled,))),
            group=part == "group",
        )
        for part in ("module", "group")
        for entry in kernels.get(part, ())
        if capability in entry.get("capabilities", (capability,))
    )


def environment(options: argparse.Namespace) -> dict[str, str]:
    """What FlashInfer's generator, its compilers and their cache read."""
    return {
        "FLASHINFER_CUDA_ARCH_LIST": options.arch,
        "FLASHINFER_WORKSPACE_BASE": str(options.work),
        "CUDA_HOME": str(options.cuda_home),
        "CC": options.cxx,  # nvcc -ccbin
        "CXX": options.cxx,
        "MAX_JOBS": str(options.jobs),
        "FLASHINFER_NVCC_LAUNCHER": f"{sys.executable} -IS {LAUNCHER}",
        "FLASHINFER_CXX_LAUNCHER": f"{sys.executable} -IS {LAUNCHER}",
        # Temporary names of nvcc would differ from run to run and land in symbol tables.
        # One unit, cub_topk.cu, takes half of a set: ptxas may use two cores for it, and gives the same bytes each
        # time. nvcc's own --split-compile also splits cicc, whose result then differs from run to run.
        "FLASHINFER_EXTRA_CUDAFLAGS": "-objtemp -Xptxas=--split-compile=2",
        "FLASHINFER_EXTRA_LDFLAGS": "-Wl,--strip-all",
        **cache_settings(options.work, options.source, options.cuda_home, options.cxx),
    }


def check_version(kernels: dict[str, Any], version: str) -> None:
    """Raise SystemExit when the kernel set was written for another release: names and factories change with them."""
    if not isinstance(kernels["flashinfer"], list):
        raise SystemExit(f'the kernel set {kernels["name"]} names one release: write flashinfer = ["…", "…"]')
    if version not in kernels["flashinfer"]:
        raise SystemExit(
            f"the kernel set {kernels['name']} is for FlashInfer {', '.join(kernels['flashinfer'])}, the source is "
            f"{version}: hold the set against the new release, then add it"
        )


def source_version() -> str:
    """The version in the imported source tree."""
    return str(importlib.import_module("flashinfer.version").__version__)


def compile_modules(
    kernels: dict[str, Any], modules: tuple[Module, ...], options: argparse.Namespace
) -> dict[str, Made]:
    """What FlashInfer made of the modules, by name, compiled and copied to OUT by FlashInfer itself."""
    aot: Any = import_aot(options.source)
    check_version(kernels, source_version())
    leave_out(kernels.get("without", {}))
    # Before gen_all_modules is replaced: a module may name it as its factory.
    factories = {module.name: factory_of(module) for module in modules}
    made: dict[str, Made] = {}

    def gen_ours(*own: object) -> list[Spec]:
        for module in modules:
            for spec in specs_of(module, factories[module.name], own):
                made.setdefault(spec.name, Made(spec=spec, declared=module.cubins))
        return [one.spec for one in made.values()]

    aot.gen_all_modules = gen_ours
    with contextlib.redirect_stdout(io.StringIO()):  # its summary is of its own list; ninja writes past this
        try:
            aot.compile_and_package_modules(
                options.out, options.work, options.source, verbose=True, skip_prebuilt=False
            )
        except RuntimeError as error:  # ninja printed the reason: a traceback would push it out of sight
            raise SystemExit(f"flashinfer.aot: {error}") from None
    return made


def import_aot(source: Path) -> types.ModuleType:
    """``flashinfer.aot`` over the source tree, and its vendored CCCL, which it leaves to an editable install.

    ``flashinfer/__init__`` would import the whole run time, so the package stands without it.
    """
    importlib.import_module("tvm_ffi")  # before our torch, which is no torch to tvm_ffi
    sys.path.insert(0, str(TORCH))
    package = types.ModuleType("flashinfer")
    package.__path__ = [str(source / "flashinfer")]
    sys.modules["flashinfer"] = package
    env: Any = importlib.import_module("flashinfer.jit.env")
    cccl = source / "3rdparty/cccl"
    env.CCCL_INCLUDE_DIRS = [cccl / "cub", cccl / "libcudacxx/include", cccl / "thrust"]
    return importlib.import_module("flashinfer.aot")


def leave_out(factories: dict[str, str]) -> None:
    """Make FlashInfer's own list pass over some factories; each is printed with its reason."""
    for factory, why in factories.items():
        place, _, function = factory.partition(":")
        module = importlib.import_module(place)
        getattr(module, function)  # one that is not there is an error: it would be compiled under another name
        print(f"left out: {function}: {why}", flush=True)
        setattr(module, function, lambda: types.SimpleNamespace(name=""))


def factory_of(module: Module) -> Callable[..., Any]:
    """The function of FlashInfer's that makes a module or a group."""
    place, _, function = module.factory.partition(":")
    found: Callable[..., Any] = getattr(importlib.import_module(place), function)
    return found


def specs_of(module: Module, make: Callable[..., Any], own: tuple[object, ...]) -> Iterator[Spec]:
    """Call the factory; a module's name is the one looked up at run time, so it must be the one we declare.

    Names of a group are FlashInfer's own: they say the data types and sizes that the modules are for. ``own`` are the
    arguments of FlashInfer's own list, for the group that is that list.
    """
    made: Any = make(*(own if module.factory == WHOLE else map(argument, module.arguments)))
    if module.group:
        yield from (one for one in (made if isinstance(made, Iterable) else (made,)) if one.name)
    elif made.name != module.name:
        raise SystemExit(f"{module.factory} makes {made.name}, the kernel set names it {module.name}")
    else:
        yield made


def argument(value: object) -> object:
    """A factory's argument as the data file writes it: ``torch.bfloat16`` is the dtype."""
    if isinstance(value, str) and value.startswith("torch."):
        return getattr(importlib.import_module("torch"), value.removeprefix("torch."))
    return value


def write_manifest(kernels: dict[str, Any], options: argparse.Namespace, made: dict[str, Made]) -> None:
    """OUT/manifest.json: the same inputs give the same bytes."""
    modules = {
        name: {
            "cubins": one.cubins,
            "units": len(one.spec.sources),
            "sha256": hashlib.sha256((options.out / name / f"{name}.so").read_bytes()).hexdigest(),
        }
        for name, one in made.items()
    }
    manifest = {"flashinfer": source_version(), "arch": options.arch, "modules": modules}
    (options.out / "manifest.json").write_text(json.dumps(manifest, indent=2, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    if shutil.which("ninja") is None:
        raise SystemExit("ninja is not on PATH")
    main()
