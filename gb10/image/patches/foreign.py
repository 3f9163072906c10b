"""A patch given by hand (``--patch``): a pull request's diff, applied strictly; what it does to tests may fail."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gb10.errors import PatchError, UsageError
from gb10.image.patches.apply import ConflictError, apply_diff
from gb10.image.patches.diff import FileDiff, check_size, parse_diff
from gb10.image.patches.places import Layout, harmless, installed, placed
from gb10.image.patches.source_tree import Tree

COMPILED: Final = "a wheel holds what is installed: what is compiled can only be patched in a source archive"
REBASE: Final = "rebase it on the release that the recipe names; nothing was changed"


@dataclass(frozen=True, kw_only=True, slots=True)
class Foreign:
    """One diff file; ``name`` is the file's own."""

    name: str
    sha256: str
    source: str
    layout: Layout
    diffs: tuple[FileDiff, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Applied:
    """The changed files, and what was left out."""

    changes: Mapping[str, bytes | None]
    notes: tuple[str, ...]


def find_foreign(path: Path) -> tuple[Path, ...]:
    """The diffs that ``--patch`` means: a file, or a folder's ``*.patch`` and ``*.diff`` by name. Raises UsageError."""
    if path.is_file():
        return (path,)
    found = tuple(sorted(file for file in path.glob("*") if file.suffix in (".patch", ".diff")))
    if not found:
        raise UsageError(f"--patch {path}: no diff there", hint="give a .patch or .diff file, or a folder of them")
    other = next((file for file in found if not file.is_file()), None)
    if other:
        raise UsageError(
            f"--patch {path}: {other.name} is not a plain file", hint="rename it, or name the diffs one by one"
        )
    return found


def load_foreign(path: Path, layouts: Mapping[str, Layout], source: str | None = None) -> Foreign:
    """A diff of ``source``, else of the source that owns the changed package. Raises PatchError."""
    check_size(path.stat().st_size, path.name)
    text = path.read_bytes()
    diffs = parse_diff(text, path.name)
    owner = source or _owner(diffs, path.name, layouts)
    sha256 = hashlib.sha256(text).hexdigest()
    return Foreign(name=path.name, sha256=sha256, source=owner, layout=layouts[owner], diffs=diffs)


def _owner(diffs: Iterable[FileDiff], name: str, layouts: Mapping[str, Layout]) -> str:
    paths = [diff.path for diff in diffs]
    owners = {source for source, layout in layouts.items() if any(installed(path, layout) for path in paths)}
    if len(owners) == 1:
        return owners.pop()
    what = f"changes {' and '.join(sorted(owners))}" if owners else "changes no package that we know"
    known = ", ".join(source for source, layout in layouts.items() if layout.packages)
    raise PatchError(
        f"{name} {what}", where="\n".join(paths[:10]), hint=f"name its source: --patch SOURCE=FILE (SOURCE: {known})"
    )


def apply_foreign(patch: Foreign, tree: Tree, *, halved: bool = False) -> Applied:
    """The diff on a tree; raises PatchError for a hunk that does not fit outside the harmless folders.

    ``halved``: of a wheel only what it holds is patched, of a source archive only the rest, which is compiled.
    """
    changes: dict[str, bytes | None] = {}
    left: list[str] = []
    for diff in patch.diffs:
        path = placed(diff.path, patch.layout, wheel=tree.installed)
        if halved and installed(path, patch.layout) != tree.installed:
            continue
        try:
            changes[path] = apply_diff(FileDiff(path, diff.kind, diff.hunks), tree.read(path)).content
        except ConflictError as error:
            if not harmless(diff.path):
                hint = COMPILED if tree.installed and not installed(path, patch.layout) else REBASE
                raise PatchError(f"{patch.name} does not apply", where=str(error.conflict), hint=hint) from error
            left.append(diff.path)
    kept = {path: content for path, content in changes.items() if not harmless(path)}
    notes = (f"{patch.name}: {len(left)} files of tests or docs left out: {', '.join(left[:3])}",) if left else ()
    return Applied(changes=kept, notes=notes)
