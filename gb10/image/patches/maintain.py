"""A maintainer's work on patches: one carried over to a drifted tree, a new one from an edited tree."""

import datetime
import re
from pathlib import Path
from typing import Final

from packaging.version import Version

from gb10.errors import PatchError, UsageError
from gb10.image.patches.apply import ConflictError
from gb10.image.patches.release_files import Library, open_release
from gb10.image.patches.releases import PINS, load_releases
from gb10.image.patches.series import NAME, Patch, check_whole, load_series
from gb10.image.patches.source_tree import Changed, Tree, open_tree
from gb10.image.patches.verdict import Verdict, changes_of, judge_series
from gb10.image.patches.write import carry_over, file_diff

HEADER: Final = """From 0000000000000000000000000000000000000000 Mon Sep 17 00:00:00 2001
From: gb10 maintainers <gb10@example.invalid>
Date: {date:%a, %d %b %Y} 00:00:00 +0000
Subject: [PATCH] {title}

WHY: what goes wrong, for whom, since when.

Origin: other
Forwarded: no
Last-Update: {date:%Y-%m-%d}
X-Applies-To: {source} =={version}
---
"""
MOST_GONE: Final = 50
RECORD: Final = """defect: TODO one sentence, what goes wrong for the user on GB10.
fix: TODO one sentence, what the patch does.
since: "{version}"
proven: TODO how it is shown without a GB10.
probe:
  - answer: needed
    why: TODO the shape of the defect
    when:
      - {{file: "{path}", regex: 'WRITE THIS', count: 1}}
  - answer: present
    why: TODO the shape of the fix
    when:
      - {{file: "{path}", regex: 'WRITE THIS', count: 1}}
"""


def refresh(library: Library, patch: Patch, tree: Path) -> bytes:
    """The patch for a tree that it no longer fits, its message kept. Raises PatchError where upstream changed it.

    A patch that builds on earlier ones of its series is carried over to a tree that holds those.
    """
    base_tree, base = _base(library, patch)
    target = open_tree(tree)
    parts = [_message(patch)]
    for path, content in sorted(base.changes.items()):
        if path not in patch.files:
            parts.append(_carried(patch, path, base_tree.read(path), content, target))
    return b"".join(parts)


def _carried(patch: Patch, path: str, before: bytes | None, after: bytes | None, target: Tree) -> bytes:
    """One file of a patch for the target."""
    if before is None:
        if target.read(path) is not None:
            raise _lost(patch, f"{path}: the file to add is already there")
        return file_diff(path, None, after)
    moved = _moved(path, target)
    now = target.read(moved) or b""
    if after is None:
        if now != before:
            raise _lost(patch, f"{moved}: upstream changed the file to delete")
        return file_diff(moved, now, None)
    try:
        return file_diff(moved, now, carry_over(moved, before, after, now))
    except ConflictError as error:
        raise _lost(patch, str(error.conflict)) from error


def _lost(patch: Patch, where: str) -> PatchError:
    hint = "edit the tree by hand, then ./build.py patches new"
    return PatchError(f"{patch.place} cannot be carried over", where=where, hint=hint)


def _base(library: Library, patch: Patch) -> tuple[Tree, Verdict]:
    """The newest pinned release that the patch applies to, with the earlier patches of its series in it."""
    releases = load_releases(library.root)
    series = load_series(library.root, patch.source)
    inside = [version for version in map(Version, releases.source(patch.source).releases) if patch.applies_to(version)]
    for version in sorted(inside, reverse=True):
        tree = open_release(library, releases, patch.source, version).tree
        verdicts = judge_series(series, version, tree)
        number = next(index for index, verdict in enumerate(verdicts) if verdict.patch.id == patch.id)
        if verdicts[number].outcome == "applies":
            return Changed(tree, changes_of(verdicts[:number])), verdicts[number]
    raise PatchError(
        f"{patch.place} applies to no pinned release of its range",
        where=str(patch.header.releases),
        hint=f"pin one in patches/{PINS}",
    )


def _moved(path: str, tree: Tree) -> str:
    """The file's path in the tree: the same, or the one place that its name moved to."""
    if tree.read(path) is not None:
        return path
    found = [other for other in tree.paths() if other.rsplit("/", 1)[-1] == path.rsplit("/", 1)[-1]]
    if len(found) != 1:
        raise PatchError(
            f"the tree has no {path}",
            where="\n".join(found) or "and no other file of that name",
            hint="carry it over by hand, then ./build.py patches new",
        )
    return found[0]


def _message(patch: Patch) -> bytes:
    """A patch's message; without the size that git wrote, which is no longer true."""
    return re.split(rb"(?m)^(?=---$|diff --git |--- a/)", patch.text, maxsplit=1)[0] + b"---\n"


def new_patch(library: Library, source: str, slug: str, version: Version, tree: Path, *, today: datetime.date) -> Path:
    """Write patch, record and series line for what ``tree`` changes in a release. Raises PatchError, UsageError."""
    folder = library.root / source
    last = max((int(patch.id[:4]) for patch in load_series(library.root, source)), default=0)
    name = f"{last + 1:04}-{slug}"
    if not NAME.fullmatch(name):
        raise UsageError(f"{slug!r} is no slug", hint="lower-case words with hyphens: moe-maps-are-zeroed")
    releases = load_releases(library.root)
    before, after = open_release(library, releases, source, version).tree, open_tree(tree)
    changed = _changed(before, after, tree)
    check_whole(str(tree), releases.source(source).layout, changed)
    head = HEADER.format(date=today, title=slug.replace("-", " "), source=source, version=version)
    text = head.encode() + b"".join(file_diff(path, before.read(path), after.read(path)) for path in changed)
    listed = (folder / "series").read_text(encoding="utf-8")
    (folder / f"{name}.patch").write_bytes(text)
    (folder / f"{name}.yaml").write_text(RECORD.format(version=version, path=changed[0]), encoding="utf-8")
    (folder / "series").write_text(f"{listed.rstrip()}\n{name}.patch\n", encoding="utf-8")
    return folder / f"{name}.patch"


def _changed(before: Tree, after: Tree, tree: Path) -> list[str]:
    """The files that differ; raises PatchError when there is none, when one is no text, or when the tree is a part."""
    left = [path for path in after.paths() if "__pycache__" not in path]
    gone = set(before.paths()) - set(left)
    if len(gone) > MOST_GONE:
        raise PatchError(
            f"{len(gone)} files of the release are not in {tree}",
            where="\n".join(sorted(gone)[:5]),
            hint="give the whole tree: unpack the release and edit it there",
        )
    changed = [path for path in sorted({*left, *gone}) if before.read(path) != after.read(path)]
    binary = next((path for path in changed if b"\0" in (after.read(path) or b"")), None)
    if not changed or binary:
        what = f"{binary} is no text" if binary else f"{tree} changes nothing of the release"
        raise PatchError(what, where=str(tree), hint="a patch changes, adds and deletes lines of text")
    return changed
