"""The file of a model recipe: of this checkout, of the user, or of a registry; how it is found and read."""

import difflib
import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from gb10.core.config import store_root, unknown_variables, with_settings
from gb10.core.host import Host
from gb10.core.installation import ROOT
from gb10.core.reporter import Reporter
from gb10.core.store import open_store
from gb10.errors import EmptySelectionError, Gb10Error, UsageError
from gb10.models.load.loading import is_recipe
from gb10.models.load.safe_yaml import LARGEST
from gb10.models.registries.registry import Registry, read_registries

SUFFIXES: Final = (".yaml", ".yml")
OF_A_MODEL: Final = "Of a model, run takes the folder or OWNER/NAME, and recipe new writes a recipe"
DEEPEST: Final = 6
"""Folders above a recipe in which its mods are looked for."""


@dataclass(frozen=True, slots=True)
class RecipeFile:
    """``root``: the content of the registry that it is of."""

    path: Path
    registry: Registry | None = None
    root: Path | None = None

    @property
    def shown(self) -> str:
        """How issues name it: its path, or ``@registry/path/in/it``."""
        if self.registry is None or self.root is None:
            return str(self.path)
        return f"@{self.registry.name}/{self.path.relative_to(self.root).as_posix()}"

    @property
    def name(self) -> str:
        """Its path without the suffix; in the folder of recipes, for one of a registry."""
        folder = self.root / (self.registry.recipes or "") if self.root and self.registry else self.path.parent
        return self.path.relative_to(folder).with_suffix("").as_posix()

    @property
    def ours(self) -> bool:
        """Whether it is one of this checkout."""
        return self.registry is None and self.path.absolute().parent == ROOT / "recipes/models"

    @property
    def trusted(self) -> bool:
        """Whether it may do what it says: it is ours, the user's, or of a registry that the user trusts."""
        return self.registry is None or self.registry.trusted

    @property
    def above(self) -> tuple[Path, ...]:
        """The folders around it in which its mods may lie, the nearest first; never outside of its registry."""
        found = tuple(self.path.absolute().parents)[:DEEPEST]
        return found if self.root is None else tuple(one for one in found if one.is_relative_to(self.root))

    def mod(self, written: str) -> Path | None:
        """The folder of a mod as the recipe writes it; None when there is none."""
        inside = PurePosixPath(written)
        if self.root is not None and (inside.is_absolute() or ".." in inside.parts):
            return None
        return next((found for folder in self.above if _exists(found := folder / written)), None)


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # a name that is too long for a file system, or holds a NUL
        return False


def recipe_files(root: Path, registry: Registry) -> dict[str, RecipeFile]:
    """The files of a registry that may be recipes, by their path without its suffix, in its folder of recipes."""
    folder = root / registry.recipes if registry.recipes else root
    mods = {script.parent for script in root.rglob("run.sh")}
    found = (path for path in sorted(folder.rglob("*")) if path.suffix in SUFFIXES and path.is_file())
    files = (RecipeFile(path, registry, root) for path in found if not mods & set(path.parents))
    return {file.name: file for file in files if not file.path.relative_to(root).as_posix().startswith(".")}


def short_names(files: dict[str, RecipeFile]) -> dict[str, RecipeFile]:
    """The same by the last part of the name, where it is of one file alone; else by the whole."""
    counts = Counter(map(last_part, files))
    return {last_part(name) if counts[last_part(name)] == 1 else name: file for name, file in files.items()}


def last_part(name: str) -> str:
    """A name without its folders."""
    return name.rpartition("/")[2]


Roots = Callable[[Registry], Path]
"""The folder of a registry's content."""
SHOWN: Final = 5
"""Names that an error lists."""


def find_registry(registries: Sequence[Registry], text: str) -> Registry:
    """The registry of ``@NAME`` or ``@NAME/…``; raises UsageError with the closest names."""
    name = text.removeprefix("@").partition("/")[0]
    found = next((one for one in registries if one.name == name), None)
    if found is not None:
        return found
    names = [one.name for one in registries]
    known = f"known: {', '.join(f'@{one}' for one in names)}" if names else "there is none yet"
    raise UsageError(
        f"no registry @{name[:80]}", hint=f"{_meant(name, names)}{known}; ./build.py recipe add URL adds one"
    )


def find_in_registry(root_of: Roots, registries: Sequence[Registry], text: str) -> RecipeFile:
    """The recipe of ``@REGISTRY/NAME``: by its path, or by the end of it. Raises UsageError, FetchError."""
    registry = find_registry(registries, text)
    files = recipe_files(root_of(registry), registry)
    wanted = text.partition("/")[2]
    bare = next((wanted.removesuffix(suffix) for suffix in SUFFIXES if wanted.endswith(suffix)), wanted)
    exact = [file for name, file in files.items() if bare in (name, _whole(file))]
    found = exact or [file for file in files.values() if _whole(file).endswith(f"/{bare}")]
    if len(found) == 1:
        return found[0]
    if found:
        where = "\n".join(file.shown for file in found[:SHOWN])
        raise UsageError(f"{text[:80]} names {len(found)} recipes", where=where, hint="name its path")
    guess = _meant(bare, list(short_names(files)), f"@{registry.name}/")
    raise UsageError(
        f"no model recipe {text[:80]!r}", hint=f"{guess}./build.py recipe list @{registry.name} shows its recipes"
    )


