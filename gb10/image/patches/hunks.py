"""Diffs of others on a release, hunk by hunk: what applies, what upstream has, what is gone, what conflicts.

Strict as ``git apply``: no hunk is moved to where it only nearly fits. The three-way result of a conflict is shown, and
never taken.
"""

import bisect
import datetime
import difflib
import os
import posixpath
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final, Literal

from packaging.version import Version

from gb10.errors import PatchError, UsageError
from gb10.image.patches.apply import ConflictError, apply_diff
from gb10.image.patches.diff import FileDiff, Hunk, check_diff, check_size, split
from gb10.image.patches.owners import Part, divide, owner_of
from gb10.image.patches.places import harmless, placed
from gb10.image.patches.release_files import Library, open_projects
from gb10.image.patches.releases import Releases, load_releases
from gb10.image.patches.source_tree import Changed, Tree
from gb10.image.patches.write import COMPILED, carry_over, file_diff

MOST: Final = 1_000
"""Diffs of a folder."""
ENDINGS: Final = (".patch", ".diff")
SERIES: Final = "series"
LONGEST_NAME: Final = 1_000
"""Characters of a name in it."""
SHORTEST: Final = 4
"""Characters of a line that tells something: `}` and `else:` stand everywhere."""
LARGEST_MERGE: Final = 1 << 20
"""Lines of a hunk, times lines of its file: a merge compares each with each."""
SUBJECT: Final = re.compile(rb"(?m)^Subject: (?:\[[^\]]*\] ?)?(.+(?:\n[ \t].+)*)")
LONGEST_TITLE: Final = 100
SOME: Final = 8
Outcome = Literal["applies", "already-upstream", "gone", "conflict", "left-out"]


@dataclass(frozen=True, kw_only=True, slots=True)
class HunkFate:
    """What becomes of one hunk; of a whole file ``line`` is 0. ``three_way`` is what a merge would give, for reading:
    a diff of the release when it is clean, else both sides with markers."""

    path: str
    line: int
    outcome: Outcome
    why: str
    three_way: bytes = b""
    clean: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class DiffFate:
    """What becomes of one diff, or of its part for one source. ``problem``: it could not be read, or is for another
    source. ``text`` changes the release as its hunks that apply do; empty when nothing is left to do. ``located``: the
    files of the release that paths without a folder of its package mean."""

    name: str
    title: str
    source: str = ""
    version: str = ""
    hunks: tuple[HunkFate, ...] = ()
    problem: str = ""
    text: bytes = b""
    located: Mapping[str, str] = field(default_factory=dict)

    @property
    def fits(self) -> bool:
        """Whether each hunk applies or is not needed."""
        return not self.problem and all(
            one.outcome in ("applies", "already-upstream", "left-out") for one in self.hunks
        )


class Growing(Changed):
    """A tree that many changes are laid on, one after the other; it stays one tree above the one below."""

    def __init__(self, below: Tree) -> None:
        self.laid: dict[str, bytes | None] = {}
        self.names: dict[str, list[str]] | None = None
        super().__init__(below, self.laid)

    def lay(self, changes: Mapping[str, bytes | None]) -> None:
        """Replace these files, too."""
        self.laid.update(changes)
        for path, content in changes.items() if self.names is not None else ():
            same = self.named(path.rpartition("/")[2])
            at = bisect.bisect_left(same, path)
            there = same[at : at + 1] == [path]
            if there and content is None:
                del same[at]
            elif not there and content is not None:
                same.insert(at, path)

    def named(self, name: str) -> list[str]:
        """The paths whose last part this is, sorted. All files are listed once, however often it is asked."""
        if self.names is None:
            self.names = {}
            for path in self.paths():
                self.names.setdefault(path.rpartition("/")[2], []).append(path)
        return self.names.setdefault(name, [])


def adopt_diffs(library: Library, place: Path, refs: Mapping[str, Version]) -> tuple[DiffFate, ...]:
    """The fate of a diff, or of each diff of a folder in its order, on these releases; each on what those before left.

    A release is one of a source, or of any project of the package index. Raises FetchError when it cannot be had, and
    PatchError for a file that is no diff at all: nothing is fetched for it.
    """
    found_diffs = find_diffs(place)
    if found_diffs == (place,) and stat.S_ISREG(place.lstat().st_mode):
        check_size(place.stat().st_size, place.name)
        check_diff(place.read_bytes(), place.name)
    releases, opened = open_projects(library, load_releases(library.root), refs)
    trees = {source: Growing(one.tree) for source, one in opened.items()}
    versions = {source: one.version for source, one in opened.items()}
    found = list[DiffFate]()
    for path in found_diffs:
        found += judged_diff(path, releases, versions, trees)
    return tuple(found)


