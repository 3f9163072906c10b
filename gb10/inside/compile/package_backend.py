"""Inside a build stage: the build backend that a project names (PEP 517) makes one wheel of it.

    package_backend.py --out DIR [--jit MODULE]

The working directory is the project. ``--jit``: the project is an unpacked wheel without a backend, and importing this
module of it compiles its extensions by ``torch.utils.cpp_extension.load``. They are put beside its packages, under the
name that it gives them.
"""

import argparse
import importlib
import importlib.metadata
import json
import os
import re
import shutil
import sys
import sysconfig
import tomllib
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
    backend.build_wheel(str(options.out), settings)


def build_system(project: Path) -> dict[str, Any]:
    """The table ``build-system``, filled as PEP 518 and PEP 517 say; raises SystemExit for no project."""
    if not project.exists() and not Path("setup.py").exists():
        raise SystemExit("the source has no pyproject.toml and no setup.py: name another source in the recipe")
    document = tomllib.loads(project.read_text(encoding="utf-8")) if project.exists() else {}
    table = document.get("build-system", {})
    return {"requires": ["setuptools"], "build-backend": LEGACY, **table}


def check_requirements(requires: list[str]) -> None:
    """Raise SystemExit for build requirements that the stage lacks, and for another torch than the image's."""
    found = [match for text in requires if (match := NAME.fullmatch(text)) and not match[3]]
    missing = [match[1] for match in found if match[1].lower() not in GIVEN and not installed(match[1])]
    if missing:
        raise SystemExit(
            f"the package is built with {', '.join(missing)}, which this stage lacks: name them in its tools in the "
            "recipe, then lock it"
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
        raise SystemExit(
            f"the package {verb} torch{wanted}, the image has torch {version}: take the release of the package that is "
            "for this torch"
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
        raise SystemExit(
            f"the package's build backend is {name}; known are setuptools, scikit-build-core and meson-python, and "
            "those that a project brings along (backend-path)"
        )
    module, _, attribute = name.partition(":")
    found: object = importlib.import_module(module)
    for part in filter(None, attribute.split(".")):
        found = getattr(found, part)
    return cast("Backend", found)


def compile_on_import(name: str, out: Path) -> None:
    """OUT/unpacked: the project's files and the extensions that the import of a module compiles."""
    extension = importlib.import_module("torch.utils.cpp_extension")
    built: list[tuple[str, Path]] = []

    def keep(module: str, folder: str, *_: object) -> ModuleType:
        built.append((module, Path(folder) / f"{module}.so"))
        return ModuleType(module)

    if not hasattr(extension, "_import_module_from_library"):
        raise SystemExit(
            "torch.utils.cpp_extension has no _import_module_from_library: jit is not known for this torch"
        )
    load_as_it_is = extension.load
    vars(extension)["_import_module_from_library"] = keep
    vars(extension)["load"] = lambda *words, **named: load_as_it_is(*words, **{**named, "verbose": True})
    sys.path.insert(0, str(Path.cwd()))
    parents = name.split(".")[:-1]
    for depth in range(1, len(parents) + 1):  # their own files import what only runs on the image
        parent = ModuleType(".".join(parents[:depth]))
        parent.__path__ = [str(Path(*parents[:depth]).resolve())]
        sys.modules[parent.__name__] = parent
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise SystemExit(f"{name} cannot be imported here: {error}") from error
    if not built:
        raise SystemExit(f"importing {name} compiled nothing: name the module that calls torch's load in jit")
    shutil.copytree(Path.cwd(), out / "unpacked", ignore=shutil.ignore_patterns("__pycache__"))
    for module, library in built:
        shutil.copyfile(library, out / "unpacked" / f"{module}{sysconfig.get_config_var('EXT_SUFFIX')}")


if __name__ == "__main__":
    main()
