"""Build contexts: a directory that BuildKit builds and the named ones beside it, laid out as links into the store."""

import io
import shutil
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from packaging.utils import parse_wheel_filename

from gb10.containers.buildx.build import Network
from gb10.core.files import link_or_copy
from gb10.core.folder_files import write_files
from gb10.core.store import Store, file_sha256
from gb10.errors import UsageError
from gb10.image.mods.read import load_mod
from gb10.image.plan.catalog import module_path, tree_digest
from gb10.image.plan.options import Mod, Overlay
from gb10.image.plan.steps import CHANGED, LINKER, READER
from gb10.image.proof.wheel_files import is_inside

MAIN, CONTEXTS = "main", "contexts"  # as render.bake names them
AGAIN = "run the command again when nothing writes to it"
Lay = Callable[[Path], object]
"""Writes one folder or file, which does not exist yet."""
Content = Path | bytes | Lay
"""Of a file of a context: a path of the store, its bytes, or what writes it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BuildContext:
    """A directory that BuildKit builds, its named contexts, and the secrets of its stages."""

    folder: Path
    contexts: Mapping[str, Path | str]
    secrets: Mapping[str, Path] = field(default_factory=dict)
    network: Network = "none"


@contextmanager
def build_context(store: Store, files: Mapping[str, Content], folders: Mapping[str, Lay]) -> Iterator[BuildContext]:
    """Lay out ``files`` (by name) and each named context; deleted on exit.

    Store files are linked, or copied where the file system has no links: they are already hashed and never change.
    """
    scratch = store.scratch("context")
    contexts = {name: scratch / CONTEXTS / name for name in folders}
    try:
        write_tree(scratch / MAIN, files)
        for name, lay in folders.items():
            contexts[name].parent.mkdir(parents=True, exist_ok=True)
            lay(contexts[name])
        yield BuildContext(folder=scratch / MAIN, contexts=contexts)
    finally:
        shutil.rmtree(scratch)


@contextmanager
def secret_file(store: Store, text: str) -> Iterator[Path]:
    """The file of a build secret, readable only by this user; deleted on exit."""
    with store.folder("secrets") as folder:
        path = folder / "secret"
        path.write_text(text, encoding="utf-8")
        yield path


def write_tree(target: Path, files: Mapping[str, Content]) -> None:
    """Write contents and link store paths, by name. Raises UsageError for a name outside the folder."""
    target.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        if not is_inside(name):
            raise UsageError(
                f"{name!r} leads out of its folder", hint="a file of a patch, mod or wheel lies below its root"
            )
        path = target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            path.write_bytes(content)
        elif isinstance(content, Path):
            link_or_copy(content, path)
        else:
            content(path)


def wheels(paths: Iterable[Path]) -> Lay:
    """Wheels, and source archives, with a requirements.txt of the wheels' hashes."""

    def lay(target: Path) -> None:
        found = sorted(paths)
        lines = sorted(requirement(path) for path in found if path.suffix == ".whl")
        files: dict[str, Path | bytes] = {path.name: path for path in found}
        write_tree(target, {**files, "requirements.txt": "".join(lines).encode()})

    return lay


def tree(files: Mapping[str, Path | bytes]) -> Lay:
    """Files by name."""
    return lambda target: write_tree(target, files)


def overlay_files(overlay: Overlay) -> Lay:
    """A copy of the overlay directory. Raises UsageError when it changed since the plan."""

    def lay(target: Path) -> None:
        shutil.copytree(overlay.path, target, symlinks=True)
        if tree_digest(target) != overlay.digest:
            raise UsageError(f"the overlay {overlay.path} changed while it was being built", hint=AGAIN)

    return lay


def mod_files(mod: Mod) -> Lay:
    """A copy of a mod's files. Raises UsageError when they changed since the plan."""

    def lay(target: Path) -> None:
        found = load_mod(Path(mod.path))
        if found.digest != mod.digest:
            raise UsageError(f"the mod {mod.path} changed while it was being built", hint=AGAIN)
        write_files(found.files, target)

    return lay


def requirement(wheel: Path) -> str:
    """``name==version --hash=sha256:…``: a store path carries the hash, a wheel built here is hashed now."""
    name, version, _, _ = parse_wheel_filename(wheel.name)
    sha256 = wheel.parent.name if wheel.parent.parent.name == "downloads" else file_sha256(wheel)
    return f"{name}=={version} --hash=sha256:{sha256}\n"


OLDEST = (1980, 1, 1, 0, 0, 0)


def scanner_files(contents: Mapping[str, bytes], *, mods: bool = False) -> dict[str, bytes]:
    """``scan.py`` and ``linked.py``, and ``changed.py`` where mods are baked in, as the Dockerfiles name them."""
    scripts = {"scan": READER, "linked": LINKER} | ({"changed": CHANGED} if mods else {})
    return {
        f"{name}.py": archive(f"scan.{name}", {file: contents[file] for file in files})
        for name, files in scripts.items()
    }


def archive(script: str, modules: Mapping[str, bytes]) -> bytes:
    """The same bytes for the same modules. It runs ``main`` of ``script``, a module of ``inside``: ``scan.linked``."""
    start = f"from gb10.inside.{script} import main\n\nmain()\n".encode()
    own = {module_path(name): content for name, content in modules.items()}
    packages = {f"{folder}/__init__.py": b"" for name in own for folder in PurePosixPath(name).parents[:-1]}
    files = {"__main__.py": start, **packages, **own}
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as target:
        for name, content in sorted(files.items()):
            target.writestr(zipfile.ZipInfo(name, OLDEST), content)
    return written.getvalue()
