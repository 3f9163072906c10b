"""Inside a build stage: the build machine's Python answers for the image's machine, and its torch for the image's.

Each Python of a package's build imports this first (package.py). ``os.uname`` names the target's machine. ``torch`` is
the image's own, of which no library is loaded: its Python files are found where its wheel has them, as
``torch.utils.cpp_extension``, which finds headers and libraries beside itself. What starts torch's libraries has a
stand-in, with what builds ask of it; to them, the GPU that they compile for is there. Everything else of torch is an
error that says so.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

EXPLAINED = "{} is asked while the package is built, and a build stage has the image's torch as files alone"


class NotThereError(AttributeError):
    """A part of torch that a build asks, and that only a running torch has."""


def answer_for_target() -> None:
    """Patch this interpreter; the target is in GB10_TARGET."""
    target = json.loads(os.environ["GB10_TARGET"])
    here = os.uname()
    there = os.uname_result((*here[:4], target["machine"]))
    os.uname = lambda: there
    site = Path(target["site"])
    sys.path.append(str(site))  # last: what the build machine's Python has of a project comes first
    if (site / "torch").is_dir():
        sys.meta_path.insert(0, TorchFinder(site / "torch", tuple(target["capability"])))


def stand_ins(torch: Path, capability: tuple[int, int]) -> dict[str, Mapping[str, Any]]:
    """By module: what a build may ask of it. A module with ``__path__`` has more modules there, the wheel's own."""
    major, minor = capability

    def file_path(*parts: str) -> str:
        return str(torch.parent.joinpath(*parts))

    return {
        "torch": {
            "__path__": [str(torch)],
            "__file__": str(torch / "__init__.py"),
            "compiled_with_cxx11_abi": lambda: True,
        },
        "torch._C": {"_GLIBCXX_USE_CXX11_ABI": True},
        "torch._utils_internal": {"get_file_path": file_path},
        "torch.backends": {"__path__": []},
        "torch.backends.cuda": {"is_built": lambda: True},
        "torch.backends.mps": {"is_built": lambda: False, "is_available": lambda: False},
        "torch.cuda": {
            "_is_compiled": lambda: True,
            "current_device": lambda: 0,
            "device_count": lambda: 1,
            "get_arch_list": lambda: [f"sm_{major}{minor}"],
            "get_device_capability": lambda *_: capability,
            "get_device_properties": lambda *_: SimpleNamespace(major=major, minor=minor),
            "is_available": lambda: True,
        },
        "torch.distributed": {"is_available": lambda: False},
        "torch.monitor": {"_WaitCounter": None},
        "torch.utils": {
            "__path__": [str(torch / "utils")],
            "__file__": str(torch / "utils/__init__.py"),
            "cmake_prefix_path": str(torch / "share/cmake"),
        },
        "torch.utils._filelock": {"FileLock": NoLock},
        "torch.xpu": {"_is_compiled": lambda: False, "is_available": lambda: False},
    }


class NoLock:
    """torch.utils.cpp_extension locks a folder that only one build uses here."""

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def __enter__(self) -> "NoLock":
        return self

    def __exit__(self, *_: object) -> None:
        pass


SUBMODULES = ("_C", "backends", "cuda", "distributed", "utils", "version", "xpu")
"""What ``import torch`` alone gives."""


class TorchFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the stand-ins; other modules of torch are found by their packages' paths."""

    def __init__(self, torch: Path, capability: tuple[int, int]) -> None:
        self.known = stand_ins(torch, capability)

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The spec of a stand-in, None for all else."""
        if name not in self.known:
            return None
        return importlib.util.spec_from_loader(name, self, is_package="__path__" in self.known[name])

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        """An empty module."""
        return ModuleType(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Give it what a build may ask."""
        vars(module).update(self.known[module.__name__])
        vars(module)["__getattr__"] = self.missing(module.__name__)

    def missing(self, module: str) -> Callable[[str], object]:
        """What an unknown name of a module gives: a submodule of torch itself, else an error."""

        def get(name: str) -> object:
            if module == "torch" and name == "__version__":
                return importlib.import_module("torch.torch_version").__version__
            if f"{module}.{name}" in self.known or (module == "torch" and name in SUBMODULES):
                return importlib.import_module(f"{module}.{name}")
            raise NotThereError(EXPLAINED.format(f"{module}.{name}"))

        return get
