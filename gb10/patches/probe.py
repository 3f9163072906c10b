"""Asking a tree whether it has a defect: every case of a record is tried; exactly one answer may hold. Pure."""

from dataclasses import dataclass
from typing import Literal

from gb10.patches.condition import DefinedTwiceError, count_ast, count_regex, glob_regex, scope_text
from gb10.patches.record import Answer, Condition, Record
from gb10.patches.source_tree import Tree


@dataclass(frozen=True, slots=True)
class Answered:
    """What a probe found, and the reason its record gives."""

    answer: Answer | Literal["unknown-shape"]
    why: str


def ask(record: Record, tree: Tree) -> Answered:
    """The one answer whose conditions hold; ``unknown-shape`` when none or several do, or a file is no Python."""
    try:
        held = [case for case in record.probe if all(holds(condition, tree) for condition in case.when)]
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


def holds(condition: Condition, tree: Tree) -> bool:
    """Whether a condition is true of a tree; raises SyntaxError, DefinedTwiceError."""
    paths = files(condition.file, tree)
    texts = [text for path in paths if (text := _scoped(tree, path, condition.scope)) is not None]
    if condition.exists is not None:
        return bool(texts) == condition.exists
    if not texts:
        return False
    if condition.regex is not None:
        return condition.holds(sum(count_regex(text, condition.regex) for text in texts))
    return condition.holds(sum(count_ast(text, condition.ast or "") for text in texts))


def files(glob: str, tree: Tree) -> tuple[str, ...]:
    """The tree's files that a glob means."""
    pattern = glob_regex(glob)
    return tuple(path for path in tree.paths() if pattern.fullmatch(path))


def _scoped(tree: Tree, path: str, scope: str | None) -> str | None:
    content = tree.read(path)
    return None if content is None else scope_text(content.decode("utf-8", "replace"), scope)
