"""The engine's Python files and what they import, unpacked once into the store; nothing of it is installed."""

import json
import platform
import shutil
import tomllib
import zipfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final, Literal

from pydantic import Field, ValidationError

from gb10.core.fields import Model
from gb10.core.files import Artifact, digest
from gb10.core.host import Host
from gb10.core.store import note_use
from gb10.errors import FetchError, LockStaleError, UsageError
from gb10.image.explain.operators import schemas
from gb10.image.recipe.locked import LockedWheel
from gb10.sources.index.client import fetch_all

FOLDER = "recipes/explain"


class Packages(Model):
    """The lock of the packages that the engine's Python needs, for one interpreter and machine."""

    version: Literal[1]
    engine: str
    python: str
    machine: str
    wheels: tuple[LockedWheel, ...] = Field(min_length=1)


class CodePlace(Model):
    """Where the code of kernels lies: a pattern of paths in an image, or who compiles it at the first request."""

    kernel: str
    library: str = ""
    jit: str = ""


class EngineFacts(Model):
    """The answers in place of a GB10 and of compiled modules, for one release of an engine."""

    engine: str
    script: str
    """The module of ``gb10/image/explain/child`` that knows this engine: ``vllm.choose``."""
    capability: tuple[int, int]
    elsewhere: tuple[tuple[int, int], ...] = ()
    """Capabilities of other GPUs: what the engine refuses there for the same reason is not about this one."""
    cuda: str
    from_image: tuple[str, ...] = Field(min_length=1)
    """Packages whose sources come from the image's lock, the engine first."""
    sources: tuple[str, ...] = ()
    """Files of them that are read beside Python, by pattern."""
    twins: tuple[str, ...] = ()
    """Packages of this machine that the image's lock has, too; the others are in the lock beside the facts."""
    paths: tuple[str, ...] = ()
    """Folders of packages that Python searches, too."""
    compiled: tuple[str, ...]
    """Compiled modules that the engine imports."""
    operators: dict[str, tuple[str, ...]]
    """Compiled modules that register operators, by path without ending; the operators' namespaces."""
    operators_here: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """The same, for explain alone: a rehearsal has none of them."""
    stand_ins: tuple[str, ...]
    late: tuple[str, ...] = ()
    """Stand-ins that FlashInfer is not to meet: it would take them for the package."""
    versions: dict[str, str] = Field(default_factory=dict)
    """Stand-ins that have a version."""
    present: tuple[str, ...]
    answers: dict[str, bool | int]
    environment: dict[str, str]
    options: dict[str, str]
    """The engine's argument for an option of explain."""
    flags: dict[str, tuple[str, ...]]
    """The engine's options that choose among the kernels of a kind of layer."""
    without_code: dict[str, str] = Field(default_factory=dict)
    """Options, with a value, that the engine takes and that no 12.x can run in the image; and why."""
    patches: dict[str, str] = Field(default_factory=dict)
    """The patch of ours that decides, by the kind of layer."""
    about: dict[str, str] = Field(default_factory=dict)
    """What a reader has to know of a kernel's name."""
    place: tuple[CodePlace, ...]

    @property
    def registered(self) -> dict[str, tuple[str, ...]]:
        """Every module that registers operators, with the operators' namespaces."""
        return {**self.operators, **self.operators_here}

    def place_of(self, kernel: str) -> CodePlace | None:
        """The first place whose pattern fits a kernel's name; None when nobody wrote one down."""
        return next((place for place in self.place if fnmatchcase(kernel, place.kernel)), None)


def read_facts(root: Path, engine: str) -> tuple[EngineFacts, Packages]:
    """The two files of an engine; raises UsageError for an engine without them, LockStaleError for invalid ones."""
    facts, lock = root / FOLDER / f"{engine}.toml", root / FOLDER / f"{engine}.lock.json"
    if not facts.is_file() or not lock.is_file():
        known = ", ".join(sorted(path.stem for path in (root / FOLDER).glob("*.toml")))
        raise UsageError(f"explain does not know the engine {engine!r}", hint=f"it knows {known}")
    try:
        answers = EngineFacts.model_validate(tomllib.loads(facts.read_text(encoding="utf-8")), strict=False)
        packages = Packages.model_validate_json(lock.read_bytes())
    except (ValidationError, ValueError) as error:
        raise LockStaleError(f"{FOLDER}/{engine} is not valid", where=str(error)[:400]) from error
    return answers, packages


