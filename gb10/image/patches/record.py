"""The record beside a patch: the defect in words, and the probe that finds whether a tree has it. Pure."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import PurePosixPath
from threading import Lock
from typing import Annotated, Final, Literal, Self

from packaging.specifiers import SpecifierSet
from packaging.version import Version
from pydantic import AfterValidator, Field, StringConstraints, model_validator

from gb10.core.fields import Model, Releases, Sentence, accepted

WILDCARD = "_"
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
PARSING = Lock()
LINE: Final = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")


def check_glob(text: str) -> str:
    """A glob relative to the root: ``**`` stands for any folders; raises ValueError."""
    if text.startswith("/") or ".." in text.split("/"):
        raise ValueError(f"{text!r} is not below the source's root")
    return text


def _regex(text: str) -> re.Pattern[str]:
    return re.compile(text, re.MULTILINE)


def _pattern(text: str) -> ast.AST:
    statement = parse(text.strip()).body
    if len(statement) != 1:
        raise SyntaxError("one expression or statement is wanted")
    return statement[0].value if isinstance(statement[0], ast.Expr) else statement[0]


DEEP: Final = (RecursionError, MemoryError)
"""What Python raises for a text that nests too deeply."""
Regex = Annotated[
    str, accepted(_regex, (re.error, OverflowError, *DEEP), "{text} is not a regular expression: {reason}")
]
Pattern = Annotated[str, accepted(_pattern, (SyntaxError, *DEEP), "{text} is not Python: {reason}")]
"""One Python expression or statement."""


@lru_cache
def glob_regex(glob: str) -> re.Pattern[str]:
    """The paths that a glob means: ``*`` stays in a folder, ``**/`` is any number of them."""
    parts = re.split(r"(\*\*/|\*\*|\*|\?)", glob)
    meaning = {"**/": r"(?:.*/)?", "**": r".*", "*": r"[^/]*", "?": r"[^/]"}
    return re.compile("".join(meaning.get(part, re.escape(part)) for part in parts))


def scope_text(text: str, scope: str | None) -> str | None:
    """The source of one function or class, named with dots; the whole text without a scope; None when absent.

    Raises SyntaxError, and DefinedTwiceError for a name that a later plain definition replaces.
    """
    if scope is None:
        return text
    if not all(name in text for name in scope.split(".")):
        return None  # most files, and parsing is slow
    node: ast.AST | None = parse(text)
    for name in scope.split("."):
        found = [child for child in _definitions(node) if child.name == name] if node else []
        plain = [child for child in found if not child.decorator_list and child in getattr(node, "body", ())]
        if len(plain) > 1:  # with a decorator it may be an overload, or a property's setter
            raise DefinedTwiceError(f"{name} is defined in line {plain[0].lineno} and again in line {plain[-1].lineno}")
        node = found[0] if found else None
    return _segment(text, node) if isinstance(node, Definition) else None


def _segment(text: str, node: Definition) -> str:
    """The source of a definition, as ast.get_source_segment cuts it: that goes through all of the text each time."""
    lines = list(_lines(text)[node.lineno - 1 : node.end_lineno])
    lines[-1] = lines[-1].encode()[: node.end_col_offset].decode()  # before the start: it may be the same line
    lines[0] = lines[0].encode()[node.col_offset :].decode()
    return "".join(lines)


@lru_cache(maxsize=64)
def _lines(text: str) -> tuple[str, ...]:
    """Lines as Python counts them: a form feed ends none."""
    return tuple(LINE.findall(text))


class DefinedTwiceError(Exception):
    """Python uses the last definition of a name, so the first one may never run."""


def _definitions(node: ast.AST) -> Iterator[Definition]:
    """Definitions directly below a node, also those under an ``if`` or a ``try``."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Definition):
            yield child
        elif isinstance(child, ast.stmt | ast.ExceptHandler):
            yield from _definitions(child)


@lru_cache(maxsize=64)
def parse(text: str) -> ast.Module:
    """The syntax tree of a Python file; raises SyntaxError. One at a time: 3.11 counts the depth of all as one."""
    with PARSING:
        return ast.parse(text)


def count_regex(text: str, regex: str) -> int:
    """How often a regular expression matches."""
    return sum(1 for _ in re.finditer(regex, text, re.MULTILINE))


def count_ast(text: str, pattern: str) -> int:
    """How many nodes look like the pattern; raises SyntaxError."""
    wanted = _pattern(pattern)
    any_expression = isinstance(wanted, ast.Name) and wanted.id == WILDCARD
    nodes = ast.walk(parse(text)) if any_expression else _nodes(text).get(type(wanted), ())
    return sum(_alike(wanted, node) for node in nodes)


