"""Finding mods: a folder or zip by its path, or a name of the checkout's ``mods/``."""

import difflib
from dataclasses import dataclass
from pathlib import Path

from gb10.core.folder_files import Files, files_digest
from gb10.errors import UsageError
from gb10.image.mods.declaration import ModRecord
from gb10.image.mods.lint import check_mod
from gb10.image.mods.read_mod import read_files


@dataclass(frozen=True, kw_only=True, slots=True)
class FoundMod:
    """A mod that keeps the contract. ``record`` is None without mod.yaml."""

    name: str
    path: Path
    record: ModRecord | None
    files: Files
    digest: str

    @property
    def network(self) -> bool:
        """Whether it declares that it needs the network."""
        return self.record is not None and self.record.network


def find_mod(root: Path, name: str) -> FoundMod:
    """The mod that ``--mod`` names: without a path separator one of the checkout; raises UsageError."""
    if "/" in name or name.endswith(".zip"):
        return load_mod(Path(name))
    known = mod_names(root)
    if name not in known:
        close = difflib.get_close_matches(name, known, n=1, cutoff=0.4)
        guess = f"did you mean {close[0]!r}? " if close else ""
        raise UsageError(
            f"no mod {name!r}",
            where=str(root / name),
            hint=f"{guess}known: {', '.join(known)}; a folder of yours: ./{name}",
        )
    return load_mod(root / name)


def mod_names(root: Path) -> tuple[str, ...]:
    """The mods of the checkout."""
    return tuple(sorted(path.parent.name for path in root.glob("*/run.sh")))


def load_mod(path: Path) -> FoundMod:
    """The mod at a path, read and checked against the contract. Raises UsageError."""
    place = path.absolute()
    name = place.name.removesuffix(".zip") if place.is_file() else place.resolve().name
    files = read_files(place)
    return FoundMod(name=name, path=place, record=check_mod(name, files), files=files, digest=files_digest(files))


def read_digest(path: Path) -> str:
    """The digest of what lies at a path, even if it breaks the contract. Raises UsageError when it cannot be read."""
    return files_digest(read_files(path.absolute()))