def judged_diff(
    path: Path, releases: Releases, refs: Mapping[str, Version], trees: Mapping[str, Growing]
) -> tuple[DiffFate, ...]:
    """The fate of one diff, by source; ``trees`` are left as it changes them when all of it fits."""
    found = list[DiffFate]()
    for fate, changes in _fates(path, releases, refs, trees):
        if fate.fits and fate.source:
            trees[fate.source].lay(changes)
        found.append(fate)
    return tuple(found)


def find_diffs(place: Path) -> tuple[Path, ...]:
    """The diffs that a path means: a file, or those of a folder, in the order of its ``series``, else by name."""
    if place.is_file():
        return (place,)
    if not place.is_dir():
        raise UsageError(f"there is no {place}", hint="give a .patch or .diff file, or a folder of them")
    listed = place / SERIES
    if listed.is_file() and not listed.is_symlink():
        check_size(listed.stat().st_size, str(listed))
        lines = (line.partition("#")[0].split() for line in listed.read_text("utf-8", "replace").splitlines())
        names = [words[0] for words in lines if words]
        found = [_listed(place, name) for name in names[: MOST + 1]]
    else:
        found = sorted(path for path in place.iterdir() if path.suffix in ENDINGS)
    if not found or len(found) > MOST:
        what = f"more than {MOST:,} diffs" if found else "no diff"
        raise UsageError(f"{place} has {what}", hint="give a .patch or .diff file, or a folder of them")
    return tuple(found)


def _listed(place: Path, name: str) -> Path:
    """The file that a line of a ``series`` names; raises UsageError for one out of its folder, also by a link."""
    parts = Path(name[: LONGEST_NAME + 1]).parts
    if len(name) > LONGEST_NAME or "\0" in name or ".." in parts or Path(name).is_absolute():
        raise UsageError(f"{place / SERIES} leads out of its folder", where=repr(name[:200]))
    for depth in range(1, len(parts)):  # the last part is looked at when it is read
        way = place.joinpath(*parts[:depth])
        if os.path.islink(way):  # noqa: PTH114 - of a name that is too long it says no, and raises nothing
            raise UsageError(f"{place / SERIES} leads through a link, which is not followed", where=str(way))
    return place / name


def _fates(
    path: Path, releases: Releases, refs: Mapping[str, Version], trees: Mapping[str, Growing]
) -> Iterator[tuple[DiffFate, dict[str, bytes | None]]]:
    """The parts of one diff by source, and what each changes."""
    try:
        if not stat.S_ISREG(path.lstat().st_mode):
            raise UsageError(f"{path.name} is a link or no plain file: it is not followed")
        check_size(path.stat().st_size, path.name)
        text = path.read_bytes()
        check_diff(text, path.name)
        find = partial(_located, name=path.name, releases=releases, trees=trees)
        divided = divide(text, path.name, releases, next(iter(refs)) if len(refs) == 1 else None, find)
    except FileNotFoundError:
        yield DiffFate(name=path.name, title=path.stem, problem="there is no such file"), {}
        return
    except OSError as error:
        yield DiffFate(name=path.name, title=path.stem, problem=f"it cannot be read: {error.strerror}"), {}
        return
    except (PatchError, UsageError) as error:
        where = (error.where or "").splitlines()[:1]
        problem = ": ".join([error.message.removeprefix(f"{path.name}: "), *where])
        problem += f" ({error.hint})" if error.hint else ""
        yield DiffFate(name=path.name, title=path.stem, problem=problem), {}
        return
    for part in divided.parts:
        title = _title(text, path)
        if part.source not in trees:
            problem = f"it changes {part.source}: name its release, --ref {part.source}=VERSION"
            yield DiffFate(name=path.name, title=title, source=part.source, problem=problem), {}
            continue
        own = {diff.path for diff in part.diffs}
        located = {given: place for given, place in divided.located.items() if place in own}
        version = str(refs[part.source])
        fate = DiffFate(name=path.name, title=title, source=part.source, version=version, located=located)
        yield _judged(fate, part, releases, trees[part.source])


