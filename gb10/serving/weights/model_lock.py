"""The lock of a recipe's weights: the commit and the files of each model, and the nodes that have them all."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import Field, StringConstraints, ValidationError

from gb10.core.fields import Commit, Folder, Model, Size
from gb10.core.files import digest, read_plain_file, write_whole
from gb10.errors import UsageError
from gb10.models.registries.recipe_file import RecipeFile

LARGEST: Final = 16 << 20
HERE: Final = "localhost"
Etag = Annotated[str, StringConstraints(pattern=r"^([0-9a-f]{40}|[0-9a-f]{64})$")]
Repo = Annotated[str, StringConstraints(pattern=r"^[\w.-]+/[\w.-]+$", max_length=200)]
Text = Annotated[str, StringConstraints(min_length=1, max_length=1000)]


class LockedFile(Model):
    """``etag``: the sha256 of its bytes, or git's SHA-1 of a small file."""

    path: Folder
    size: Size
    etag: Etag


class LockedModel(Model):
    """A model at a commit. ``asked``: the branch, tag or commit that it was asked by; ``quant``: the kind of GGUF."""

    repo: Repo
    revision: Commit
    asked: Text
    quant: Text | None = None
    files: Annotated[tuple[LockedFile, ...], Field(min_length=1, max_length=20_000)]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum({file.etag: file.size for file in self.files}.values())


class NodePlace(Model):
    """A node's cache that has every file; ``models`` is the digest of what it was checked against."""

    cache: Text
    models: Text
    checked: dict[Etag, int] = Field(default_factory=dict)
    """Of contents of this machine: the time of the last change (ns) when their hash was right."""


class WeightsLock(Model):
    """``models``: the one that is served, then those that draft for it."""

    version: Literal[1]
    recipe: Text
    models: Annotated[tuple[LockedModel, ...], Field(min_length=1, max_length=8)]
    places: dict[str, NodePlace] = Field(default_factory=dict)

    @property
    def content(self) -> str:
        """A digest of models, commits and files."""
        return digest([model.model_dump(mode="json") for model in self.models])

    def place(self, host: str) -> NodePlace | None:
        """Where a node has all of it; None when it does not."""
        found = self.places.get(host)
        return found if found and found.models == self.content else None


def lock_file(env: Mapping[str, str], file: RecipeFile) -> Path:
    """The lock of a recipe in the user's data: by name for ours and those of a registry, else by name and place."""
    base = env.get("XDG_DATA_HOME") or os.path.join(env.get("HOME") or "/nonexistent", ".local/share")  # noqa: PTH118
    folder = Path(base) / "gb10/weights"
    if file.registry is not None:
        return folder / f"@{file.registry.name}" / f"{file.name}.lock.json"
    if file.ours:
        return folder / f"{file.path.stem}.lock.json"
    return folder / f"{file.path.stem}-{digest(str(file.path.absolute()))[:8]}.lock.json"


def read_weights(path: Path) -> WeightsLock | None:
    """The lock; None without one. Raises UsageError when it cannot be read."""
    if not path.exists():
        return None
    try:
        return WeightsLock.model_validate_json(read_plain_file(path, LARGEST))
    except ValidationError as error:
        first = error.errors()[0]
        where = f"{path}: {'.'.join(map(str, first['loc']))}: {first['msg']}"
        raise UsageError("this is no lock of weights", where=where, hint=f"remove {path}, and pull again") from error


def write_weights(path: Path, lock: WeightsLock) -> None:
    """Write it anew: a reader sees the old one or the new one. Raises UsageError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, f"{lock.model_dump_json(by_alias=True, indent=1)}\n")


MODEL: Final = re.compile(r"(?P<repo>[A-Za-z0-9][\w.-]*/[\w.-]+)(?::(?P<quant>[\w.-]+))?", re.ASCII)
"""A model of the Hub; llama.cpp names one of its GGUF files by the kind of its quantization."""
