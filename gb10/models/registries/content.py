"""The files of a registry that gb10 keeps: recipes and mods, plain files alone, bounded in number and size.

Whoever made them may be hostile: a link is never followed, and an odd name is left out.
"""

import os
import stat
import tarfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from gb10.core.fetch import stored
from gb10.core.files import COMMIT, Checkout, read_plain_file
from gb10.core.folder_files import SCRIPT, ModFile, files_digest, write_files
from gb10.core.host import Host
from gb10.errors import EmptySelectionError, FetchError, UsageError
from gb10.models.registries.origin import Origin
from gb10.models.registries.registry import Kind, Registry
from gb10.sources.git.archive import Limits, resolve
from gb10.sources.web import fetch_small, name_of

SUFFIXES: Final = (".yaml", ".yml")
MANIFEST: Final = PurePosixPath(".sparkrun/registry.yaml")
MOST_SEEN: Final = 100_000
"""Files of a folder that are looked at."""
MOST_KEPT: Final = 10_000
LARGEST_RECIPE: Final = 1 << 20
LARGEST: Final = 64 << 20
"""Bytes of all files that are kept."""
LONGEST: Final = 200
DEEPEST: Final = 16
EXECUTABLE: Final = 0o111
ODD: Final = frozenset({"", ".", "..", ".git"})


@dataclass(frozen=True, kw_only=True, slots=True)
class TreeFile:
    """A plain file of a tree, not read yet."""

    name: PurePosixPath
    size: int
    executable: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Content:
    """What is kept, by path, and how many entries are left out: links, odd names, special files."""

    files: Mapping[str, ModFile]
    left_out: int

    @property
    def digest(self) -> str:
        """Of names, bytes and executable bits."""
        return files_digest(self.files)


def _seen(name: str, size: int, mode: int) -> TreeFile:
    return TreeFile(name=PurePosixPath(name), size=size, executable=bool(mode & EXECUTABLE))


def content_of_tar(path: Path, where: str) -> Content:
    """The content of an archive of git's, whose first folder is the archive's own. Raises UsageError."""
    with tarfile.open(path, mode="r:") as archive:
        members = {str(PurePosixPath(*PurePosixPath(one.name).parts[1:])): one for one in archive if not one.isdir()}
        plain = {name: one for name, one in members.items() if one.isfile() and is_plain(name)}
        seen = [_seen(name, one.size, one.mode) for name, one in plain.items()]

        def read(one: TreeFile) -> bytes:
            stream = archive.extractfile(plain[str(one.name)])
            return stream.read(one.size) if stream else b""

        return _selected(seen, read, len(members) - len(plain), where)