def _located(
    diffs: Sequence[FileDiff], *, name: str, releases: Releases, trees: Mapping[str, Growing]
) -> dict[str, tuple[str, str]]:
    """The sources and the paths there of files whose paths show no source: where the releases have them in one place
    alone. New files go beside those that are changed. Raises UsageError for several places."""
    folders = dict[str, set[tuple[str, str]]]()
    for diff in diffs:
        outside = harmless(diff.path) or diff.path.startswith(COMPILED)
        if diff.kind == "add" or outside or any(tree.read(diff.path) is not None for tree in trees.values()):
            continue
        places = [
            (*owner_of(releases, place), source)
            for source, tree in trees.items()
            for place in tree.named(posixpath.basename(diff.path))
        ]
        folders[diff.path] = {
            (source, place.removesuffix(diff.path))
            for owner, place, source in places
            if owner == source and place.endswith(f"/{diff.path}")
        }
    common = set[tuple[str, str]].intersection(*folders.values()) if folders else set()
    found = dict[str, tuple[str, str]]()
    for diff in diffs:
        some = common or folders.get(diff.path, set())
        if len(some) > 1:
            places_of = sorted(f"{folder}{diff.path}" for _, folder in some)
            raise UsageError(
                f"{name}: {diff.path} may be {len(some)} files",
                where=", ".join(places_of[:SOME]),
                hint="put the folder of the package into its paths",
            )
        if some and (diff.path in folders or diff.kind == "add"):
            source, folder = next(iter(some))
            found[diff.path] = source, f"{folder}{diff.path}"
    return found


def _title(text: bytes, path: Path) -> str:
    """The subject of a mail, else the file's name."""
    found = SUBJECT.search(text[: 1 << 14])
    title = " ".join(found[1].decode("utf-8", "replace").split()) if found else path.stem
    return "".join(sign for sign in title if sign.isprintable())[:LONGEST_TITLE] or "a diff"


def _judged(fate: DiffFate, part: Part, releases: Releases, tree: Growing) -> tuple[DiffFate, dict[str, bytes | None]]:
    """The fate of a part with its hunks, and the files that it changes."""
    layout = releases.source(part.source).layout
    hunks = list[HunkFate]()
    changes: dict[str, bytes | None] = {}
    for diff in part.diffs:
        path = placed(diff.path, layout, wheel=tree.installed)
        before = tree.read(path)
        after, found = _file(FileDiff(path, diff.kind, diff.hunks), before, tree)
        if harmless(diff.path) and any(one.outcome in ("gone", "conflict") for one in found):
            found = [HunkFate(path=path, line=0, outcome="left-out", why="nothing in an image reads it")]
            after = before
        hunks += found
        if after != before:
            changes[path] = after
    text = b"".join(file_diff(path, tree.read(path), content) for path, content in changes.items())
    return replace(fate, hunks=tuple(hunks), text=text), changes


def _file(diff: FileDiff, before: bytes | None, tree: Growing) -> tuple[bytes | None, list[HunkFate]]:
    """The file after the hunks that apply, and the fate of each hunk."""
    try:
        applied = apply_diff(diff, before)
    except ConflictError as error:
        whole = HunkFate(path=diff.path, line=0, outcome="conflict", why=error.conflict.why)
    else:
        offsets = applied.offsets or (0,)
        lines = [hunk.line for hunk in diff.hunks] or [0]
        return applied.content, [
            HunkFate(path=diff.path, line=line, outcome="applies", why=f"{offset:+} lines" if offset else "")
            for line, offset in zip(lines, offsets, strict=True)
        ]
    if diff.kind == "add":
        same = before == b"".join(line for hunk in diff.hunks for line in hunk.new)
        outcome: Outcome = "already-upstream" if same else "conflict"
        why = "the release has this very file" if same else "the release has another file there"
        return before, [HunkFate(path=diff.path, line=0, outcome=outcome, why=why)]
    if before is None:
        if diff.kind == "delete":
            why = "the release does not have the file either"
            return before, [HunkFate(path=diff.path, line=0, outcome="already-upstream", why=why)]
        name = diff.path.rpartition("/")[2]
        near = tree.named(name)[:3]
        own = "the wheel of the release" if tree.installed else "the release"
        why = f"{own} does not have the file" + (f"; of that name: {', '.join(near)}" if near else "")
        return before, [HunkFate(path=diff.path, line=hunk.line, outcome="gone", why=why) for hunk in diff.hunks]
    if diff.kind == "delete":
        return before, [whole]
    now, found = before, list[HunkFate]()
    for hunk in diff.hunks:
        now, fate = _hunk(diff.path, hunk, now)
        found.append(fate)
    return now, found


