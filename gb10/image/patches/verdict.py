"""The outcome of a patch on a tree: one word, a reason, and the changed files. Pure but for reading the tree."""

import difflib
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Final, Literal

from packaging import __version__ as packaging_version
from packaging.version import Version
from pydantic import ValidationError

from gb10.core.fields import Model
from gb10.core.files import digest
from gb10.core.store import file_sha256, note_use
from gb10.errors import EmptySelectionError, PatchError, UsageError
from gb10.image.patches.apply import ConflictError, apply_diff, apply_patch
from gb10.image.patches.diff import FileDiff
from gb10.image.patches.record import (
    Answer,
    Condition,
    DefinedTwiceError,
    Record,
    count_ast,
    count_regex,
    glob_regex,
    scope_text,
)
from gb10.image.patches.release_files import Library, Opened, open_folder, open_release
from gb10.image.patches.releases import Release, Releases, load_releases
from gb10.image.patches.series import Patch, load_series, sources
from gb10.image.patches.source_tree import Changed, Tree


@dataclass(frozen=True, slots=True)
class Answered:
    """What a probe found, and the reason its record gives."""

    answer: Answer | Literal["unknown-shape"]
    why: str


def ask(record: Record, tree: Tree) -> Answered:
    """The one answer whose conditions hold; ``unknown-shape`` when none or several do, or a file is no Python."""
    asked = Asked(tree)
    try:
        held = [case for case in record.probe if all(holds(condition, asked) for condition in case.when)]
    except SyntaxError as error:
        return Answered("unknown-shape", f"a file that the probe reads is no Python: {error.msg}")
    except DefinedTwiceError as error:
        return Answered("unknown-shape", str(error))
    answers = {case.answer for case in held}
    if len(answers) == 1:
        return Answered(held[0].answer, held[0].why)
    if not answers:
        return Answered("unknown-shape", "the code looks like none of the releases that the probe knows")
    return Answered("unknown-shape", f"the probe finds {' and '.join(sorted(answers))} at once")


class Asked:
    """A tree while it is asked: its files are listed once for all conditions, and found once for each glob."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.paths = tree.paths()
        self.found: dict[str, tuple[str, ...]] = {}

    def files(self, glob: str) -> tuple[str, ...]:
        """The tree's files that a glob means."""
        if glob not in self.found:
            pattern = glob_regex(glob)
            self.found[glob] = tuple(path for path in self.paths if pattern.fullmatch(path))
        return self.found[glob]

    def texts(self, glob: str, scope: str | None) -> list[str]:
        """The files that a glob means, or the one function or class in each of them that has it."""
        contents = [content for path in self.files(glob) if (content := self.tree.read(path)) is not None]
        scoped = (scope_text(content.decode("utf-8", "replace"), scope) for content in contents)
        return [text for text in scoped if text is not None]


def holds(condition: Condition, asked: Asked) -> bool:
    """Whether a condition is true of a tree; raises SyntaxError, DefinedTwiceError."""
    texts = asked.texts(condition.file, condition.scope)
    if condition.exists is not None:
        return bool(texts) == condition.exists
    if not texts:
        return False
    if condition.regex is not None:
        return condition.holds(sum(count_regex(text, condition.regex) for text in texts))
    return condition.holds(sum(count_ast(text, condition.ast or "") for text in texts))


