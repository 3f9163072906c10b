"""A registry of recipes as the user's settings record it, and the file that holds them all."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import Field, StringConstraints

from gb10.core.config import config_file
from gb10.core.document import parse_document
from gb10.core.fields import Folder, Model, unique
from gb10.core.files import read_plain_file, write_whole

NAME: Final = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
MOST: Final = 100
LARGEST: Final = 1 << 20
Kind = Literal["git", "folder", "file", "web"]
RegistryName = Annotated[str, StringConstraints(pattern=f"^{NAME}$")]
Text = Annotated[str, StringConstraints(min_length=1, max_length=2000)]


class Registry(Model):
    """``pin``: the commit of a repository, or the sha256 of what a folder, a file or a URL held.

    ``recipes`` and ``mods`` are folders in it; without them all of it is looked at. ``trusted`` is about this pin.
    """

    name: RegistryName
    kind: Kind
    source: Text
    """A URL without a login, or an absolute path."""
    ref: Text | None = None
    """The branch or tag of a repository that an update follows; None is its own branch."""
    pin: Annotated[str, StringConstraints(pattern=r"^([0-9a-f]{40}|[0-9a-f]{64})$")]
    recipes: Folder | None = None
    mods: Folder | None = None
    visible: bool = True
    trusted: bool = False

    @property
    def origin(self) -> tuple[str, str | None]:
        """Registries of one origin are the parts of one repository: they move together."""
        return self.source, self.ref


class _File(Model):
    version: Literal[1]
    registries: Annotated[tuple[Registry, ...], Field(max_length=MOST), unique("the registry", lambda one: one.name)]


def registries_file(env: Mapping[str, str]) -> Path:
    """$XDG_CONFIG_HOME/gb10/registries.json, else ~/.config/gb10/registries.json."""
    return config_file(env).with_name("registries.json")


def read_registries(env: Mapping[str, str]) -> tuple[Registry, ...]:
    """All registries by name; none without the file. Raises UsageError for a file that is not valid."""
    path = registries_file(env)
    if not path.exists():
        return ()
    text = read_plain_file(path, LARGEST).decode("utf-8", errors="replace")
    return parse_document(text, _File, where=str(path), what="list of registries").registries


def write_registries(env: Mapping[str, str], registries: tuple[Registry, ...]) -> None:
    """Write all of them anew: a reader sees the old file or the new one. Raises UsageError."""
    path = registries_file(env)
    file = _File(version=1, registries=tuple(sorted(registries, key=lambda one: one.name)))
    text = json.dumps(file.model_dump(mode="json", by_alias=True, exclude_none=True), indent=1)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, f"{text}\n")
