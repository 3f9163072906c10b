"""The outcome of a patch on a tree: one word, a reason, and the changed files. Pure but for reading the tree."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from packaging.version import Version

from gb10.patches.apply import ConflictError, apply_diff, apply_patch
from gb10.patches.condition import DefinedTwiceError, count_ast, count_regex, glob_regex, scope_text
from gb10.patches.diff import FileDiff
from gb10.patches.record import Answer, Condition, Record
from gb10.patches.series import Patch
from gb10.patches.source_tree import Changed, Tree


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