Outcome = Literal["applies", "not-applicable", "already-upstream", "superseded", "conflict", "unknown-shape"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """What becomes of a patch on a release; ``changes`` are its files afterwards (None: gone).

    ``left``: the release has the defect, and gets no patch on purpose.
    """

    patch: Patch
    outcome: Outcome
    probe: Answered
    why: str
    left: bool = False
    changes: Mapping[str, bytes | None] = field(default_factory=dict)
    offsets: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    @property
    def stops(self) -> bool:
        """Whether a build may not go on: the patch is for this release, and is not what it should be."""
        return self.outcome not in ("applies", "not-applicable")

    @property
    def overdue(self) -> bool:
        """Whether the defect is there, and neither a range nor the record decides what to do about it."""
        return self.outcome == "not-applicable" and self.probe.answer == "needed" and not self.left


def judge(patch: Patch, version: Version, tree: Tree) -> Verdict:
    """The outcome of one patch on one release."""
    answered = ask(patch.record, tree)
    if not patch.applies_to(version):
        return _left_out(patch, version, answered)
    if tree.installed and not patch.installable:
        return Verdict(
            patch=patch, outcome="not-applicable", probe=answered, why="a wheel does not hold what it changes"
        )
    if answered.answer in ("present", "superseded"):
        outcome: Outcome = "already-upstream" if answered.answer == "present" else "superseded"
        return Verdict(patch=patch, outcome=outcome, probe=answered, why=answered.why)
    tried = _try(patch, answered, tree)
    if tried.outcome == "conflict" and _is_there(patch, tree):
        return Verdict(
            patch=patch, outcome="already-upstream", probe=answered, why="the tree holds these lines already"
        )
    if answered.answer == "needed":
        return tried
    return Verdict(patch=patch, outcome="unknown-shape", probe=answered, why=answered.why)


def _left_out(patch: Patch, version: Version, answered: Answered) -> Verdict:
    left = patch.record.why_left(version)
    why = _outside(patch, answered, left)
    return Verdict(patch=patch, outcome="not-applicable", probe=answered, why=why, left=left is not None)


def judge_series(patches: Iterable[Patch], version: Version, tree: Tree) -> tuple[Verdict, ...]:
    """One verdict per id, in order, each on the tree that those before it left."""
    verdicts = []
    changes: dict[str, bytes | None] = {}
    for patch in variants_for(patches, version):
        verdict = judge(patch, version, Changed(tree, changes))
        changes.update(verdict.changes)
        verdicts.append(verdict)
    return tuple(verdicts)


def variants_for(patches: Iterable[Patch], version: Version) -> tuple[Patch, ...]:
    """Of each id the variant that is for a release, else its first; in the order of the series."""
    chosen: dict[str, Patch] = {}
    for patch in patches:
        if patch.id not in chosen or patch.applies_to(version):
            chosen[patch.id] = patch
    return tuple(chosen.values())


def changes_of(verdicts: Iterable[Verdict]) -> dict[str, bytes | None]:
    """The files that the applied patches leave, the last one's content for each."""
    return {path: content for verdict in verdicts for path, content in verdict.changes.items()}


def _outside(patch: Patch, answered: Answered, left: str | None) -> str:
    bounds = sorted(map(str, patch.header.releases), reverse=True)  # the lower one first
    reason = f"outside {','.join(bounds)}"
    if answered.answer != "needed":
        return f"{reason}: {answered.why}"
    there = f"the defect is there: {answered.why}"
    return f"{reason}, where {there}; left so: {left}" if left else f"{reason}, but {there}"


def _try(patch: Patch, answered: Answered, tree: Tree) -> Verdict:
    try:
        changes = apply_patch(patch.diffs, patch.files, tree.read)
    except ConflictError as error:
        return Verdict(patch=patch, outcome="conflict", probe=answered, why=str(error.conflict))
    return Verdict(
        patch=patch,
        outcome="applies",
        probe=answered,
        why=answered.why,
        changes=changes.files,
        offsets=changes.offsets,
    )


def _is_there(patch: Patch, tree: Tree) -> bool:
    """Whether the whole patch can be taken back: then it is applied, whoever did it."""
    return all(_reversible(diff, tree) for diff in patch.diffs) and all(
        tree.read(path) == new for path, new in patch.files.items()
    )


def _reversible(diff: FileDiff, tree: Tree) -> bool:
    try:
        apply_diff(diff.reversed(), tree.read(diff.path))
    except ConflictError:
        return False
    return True


LISTED = "./build.py patches status lists them"
NOW = {
    "not-applicable": "plan and tree disagree: take another release, or widen its X-Applies-To",
    "already-upstream": "end its X-Applies-To before this release",
    "superseded": "end its X-Applies-To before this release",
    "conflict": "./build.py patches refresh {name} --tree DIR, or end its X-Applies-To before this release",
    "unknown-shape": "read the file, then teach the probe this shape",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One release and what becomes of every patch of its source."""

    source: str
    version: Version
    pinned: bool
    verdicts: tuple[Verdict, ...]
    release: Release | None = None


def releases_in_words(count: int) -> str:
    """``1 release``, ``2 releases``. Pure."""
    return "1 release" if count == 1 else f"{count} releases"


def status(library: Library, source: str, versions: Sequence[Version], tree: Path | None = None) -> tuple[Row, ...]:
    """The rows of a source: the pinned releases, or the requested ones. Raises PatchError, FetchError, UsageError.

    The verdicts on a pinned release are kept in the store, without the files that the patches leave.
    """
    patches = load_series(library.root, source)
    if not patches:
        raise EmptySelectionError(
            f"the series of {source} is empty",
            where=f"patches/{source}/series",
            hint="its README.md explains why there is no patch",
        )
    releases = load_releases(library.root)
    if tree is not None:
        return tuple(judged_row(patches, open_folder(tree, releases, source, version)) for version in versions)
    wanted = versions or sorted(map(Version, releases.source(source).releases))
    with (
        ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool,
        library.reporter.task(f"{source}: {releases_in_words(len(wanted))}") as task,
    ):

        def row(version: Version) -> Row:
            made = _kept_row(library, releases, patches, source, version)
            library.reporter.advance(task, 1)
            return made

        return tuple(pool.map(row, wanted))


ROOM: Final = "verdicts"
FILE: Final = "row.json"


class KeptVerdict(Model):
    """A verdict as the store keeps it: ``patch`` is the name in the series."""

    patch: str
    outcome: Outcome
    answer: Answer | Literal["unknown-shape"]
    found: str
    why: str
    left: bool


class KeptRow(Model):
    """The verdicts on one release, in the order of the series."""

    verdicts: tuple[KeptVerdict, ...]


def _kept_row(library: Library, releases: Releases, patches: Sequence[Patch], source: str, version: Version) -> Row:
    """The row of a release. Of a pinned one it is made once for the content of all that decides it."""
    pins = releases.source(source)
    pinned = pins.pinned(version)
    if pinned is None:
        return judged_row(patches, open_release(library, releases, source, version))
    chosen = {patch.name: patch for patch in variants_for(patches, version)}
    decides = [
        [source, str(version), pinned.model_dump_json(), pins.model_dump_json(include={"layout", "told"})],
        [[name, patch.sha256, patch.record.model_dump_json()] for name, patch in chosen.items()],
        _judging(),
    ]
    kept = library.store.entry(ROOM, digest(decides)) / FILE
    try:
        found = KeptRow.model_validate_json(kept.read_bytes()).verdicts
        verdicts = tuple(
            Verdict(
                patch=chosen[one.patch],
                outcome=one.outcome,
                probe=Answered(one.answer, one.found),
                why=one.why,
                left=one.left,
            )
            for one in found
        )
        note_use(kept)
        return Row(source=source, version=version, pinned=True, verdicts=verdicts, release=pinned)
    except (FileNotFoundError, ValidationError, KeyError):  # not judged yet, or damaged
        made = judged_row(patches, open_release(library, releases, source, version))
    row = KeptRow(
        verdicts=tuple(
            KeptVerdict(
                patch=one.patch.name,
                outcome=one.outcome,
                answer=one.probe.answer,
                found=one.probe.why,
                why=one.why,
                left=one.left,
            )
            for one in made.verdicts
        )
    )
    with library.store.locked(f"verdict-{kept.parent.name}"):
        library.store.write_text(kept, row.model_dump_json(by_alias=True))
    return made


@lru_cache
def _judging() -> str:
    """Digest of what judges a patch: this folder's code, and the Python whose parser it asks."""
    own = [(path.name, file_sha256(path)) for path in sorted(Path(__file__).parent.glob("*.py"))]
    return digest([own, sys.version, packaging_version])


def judged_row(patches: Iterable[Patch], opened: Opened) -> Row:
    """What becomes of every patch of a source on a release; the verdicts have the files that the patches leave."""
    verdicts = judge_series(patches, opened.version, opened.tree)
    return Row(
        source=opened.source,
        version=opened.version,
        pinned=opened.pinned,
        verdicts=verdicts,
        release=opened.release,
    )


def troubles(rows: Iterable[Row]) -> tuple[str, ...]:
    """What a maintainer must mend: patches that stop a build, defects that no range covers."""
    found = []
    for row in rows:
        for verdict in row.verdicts:
            if verdict.stops or verdict.overdue:
                found.append(
                    f"{verdict.patch.place} on {row.source} {row.version}: {outcome_of(verdict)}\n  {verdict.why}"
                )
    return tuple(found)


def outcome_of(verdict: Verdict) -> str:
    """The word for a verdict: its outcome, or ``overdue`` when no range covers the defect."""
    return "overdue" if verdict.overdue else verdict.outcome


def refuse(verdicts: Iterable[Verdict], version: Version) -> None:
    """Raise PatchError for the first patch that was planned for this release and does not do its work there."""
    for verdict in verdicts:
        if verdict.outcome != "applies":
            patch = verdict.patch
            raise PatchError(
                f"{patch.place} on {patch.source} {version}: {verdict.outcome}",
                where=f"{verdict.why}\nX-Applies-To: {patch.header.get('X-Applies-To')}",
                hint=remedy(verdict),
            )


def remedy(verdict: Verdict) -> str:
    """What a maintainer does about a patch that stops a build."""
    absent = verdict.outcome == "unknown-shape" and verdict.probe.answer == "absent"
    return NOW["superseded" if absent else verdict.outcome].format(name=f"{verdict.patch.source}/{verdict.patch.name}")


def find_patches(root: Path, name: str) -> tuple[Patch, ...]:
    """The variants that ``[SOURCE/]NNNN-slug`` names, or the one of a file's name. Raises UsageError."""
    source, _, own = name.removeprefix("patches/").rpartition("/")
    known = [patch for each in ([source] if source else sources(root)) for patch in load_series(root, each)]
    found = tuple(patch for patch in known if own in (patch.id, patch.name, patch.name.removesuffix(".patch")))
    if found and len({patch.source for patch in found}) == 1:
        return found
    names = sorted({f"{patch.source}/{patch.id}" for patch in found or known})
    close = list(names) if found else difflib.get_close_matches(name, names, n=3, cutoff=0.3)
    what = "several sources have a patch" if found else "there is no patch"
    raise UsageError(f"{what} {name!r}", hint=f"did you mean {' or '.join(close)}?" if close else LISTED)
