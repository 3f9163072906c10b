"""Inside a build stage: the build backend that a project names (PEP 517) makes one wheel of it.

    package_backend.py --out DIR [--jit MODULE]

The working directory is the project. ``--jit``: the project is an unpacked wheel without a backend, and importing this
module of it compiles its extensions by ``torch.utils.cpp_extension.load``. They are put beside its packages, under the
name that it gives them.
"""

import argparse
import importlib
import importlib.abc
import importlib.machinery
import importlib.metadata
import json
import os
import re
import shutil
import sys
import sysconfig
import tomllib
import zipfile
from collections.abc import Sequence
from email.parser import Parser
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol, cast

LEGACY = "setuptools.build_meta:__legacy__"
BACKENDS = ("setuptools.build_meta", LEGACY, "scikit_build_core.build", "scikit_build_core.setuptools.build_meta")
MESON = "mesonpy"
GIVEN = ("torch", "ninja")
"""Never among a wheel's own tools: torch is the image's, ninja is in every stage."""
NAME = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[[^\]]*\])?\s*([^;]*?)\s*(;.*)?")


class Backend(Protocol):
    """The hook of PEP 517 that makes a wheel; it returns the file's name."""

    def build_wheel(self, wheel_directory: str, config_settings: dict[str, Any] | None) -> str: ...


def main() -> None:
    """Parse, check what the build needs, build."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--jit", default="")
    options = parser.parse_args()
    if options.jit:
        compile_on_import(options.jit, options.out)
        return
    system = build_system(Path("pyproject.toml"))
    check_requirements(system["requires"])
    sys.path[:0] = [str(Path(part).resolve()) for part in system.get("backend-path", [])]
    backend = load(system)
    file = json.loads(os.environ["GB10_TARGET"])["meson"]
    settings = {"setup-args": [f"--cross-file={file}"]} if system["build-backend"] == MESON else None
    made = backend.build_wheel(str(options.out), settings)
    check_requires(options.out / made)


def refused(what: str, hint: str = "") -> SystemExit:
    """An error that gb10 raises as its own: what is wrong, and what to do."""
    return SystemExit(f"package: {what}" + (f"\nhint: {hint}" if hint else ""))


def check_requires(wheel: Path) -> None:
    """Raise SystemExit when the wheel requires another torch than the image's."""
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        headers = Parser().parsestr(archive.read(name).decode(errors="replace"))
    for text in headers.get_all("Requires-Dist") or ():
        match = NAME.fullmatch(text)
        if match and match[1].lower() == "torch" and not match[3]:
            check_torch(match[2], "requires")


def build_system(project: Path) -> dict[str, Any]:
    """The table ``build-system``, filled as PEP 518 and PEP 517 say; raises SystemExit for no project."""
    if not project.exists() and not Path("setup.py").exists():
        raise refused("the source has no pyproject.toml and no setup.py", "name another source in the recipe")
    document = tomllib.loads(project.read_text(encoding="utf-8")) if project.exists() else {}
    table = document.get("build-system", {})
    return {"requires": ["setuptools"], "build-backend": LEGACY, **table}


def check_requirements(requires: list[str]) -> None:
    """Raise SystemExit for build requirements that the stage lacks, and for another torch than the image's."""
    found = [match for text in requires if (match := NAME.fullmatch(text)) and not match[3]]
    missing = [match[1] for match in found if match[1].lower() not in GIVEN and not installed(match[1])]
    if missing:
        raise refused(
            f"the package is built with {', '.join(missing)}, which this stage lacks",
            "name them in its tools in the recipe, then lock it",
        )
    for match in found:
        if match[1].lower() == "torch":
            check_torch(match[2], "is built with")


def check_torch(wanted: str, verb: str) -> None:
    """Raise SystemExit when the image's torch is not what a requirement allows."""
    if not wanted:
        return
    specifiers = importlib.import_module("packaging.specifiers")
    version = importlib.import_module("torch.version").__version__
    if not specifiers.SpecifierSet(wanted.strip("()")).contains(version, prereleases=True):
        raise refused(
            f"the package {verb} torch{wanted}, the image has torch {version}",
            "take the release of the package that is for this torch",
        )


def installed(name: str) -> bool:
    """Whether this Python has a distribution of that name."""
    try:
        importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def load(system: dict[str, Any]) -> Backend:
    """The backend object; raises SystemExit for one that gb10 cannot make compile for another machine."""
    name: str = system["build-backend"]
    if name not in (*BACKENDS, MESON) and not system.get("backend-path"):
        raise refused(
            f"the package's build backend is {name}, which is not known to compile for another machine",
            "known are setuptools, scikit-build-core, meson-python, and those that a project brings along "
            "(backend-path)\na package without code to compile is a plain wheel: put it under requirements",
        )
    module, _, attribute = name.partition(":")
    try:
        found: object = importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise refused(
            f"the package's build backend {name} cannot be imported: {error}",
            "name its project in the tools of the package in the recipe, then lock it",
        ) from error
    for part in filter(None, attribute.split(".")):
        found = getattr(found, part)
    return cast("Backend", found)


class BarePackages(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """The packages of a project without their own code: that imports what runs on the image alone."""

    def __init__(self, root: Path, module: str) -> None:
        self.root, self.module = root, module

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The spec of a package of the project; None for its modules, and for the one that compiles."""
        folder = self.root.joinpath(*name.split("."))
        if name == self.module or name.partition(".")[0] != self.module.partition(".")[0] or not folder.is_dir():
            return None
        spec = importlib.machinery.ModuleSpec(name, self, is_package=True)
        spec.submodule_search_locations = [str(folder)]
        return spec

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        """An empty module."""
        return ModuleType(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing of it runs."""


def compile_on_import(name: str, out: Path) -> None:
    """OUT/unpacked: the project's files and the extensions that the import of a module compiles."""
    extension = importlib.import_module("torch.utils.cpp_extension")
    built: list[tuple[str, Path]] = []

    def keep(module: str, folder: str, *_: object) -> ModuleType:
        built.append((module, Path(folder) / f"{module}.so"))
        return ModuleType(module)

    if not hasattr(extension, "_import_module_from_library"):
        raise refused("torch.utils.cpp_extension has no _import_module_from_library: jit is not known for this torch")
    load_as_it_is = extension.load
    vars(extension)["_import_module_from_library"] = keep
    vars(extension)["load"] = lambda *words, **named: load_as_it_is(*words, **{**named, "verbose": True})
    sys.path.insert(0, str(Path.cwd()))
    sys.meta_path.insert(0, BarePackages(Path.cwd(), name))
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise refused(
            f"{name} cannot be imported here: {error}",
            "name the project of that module in the tools of the package in the recipe, then lock it",
        ) from error
    if not built:
        raise refused(f"importing {name} compiled nothing", "jit: the module that calls torch's load")
    shutil.copytree(Path.cwd(), out / "unpacked", ignore=shutil.ignore_patterns("__pycache__"))
    for module, library in built:
        shutil.copyfile(library, out / "unpacked" / f"{module}{sysconfig.get_config_var('EXT_SUFFIX')}")


if __name__ == "__main__":
    main()
