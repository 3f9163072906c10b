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