def content_of_folder(root: Path) -> Content:
    """The content of a folder, without version control and without following a link. Raises UsageError."""
    seen, left_out = list[TreeFile](), 0
    for path, info in _walk(root):
        name = path.relative_to(root).as_posix()
        if stat.S_ISREG(info.st_mode) and is_plain(name):
            seen.append(_seen(name, info.st_size, info.st_mode))
        else:
            left_out += 1

    def read(one: TreeFile) -> bytes:
        with open(os.open(root / one.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as stream:  # noqa: PTH123
            return stream.read(one.size)

    return _selected(sorted(seen, key=lambda one: str(one.name)), read, left_out, str(root))


def _walk(root: Path) -> Iterator[tuple[Path, os.stat_result]]:
    folders, count = [root], 0
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                count += 1
                if count > MOST_SEEN:
                    hint = "name the folder of the recipes alone"
                    raise UsageError(f"{root} has more than {MOST_SEEN:,} files", hint=hint)
                info = entry.stat(follow_symlinks=False)
                if not stat.S_ISDIR(info.st_mode):
                    yield Path(entry.path), info
                elif entry.name not in ODD:
                    folders.append(Path(entry.path))


def is_plain(name: str) -> bool:
    """Whether a path stays in its tree, can be printed, and is neither long nor deep."""
    parts = name.split("/")
    return name.isprintable() and len(name) <= LONGEST and len(parts) <= DEEPEST and not ODD & set(parts)


def _selected(seen: list[TreeFile], read: Callable[[TreeFile], bytes], left_out: int, where: str) -> Content:
    mods = {one.name.parent for one in seen if one.name.name == SCRIPT and len(one.name.parts) > 1}
    wanted = [one for one in seen if _is_recipe(one) or mods & set(one.name.parents)]
    if len(wanted) > MOST_KEPT or sum(one.size for one in wanted) > LARGEST:
        raise UsageError(
            f"{where} has more than {MOST_KEPT:,} recipes and files of mods, or more than {LARGEST >> 20} MiB of them",
            hint="name a folder or a repository of recipes",
        )
    files = {str(one.name): ModFile("executable" if one.executable else "file", read(one)) for one in wanted}
    return Content(files=files, left_out=left_out)


def _is_recipe(one: TreeFile) -> bool:
    hidden = any(part.startswith(".") for part in one.name.parts)
    return one.name.suffix in SUFFIXES and one.size <= LARGEST_RECIPE and (not hidden or one.name == MANIFEST)


SECTION: Final = "registries"
LIMITS: Final = Limits(bytes=1 << 29, pack=1 << 29, hint="a registry of recipes has far less: check the URL")
DEFAULT: Final = "HEAD"


@dataclass(frozen=True, kw_only=True, slots=True)
class OriginContent:
    """What an origin holds now."""

    pin: str
    content: Content


def fetch_origin(host: Host, origin: Origin, ref: str | None) -> OriginContent:
    """The newest content of an origin. Raises FetchError, UsageError, EmptySelectionError without a recipe."""
    origin_content = _fetch(host, origin.kind, origin.source, ref or DEFAULT)
    if not any(name.endswith((".yaml", ".yml")) for name in origin_content.content.files):
        raise EmptySelectionError(f"{origin.source} has no recipe (.yaml, .yml)", hint="check the URL or the folder")
    return origin_content


def _fetch(host: Host, kind: Kind, source: str, ref: str) -> OriginContent:
    if kind == "git":
        with host.reporter.task(f"fetch {source}"):
            wanted = Checkout(source, ref, moving=COMMIT.fullmatch(ref) is None)
            made = resolve(host.store, host.env, "registry-0.tar", wanted, LIMITS)
        commit = made.checkout.commit if made.checkout else ""
        return OriginContent(pin=commit, content=content_of_tar(stored(host.store, made), source))
    if kind == "folder":
        content = content_of_folder(Path(source))
    else:
        most = LARGEST_RECIPE
        text = fetch_small(host.env, source, most) if kind == "web" else read_plain_file(Path(source), most)
        name = name_of(source, "recipe.yaml") if kind == "web" else Path(source).name
        content = Content(files={name: ModFile("file", text)}, left_out=0)
    return OriginContent(pin=content.digest, content=content)


def store_content(host: Host, origin_content: OriginContent) -> Path:
    """The folder of the store that holds a content."""
    return host.store.ensure(SECTION, origin_content.pin, lambda work: _write(origin_content.content, work)) / "tree"


def _write(content: Content, work: Path) -> None:
    root = write_files({}, work / "tree")
    for name, file in content.files.items():
        target = root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(file.content)
        target.chmod(0o644 if file.kind == "file" else 0o755)


def root_of(host: Host, registry: Registry) -> Path:
    """The folder of a registry's content; what the store lost is taken again, at its pin. Raises FetchError."""
    root = host.store.entry(SECTION, registry.pin) / "tree"
    if root.is_dir():
        return root
    git = registry.kind == "git"
    origin_content = _fetch(host, registry.kind, registry.source, registry.pin if git else DEFAULT)
    if origin_content.pin != registry.pin:
        hint = f"./build.py recipe add --update @{registry.name} shows what changed and takes it"
        raise FetchError(f"@{registry.name} is not what it was when it was added", where=registry.source, hint=hint)
    return store_content(host, origin_content)
