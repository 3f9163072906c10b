"""What is known of one engine's release: its lock of packages, and the answers of what is not there. Data, checked."""

import tomllib
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from gb10.core.fields import Model
from gb10.errors import LockStaleError, UsageError
from gb10.image.recipe.locked import LockedWheel

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
    """The module beside ``choosing.py`` that knows this engine."""
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
