"""The outcome of a patch on a tree: one word, a reason, and the changed files. Pure but for reading the tree."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from packaging.version import Version

from gb10.patches.apply import ConflictError, apply_diff, apply_patch
from gb10.patches.diff import FileDiff
from gb10.patches.probe import Answered, ask
from gb10.patches.series import Patch
from gb10.patches.source_tree import Changed, Tree

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