@lru_cache(maxsize=64)
def _nodes(text: str) -> Mapping[type[ast.AST], Sequence[ast.AST]]:
    """The nodes of a Python file by their kind: several patterns look at one file."""
    found: defaultdict[type[ast.AST], list[ast.AST]] = defaultdict(list)
    for node in ast.walk(parse(text)):
        found[type(node)].append(node)
    return found


def _alike(wanted: object, found: object) -> bool:
    """Equal but for places in the file; ``_`` is any expression, ``...`` among arguments is any rest of them."""
    if isinstance(wanted, ast.Name) and wanted.id == WILDCARD and isinstance(found, ast.expr):
        return True
    if isinstance(wanted, ast.AST):
        return type(wanted) is type(found) and _fields_alike(wanted, found)
    if isinstance(wanted, list):
        return isinstance(found, list) and _lists_alike(wanted, found)
    return wanted == found


def _fields_alike(wanted: ast.AST, found: object) -> bool:
    skipped = {"ctx", "type_comment", "kind"}
    if isinstance(wanted, ast.Call) and any(map(_is_rest, wanted.args)) and not wanted.keywords:
        skipped.add("keywords")
    return all(
        _alike(value, getattr(found, name, None)) for name, value in ast.iter_fields(wanted) if name not in skipped
    )


def _lists_alike(wanted: list[object], found: list[object]) -> bool:
    if wanted and _is_rest(wanted[-1]):
        return _lists_alike(wanted[:-1], found[: len(wanted) - 1])
    return len(wanted) == len(found) and all(map(_alike, wanted, found))


def _is_rest(node: object) -> bool:
    return isinstance(node, ast.Constant) and node.value is Ellipsis


KERNELS: Final = re.compile(r"kernels(/[a-z0-9_-]+)+/[\w.*-]+")
Answer = Literal["needed", "present", "superseded", "absent"]


class Condition(Model):
    """One thing to look at: text or syntax in a file, or in one function of it, and how often it must be there."""

    file: Annotated[str, AfterValidator(check_glob)]
    scope: str | None = None
    regex: Regex | None = None
    ast: Pattern | None = None
    exists: bool | None = None
    count: int | str = ">=1"

    @model_validator(mode="after")
    def _one_question(self) -> Self:
        if sum(question is not None for question in (self.regex, self.ast, self.exists)) != 1:
            raise ValueError("needs exactly one of regex, ast and exists")
        if isinstance(self.count, str) and not re.fullmatch(r">=\d+", self.count):
            raise ValueError(f'count is a number or ">=n", found {self.count!r}')
        return self

    def holds(self, number: int) -> bool:
        """Whether this number of matches is the required one."""
        return number == self.count if isinstance(self.count, int) else number >= int(self.count[2:])


class Case(Model):
    """One shape that a tree can have: all conditions hold, and then the answer."""

    answer: Answer
    why: Annotated[str, StringConstraints(min_length=3)]
    when: Annotated[tuple[Condition, ...], Field(min_length=1)]


def _folder(text: str) -> str:
    path = PurePosixPath(text)
    if not path.parts or path.is_absolute() or ".." in path.parts or str(path) != text:
        raise ValueError(f"{text!r} is no folder below the source's root")
    return text


def _kernels(text: str) -> str:
    if not KERNELS.fullmatch(text):
        raise ValueError(f"{text!r} is no file of our kernels, as kernels/moe/*.cu is")
    return text


Place = Annotated[str, AfterValidator(_folder)]
OurFile = Annotated[str, AfterValidator(_kernels)]


class Record(Model):
    """A defect of an upstream release, and how it is detected.

    ``adds``: a folder of the source -> files of our kernels that the patch lays there.
    ``left``: releases that have the defect and get no patch on purpose, and why.
    ``needs``: other patches of ours, as SOURCE/NNNN-slug, without which it is not applied, or makes no sense.
    ``modules``: those of a kernel set that alone are compiled from what it changes; a build of others does not get it.
    """

    defect: Sentence
    fix: Sentence
    since: str | None = None
    until: str | None = None
    upstream: str | None = None
    proven: Sentence
    adds: dict[Place, Annotated[tuple[OurFile, ...], Field(min_length=1)]] = Field(default_factory=dict)
    left: dict[Releases, Sentence] = Field(default_factory=dict)
    needs: tuple[Annotated[str, StringConstraints(pattern=r"^[a-z0-9-]+/\d{4}-[a-z0-9-]+$")], ...] = ()
    modules: tuple[Annotated[str, StringConstraints(pattern=r"^\w+$")], ...] = ()
    probe: Annotated[tuple[Case, ...], Field(min_length=1)]

    def why_left(self, version: Version) -> str | None:
        """Why a release with the defect gets no patch; None when that is an oversight."""
        release = Version(version.public)
        return next(
            (why for text, why in self.left.items() if SpecifierSet(text, prereleases=True).contains(release)), None
        )