def _whole(file: RecipeFile) -> str:
    """The path of a file in its registry, without the suffix."""
    return file.shown.partition("/")[2].rpartition(".")[0]


def mod_in(root: Path, registry: Registry, written: str) -> Path | None:
    """The folder of a mod in the registry's own folder of mods; None when there is none."""
    name = written.rstrip("/").rpartition("/")[2]
    folder = root / (registry.mods or "mods") / name
    return folder if name not in ("", ".", "..") and (folder / "run.sh").is_file() else None


def _meant(name: str, names: Iterable[str], prefix: str = "@") -> str:
    close = difflib.get_close_matches(last_part(name), list(names), n=3, cutoff=0.4)
    return f"did you mean {' or '.join(prefix + one for one in close)}? " if close else ""


def registries() -> tuple[Registry, ...]:
    """All of them; raises UsageError when their file is not valid."""
    return read_registries(os.environ)


def root_here(registry: Registry) -> Path:
    """The folder of a registry's content; what the store lost is taken again. Raises FetchError."""
    root = store_root(with_settings(os.environ)) / "registries" / registry.pin / "tree"
    if root.is_dir():
        return root
    from gb10.models.registries.content import root_of  # noqa: PLC0415 - a sixth of a second for verbs that need no store

    settings = with_settings(os.environ)
    reporter = Reporter(settings)
    for line in unknown_variables(os.environ):
        reporter.say_once(line)
    return root_of(Host(env=settings, store=open_store(settings), reporter=reporter), registry)


def models_folder() -> Path:
    """Where the checkout's model recipes lie."""
    return ROOT / "recipes/models"


def model_names() -> list[str]:
    """The names of the checkout's model recipes."""
    return sorted(path.stem for path in models_folder().glob("*.yaml"))


def find_recipe(name: str) -> RecipeFile:
    """The file of a recipe: a path, with or without its suffix, a name, or ``@REGISTRY/NAME``.

    Raises UsageError with the closest names.
    """
    if name.startswith("@"):
        if not name.partition("/")[2]:
            raise UsageError(f"{name[:80]} is a registry, not a recipe", hint=f"./build.py recipe list {name[:80]}")
        return find_in_registry(root_here, registries(), name)
    own = models_folder() / f"{name}.yaml"
    places = [Path(name), *(Path(name + suffix) for suffix in SUFFIXES), *([own] if "/" not in name else [])]
    found = next((place for place in places if place.is_file()), None)
    if found is not None:
        return RecipeFile(found)
    if Path(name).exists():
        raise UsageError(f"{name} is not a file", hint=f"name the recipe's file. {OF_A_MODEL}")
    close = difflib.get_close_matches(Path(name).stem.lower(), model_names(), n=3, cutoff=0.4)
    close += [f"@{one.name}/{name}" for one in registries() if _has(one, name)]
    guess = f"did you mean {' or '.join(close)}? " if close else ""
    raise UsageError(
        f"no model recipe {name!r}",
        hint=f"{guess}./build.py recipe list shows them; or name a file. {OF_A_MODEL}",
    )


def _has(registry: Registry, name: str) -> bool:
    """Whether a registry has a recipe of this name; not asked of one that would be fetched for it."""
    try:
        return "/" not in name and bool(find_in_registry(root_here, [registry], f"@{registry.name}/{name}"))
    except Gb10Error:
        return False


def dotenv_beside(path: Path) -> str:
    """The ``.env`` in the folder of a compose file, as compose reads it; empty where no plain file is one."""
    file = path.parent / ".env"
    try:
        if file.is_symlink() or not file.is_file():
            return ""
        with file.open("rb") as stream:
            return stream.read(LARGEST).decode("utf-8", "replace")
    except OSError:
        return ""


def read_text(path: Path) -> str:
    """The text of a recipe; raises UsageError when it cannot be read, or is more than a recipe can be."""
    try:
        with path.open("rb") as stream:
            content = stream.read(4 * LARGEST + 1)
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise UsageError(f"{path} is not UTF-8 text", where=f"{path}:{line}", hint="save it as UTF-8") from error
    except OSError as error:
        hint = f"it is a folder: recipe lint {path} reads all of them" if isinstance(error, IsADirectoryError) else None
        raise UsageError(f"cannot read {path}", where=error.strerror or str(error), hint=hint) from error


def registry_files(text: str) -> list[RecipeFile]:
    """The recipes of ``@REGISTRY``, in the order of their names. Raises UsageError, FetchError, EmptySelectionError."""
    registry = find_registry(registries(), text)
    files = [file for file in recipe_files(root_here(registry), registry).values() if is_recipe(read_text(file.path))]
    if not files:
        raise EmptySelectionError(f"@{registry.name} has no recipe", where=registry.source)
    return files
