"""A registry's content is taken: fetched or read, bounded, and kept in the store under its pin."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gb10.core.artifact import COMMIT, Checkout
from gb10.core.fetch import stored
from gb10.core.folder_files import write_files
from gb10.core.host import Host
from gb10.core.plain_file import read_plain_file
from gb10.errors import EmptySelectionError, FetchError
from gb10.models.registries.content import LARGEST_RECIPE, Content, content_of_folder, content_of_tar, content_of_text
from gb10.models.registries.origin import Origin
from gb10.models.registries.registry import Kind, Registry
from gb10.sources.git.archive import Limits, resolve
from gb10.sources.web import fetch_small, name_of

ROOM: Final = "registries"
LIMITS: Final = Limits(bytes=1 << 29, pack=1 << 29, hint="a registry of recipes has far less: check the URL")
DEFAULT: Final = "HEAD"


@dataclass(frozen=True, kw_only=True, slots=True)
class Taken:
    """What an origin holds now."""

    pin: str
    content: Content


def take(host: Host, origin: Origin, ref: str | None) -> Taken:
    """The newest content of an origin. Raises FetchError, UsageError, EmptySelectionError without a recipe."""
    taken = _taken(host, origin.kind, origin.source, ref or DEFAULT)
    if not any(name.endswith((".yaml", ".yml")) for name in taken.content.files):
        raise EmptySelectionError(f"{origin.source} has no recipe (.yaml, .yml)", hint="check the URL or the folder")
    return taken


def _taken(host: Host, kind: Kind, source: str, ref: str) -> Taken:
    if kind == "git":
        return _of_git(host, source, ref)
    if kind == "folder":
        content = content_of_folder(Path(source))
    else:
        most = LARGEST_RECIPE
        text = fetch_small(host.env, source, most) if kind == "web" else read_plain_file(Path(source), most)
        content = content_of_text(name_of(source, "recipe.yaml") if kind == "web" else Path(source).name, text)
    return Taken(pin=content.digest, content=content)


def _of_git(host: Host, source: str, ref: str) -> Taken:
    with host.reporter.task(f"fetch {source}"):
        wanted = Checkout(source, ref, moving=COMMIT.fullmatch(ref) is None)
        made = resolve(host.store, host.env, "registry-0.tar", wanted, LIMITS)
    commit = made.checkout.commit if made.checkout else ""
    return Taken(pin=commit, content=content_of_tar(stored(host.store, made), source))


def keep(host: Host, taken: Taken) -> Path:
    """The folder of the store that holds a content."""
    return host.store.ensure(ROOM, taken.pin, lambda work: _write(taken.content, work)) / "tree"


def _write(content: Content, work: Path) -> None:
    root = write_files({}, work / "tree")
    for name, file in content.files.items():
        target = root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(file.content)
        target.chmod(0o644 if file.kind == "file" else 0o755)


def root_of(host: Host, registry: Registry) -> Path:
    """The folder of a registry's content; what the store lost is taken again, at its pin. Raises FetchError."""
    root = host.store.entry(ROOM, registry.pin) / "tree"
    if root.is_dir():
        return root
    git = registry.kind == "git"
    taken = _taken(host, registry.kind, registry.source, registry.pin if git else DEFAULT)
    if taken.pin != registry.pin:
        hint = f"./build.py recipe add --update @{registry.name} shows what changed and takes it"
        raise FetchError(f"@{registry.name} is not what it was when it was added", where=registry.source, hint=hint)
    return keep(host, taken)