def _hunk(path: str, hunk: Hunk, now: bytes) -> tuple[bytes, HunkFate]:
    """One hunk alone on what those before it left."""
    one = FileDiff(path, "change", (hunk,))
    try:
        applied = apply_diff(one, now)
        return applied.content or b"", HunkFate(path=path, line=hunk.line, outcome="applies", why="")
    except ConflictError as error:
        conflict = error.conflict
    try:
        apply_diff(one.reversed(), now)
        return now, HunkFate(path=path, line=hunk.line, outcome="already-upstream", why="the release has these lines")
    except ConflictError:
        pass
    # Nothing that the hunk takes away is in the file, and most of what stands beside it is not either.
    kept, there = set(hunk.old) & set(hunk.new), _telling(split(now))
    changed, whole = _telling([line for line in hunk.old if line not in kept]), _telling(hunk.old)
    if bool(whole) and changed.isdisjoint(there) and 2 * len(whole & there) < len(whole):
        why = "the lines that it changes, and most beside them, are not in the file"
        return now, HunkFate(path=path, line=hunk.line, outcome="gone", why=why)
    small = len(hunk.old) * now.count(b"\n") <= LARGEST_MERGE
    three_way, clean = _three_way(path, hunk, now) if small else (b"", False)
    why = f"{conflict.why} (line {conflict.line})" if conflict.line else conflict.why
    return now, HunkFate(path=path, line=hunk.line, outcome="conflict", why=why, three_way=three_way, clean=clean)


def _telling(lines: Sequence[bytes]) -> set[bytes]:
    return {line.strip() for line in lines if len(line.strip()) >= SHORTEST}


def _three_way(path: str, hunk: Hunk, now: bytes) -> tuple[bytes, bool]:
    """A merge of the hunk and the file: a diff when it is clean, else both sides."""
    old, new = b"".join(hunk.old), b"".join(hunk.new)
    try:
        return file_diff(path, now, carry_over(path, old, new, now)), True
    except ConflictError:
        pass
    lines = split(now)
    blocks = difflib.SequenceMatcher(None, hunk.old, lines, autojunk=False).get_matching_blocks()[:-1]
    start = min((block.b for block in blocks), default=0)
    end = min(max((block.b + block.size for block in blocks), default=0), start + 2 * len(hunk.old))
    theirs = [line if line.endswith(b"\n") else line + b"\n" for line in lines[start:end]]
    ours = [line if line.endswith(b"\n") else line + b"\n" for line in hunk.new]
    head = f"<<<<<<< the release, {path}:{start + 1}\n".encode()
    return b"".join([head, *theirs, b"=======\n", *ours, b">>>>>>> the diff\n"]), False


HEAD: Final = """From 0000000000000000000000000000000000000000 Mon Sep 17 00:00:00 2001
From: somebody <somebody@example.invalid>
Date: {date:%a, %d %b %Y} 00:00:00 +0000
Subject: [PATCH] {title}

From {name}, a diff of others, as it applies to {source} {version}.

Origin: other
Forwarded: no
Last-Update: {date:%Y-%m-%d}
X-Applies-To: {source} =={version}
---
"""


def series_files(fates: Sequence[DiffFate], today: datetime.date) -> dict[str, bytes]:
    """The series of each source as files by path: patches that fit, and what became of the others. Pure."""
    files: dict[str, bytes] = {}
    for source in dict.fromkeys(fate.source for fate in fates if fate.source and fate.version):
        listed = list[str]()
        own = [fate for fate in fates if fate.source == source and fate.version]
        for number, fate in enumerate(own, 1):
            slug = re.sub(r"[^a-z0-9]+", "-", Path(fate.name).stem.lower()).strip("-") or "diff"
            name = f"{number:04}-{re.sub(r'^[0-9]+-', '', slug) or slug}.patch"
            if fate.fits and fate.text:
                head = HEAD.format(
                    date=today, title=fate.title, name=fate.name, source=source, version=Version(fate.version).public
                )
                files[f"{source}/{name}"] = head.encode() + fate.text
                listed.append(name)
            else:
                listed.append(f"# {fate.name}: {'nothing to do: upstream has it' if fate.fits else 'does not apply'}")
            merged = b"".join(one.three_way for one in fate.hunks)
            if merged:
                files[f"{source}/conflicts/{name.removesuffix('.patch')}.txt"] = merged
        files[f"{source}/{SERIES}"] = ("\n".join(listed) + "\n").encode()
    return files


def write_series(files: Mapping[str, bytes], folder: Path) -> None:
    """Write the files below a folder; raises UsageError when one of them is there already."""
    there = next((path for path in files if (folder / path).exists() or (folder / path).is_symlink()), None)
    if there is not None:
        raise UsageError(f"{folder / there} is there already", hint="name a new folder: --write DIR")
    for path, content in files.items():
        try:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(content)
        except OSError as error:
            raise UsageError(f"cannot write {folder / path}", where=error.strerror or str(error)) from error


def series_troubles(fates: Sequence[DiffFate]) -> tuple[str, ...]:
    """What does not apply, a line each."""
    found = list[str]()
    for fate in fates:
        if fate.problem:
            found.append(f"{fate.name}: {fate.problem}")
        found += [
            f"{fate.name}: {one.path}:{one.line}: {one.outcome}: {one.why}"
            for one in fate.hunks
            if one.outcome in ("gone", "conflict")
        ]
    return tuple(found)
