"""A patch given by hand (``--patch``): a pull request's diff, applied strictly; what it does to tests may fail."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gb10.errors import PatchError, UsageError
from gb10.patches.apply import ConflictError, apply_diff
from gb10.patches.diff import FileDiff, check_size, parse_diff
from gb10.patches.tree import Tree

HARMLESS: Final = ("tests/", "test/", "docs/", "doc/", ".github/", ".buildkite/", "benchmarks/", "examples/")
"""Folders that no installed engine reads: a hunk there that does not fit is said, and does not stop."""
PACKAGES: Final = {"vllm/": "vllm", "python/sglang/": "sglang", "sglang/": "sglang", "flashinfer/": "flashinfer",
                   "nvidia_cutlass_dsl/": "cutlass-dsl"}  # fmt: skip
MOVED: Final = {"sglang": {"python/sglang/": "sglang/"}}
"""Where an engine's repository keeps what its archives keep elsewhere."""
COMPILED: Final = "a wheel holds what is installed: what is compiled can only be patched in a source archive"
REBASE: Final = "rebase it on the release that the recipe names; nothing was changed"
IN_WHEEL: Final = {"flashinfer": {"csrc/": "flashinfer/data/csrc/", "include/": "flashinfer/data/include/"}}


@dataclass(frozen=True, kw_only=True, slots=True)
class Foreign:
    """One diff file; ``name`` is the file's own."""

    name: str
    sha256: str
    source: str
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
    return found


def load_foreign(path: Path) -> Foreign:
    """A diff, and the source whose package it changes. Raises PatchError."""
    check_size(path.stat().st_size, path.name)
    text = path.read_bytes()
    diffs = parse_diff(text, path.name)
    owners = {source for diff in diffs for start, source in PACKAGES.items() if diff.path.startswith(start)}
    if len(owners) != 1:
        what = f"changes {' and '.join(sorted(owners))}" if owners else "changes no package that we know"
        raise PatchError(f"{path.name} {what}", where="\n".join(diff.path for diff in diffs[:10]),
                         hint=f"one diff changes one of {', '.join(dict.fromkeys(PACKAGES.values()))}")  # fmt: skip
    return Foreign(name=path.name, sha256=hashlib.sha256(text).hexdigest(), source=owners.pop(), diffs=diffs)


def apply_foreign(patch: Foreign, tree: Tree) -> Applied:
    """The diff on a tree; raises PatchError for a hunk that does not fit outside the harmless folders."""
    changes: dict[str, bytes | None] = {}
    left: list[str] = []
    for diff in patch.diffs:
        path = placed(diff.path, patch.source, wheel=tree.installed)
        try:
            changes[path] = apply_diff(FileDiff(path, diff.kind, diff.hunks), tree.read(path)).content
        except ConflictError as error:
            if not diff.path.startswith(HARMLESS):
                hint = COMPILED if tree.installed and not diff.path.startswith(tuple(PACKAGES)) else REBASE
                raise PatchError(f"{patch.name} does not apply", where=str(error.conflict), hint=hint) from error
            left.append(diff.path)
    installed = {path: content for path, content in changes.items() if not path.startswith(HARMLESS)}
    notes = (f"{patch.name}: {len(left)} files of tests or docs left out: {', '.join(left[:3])}",) if left else ()
    return Applied(changes=installed, notes=notes)


def placed(path: str, source: str, *, wheel: bool) -> str:
    """Where an archive keeps a file that the repository keeps at ``path``."""
    places = MOVED.get(source, {}) | (IN_WHEEL.get(source, {}) if wheel else {})
    start = next((start for start in places if path.startswith(start)), "")
    return places.get(start, "") + path.removeprefix(start)