SITE: Final = "site"
OPERATORS: Final = "operators.json"
ORIGINALS: Final = "upstream"
"""The files that patches change, as upstream has them."""
SOURCES: Final = ("*.py", "*.json", "*METADATA", "*RECORD", "*entry_points.txt")
"""Patterns of what is taken from a wheel of the image: no library, no kernel source."""
LEFT: Final = ("torch/include/", "torch/test/")
LARGEST: Final = 1 << 30


@dataclass(frozen=True, kw_only=True, slots=True)
class Parts:
    """What is unpacked: wheels for this machine whole, sources of wheels of the image, their modules' operators."""

    whole: tuple[LockedWheel, ...]
    image: tuple[LockedWheel, ...]
    sources: tuple[str, ...]
    modules: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Patching:
    """What the series changes in the engine's wheel. ``key`` covers the patches."""

    key: str
    files: Callable[[Path], Mapping[str, bytes | None]]


def engine_files(host: Host, packages: Packages, parts: Parts, patching: Patching | None = None) -> Path:
    """The folder with ``site``, ``operators.json``, and the originals of what patches change; made once.

    Raises UsageError, FetchError, PatchError.
    """
    check_interpreter(packages)
    files = {wheel.sha256: _artifact(wheel) for wheel in (*parts.image, *parts.whole)}
    key = digest(["explain", 4, sorted(files), parts.sources, parts.modules, patching.key if patching else None])

    def make(work: Path) -> None:
        host.reporter.say(f"unpacking {len(files)} packages for explain, once ({_size(files) >> 20} MiB to download)")
        found = fetch_all(files.values(), host.store, host.env)
        for wheel in parts.whole:
            unpack(found[wheel.sha256], work / SITE)
        for wheel in parts.image:
            unpack(found[wheel.sha256], work / SITE, (*SOURCES, *parts.sources))
        if patching:
            changes = patching.files(found[parts.image[0].sha256])
            for name in filter(lambda name: (work / SITE / name).is_file(), changes):  # what they add has no original
                (work / ORIGINALS / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(work / SITE / name, work / ORIGINALS / name)
            change(work / SITE, changes)
        operators = read_operators([found[wheel.sha256] for wheel in parts.image], parts.modules)
        (work / OPERATORS).write_text(json.dumps(operators), encoding="utf-8")

    made = host.store.ensure("explain", key, make)
    note_use(made / OPERATORS)
    return made


def change(site: Path, changes: Mapping[str, bytes | None]) -> None:
    """Write what patches change in unpacked sources, and remove what they remove."""
    for name, content in changes.items():
        if content is None:
            (site / name).unlink(missing_ok=True)
        else:
            (site / name).parent.mkdir(parents=True, exist_ok=True)
            (site / name).write_bytes(content)


def check_interpreter(packages: Packages) -> None:
    """Raise UsageError when the locked packages are for another Python or machine than this."""
    found = (".".join(platform.python_version_tuple()[:2]), platform.machine())
    if found != (packages.python, packages.machine):
        raise UsageError(
            f"explain cannot run here: its packages are locked for Python {packages.python} on {packages.machine}",
            where=f"this is Python {found[0]} on {found[1]}",
            hint="run it with that Python on such a machine; docs/explain.md says what another one needs",
        )


def unpack(wheel: Path, site: Path, only: tuple[str, ...] = ("*",)) -> None:
    """Unpack a wheel into ``site``; raises FetchError for a name that leaves it, or a file that is too large."""
    with zipfile.ZipFile(wheel) as archive:
        for entry in archive.infolist():
            name = entry.filename
            if name.startswith(LEFT) or not any(fnmatchcase(name, pattern) for pattern in only):
                continue
            if name.startswith("/") or ".." in name.split("/") or entry.file_size > LARGEST:
                raise FetchError(f"{wheel.name} is not a wheel", where=f"it holds {name[:100]!r}")
            archive.extract(entry, site)


def read_operators(wheels: Iterable[Path], modules: Iterable[str]) -> Mapping[str, tuple[str, ...]]:
    """The operators of each compiled module, by its path without ending. Raises FetchError when one is missing."""
    found: dict[str, tuple[str, ...]] = {}
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            paths = {name.partition(".")[0]: name for name in archive.namelist() if name.endswith(".so")}
            found |= {module: schemas(archive.read(paths[module])) for module in modules if module in paths}
    absent = sorted(set(modules) - set(found))
    if absent:
        raise FetchError(f"no wheel has {', '.join(absent)}", hint="recipes/explain is for another release")
    return found


def _artifact(wheel: LockedWheel) -> Artifact:
    return Artifact(wheel.filename, wheel.sha256, wheel.size)


def _size(files: Mapping[str, Artifact]) -> int:
    return sum(file.size for file in files.values())
