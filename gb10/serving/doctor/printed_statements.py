"""Statements of a program that print: raises, asserts, checks and log lines, with the condition that guards each. Pure.

Python files are read by their syntax tree; nothing is imported or run. A text becomes words: those of its literal
parts, without what is filled in.
"""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final, Literal

Kind = Literal["raise", "assert", "log", "exit"]
LARGEST: Final = 4 << 20
"""Bytes of a file that is read."""
CPP: Final = (".cu", ".cuh", ".cc", ".cpp", ".cxx", ".h", ".hpp", ".inc", ".inl")
"""How names of files of C++ and CUDA end."""
WORD: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]{2,}|[0-9]{3,}")
COMMON: Final = frozenset(
    (
        *(
            "the",
            "and",
            "for",
            "not",
            "with",
            "that",
            "this",
            "you",
            "are",
            "but",
        ),
        *(
            "from",
            "can",
            "has",
            "have",
            "was",
            "will",
            "must",
            "should",
            "use",
            "your",
        ),
        *(
            "please",
            "set",
            "when",
            "error",
            "value",
            "values",
            "got",
            "expected",
            "invalid",
            "failed",
        ),
        *(
            "none",
            "true",
            "false",
            "type",
            "model",
            "using",
        ),
    )
)
"""Words that say too little to find a statement by."""
MOST_WORDS: Final = 12
"""Words of a statement that are kept: the longest."""
DEEPEST: Final = 3
"""Conditions around a statement that are kept, the innermost."""
CONDITION: Final = 400
LOGGERS: Final = frozenset(("logger", "logging", "log", "_logger", "LOG", "self.logger", "tllm_logger"))
LEVELS: Final = frozenset(
    ("debug", "info", "warning", "warn", "error", "critical", "exception", "fatal", "info_once", "warning_once", "log")
)
VARIABLE: Final = re.compile(r"[A-Z][A-Z0-9]{1,20}_[A-Z0-9_]{2,60}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Statement:
    """One statement. ``parts`` are the literal texts; between two of them stands what ``holes`` has there."""

    kind: Kind
    exception: str
    parts: tuple[str, ...]
    holes: tuple[str, ...]
    conditions: tuple[str, ...] = ()
    """The innermost is the first."""
    names: tuple[str, ...] = ()
    """Names of attributes and variables in its conditions and its text, then of its function."""
    file: str = ""
    line: int = 0
    end: int = 0
    function: str = ""

    @property
    def words(self) -> tuple[str, ...]:
        """The words that it is found by, in their order."""
        return telling_words(" ".join(self.parts))

    def values(self, message: str) -> dict[str, str]:
        """What a message has in place of each hole; empty when the message is not of this statement."""
        if not self.holes:
            return {}
        pattern = "".join(
            f"{re.escape(part)}{'(.{0,300}?)' if index < len(self.holes) else ''}"
            for index, part in enumerate(self.parts)
        )
        flat = " ".join(message.split())
        found = re.search(re.sub(r"(?:\\\s|\s)+", r"\\s+", pattern) + ("$" if self.parts[-1] == "" else ""), flat)
        if found is None:
            return {}
        return {hole: value for hole, value in zip(self.holes, found.groups(), strict=False) if value not in ("", hole)}


def telling_words(text: str) -> tuple[str, ...]:
    """The words of a text that tell it from others: at most MOST_WORDS, the longest, in their order."""
    words = dict.fromkeys(word.lower() for word in WORD.findall(text))
    telling = [word for word in words if word not in COMMON]
    kept = set(sorted(telling, key=len, reverse=True)[:MOST_WORDS])
    return tuple(word for word in telling if word in kept)


def word_hash(word: str) -> int:
    """32 bits of a word."""
    return int.from_bytes(blake2b(word.encode(), digest_size=4).digest(), "big")


def python_statements(text: str, file: str) -> tuple[Statement, ...]:
    """The statements of a Python file; none of a file that is no Python of today or is too large or too deep."""
    if len(text) > LARGEST:
        return ()
    try:
        tree = ast.parse(text)
        return tuple(_Reader(file).read(tree))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()


@dataclass(slots=True)
class _Scope:
    name: str
    assigned: dict[str, ast.expr] = field(default_factory=dict)
    names: dict[str, None] = field(default_factory=dict)


class _Reader:
    def __init__(self, file: str) -> None:
        self._file = file

    def read(self, tree: ast.Module) -> Iterator[Statement]:
        yield from self._body(tree.body, (), _Scope("<module>"))

    def _body(self, body: Sequence[ast.stmt], conditions: tuple[str, ...], scope: _Scope) -> Iterator[Statement]:
        for one in body:
            yield from self._statement(one, conditions, scope)
            match one:
                case ast.If(test=test, body=[*_, ast.Return() | ast.Continue() | ast.Break() | ast.Raise()], orelse=[]):
                    conditions = (f"not ({_source(test)})", *conditions)

    def _statement(self, one: ast.stmt, conditions: tuple[str, ...], scope: _Scope) -> Iterator[Statement]:
        match one:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                inner = _Scope(one.name, names=dict.fromkeys(() if isinstance(one, ast.ClassDef) else _names(one)))
                yield from self._body(one.body, (), inner)
            case ast.If() | ast.While():
                yield from self._body(one.body, (_source(one.test), *conditions), scope)
                yield from self._body(one.orelse, (f"not ({_source(one.test)})", *conditions), scope)
            case ast.For() | ast.AsyncFor() | ast.With() | ast.AsyncWith():
                yield from self._body([*one.body, *getattr(one, "orelse", ())], conditions, scope)
            case ast.Try() | ast.Match():
                yield from self._branches(one, conditions, scope)
            case ast.Assign(targets=[ast.Name(id=name)]):
                scope.assigned[name] = one.value
            case ast.Raise(exc=ast.Call() as call):
                yield from self._made(one, "raise", _called(call.func), _arguments(call), conditions, scope)
            case ast.Assert():
                held = (f"not ({_source(one.test)})", *conditions)
                message = [one.msg] if one.msg else [ast.Constant(_source(one.test))]
                yield from self._made(one, "assert", "AssertionError", message, held, scope)
            case ast.Expr(value=ast.Call() as call):
                yield from self._call(one, call, conditions, scope)

    def _branches(self, one: ast.Try | ast.Match, conditions: tuple[str, ...], scope: _Scope) -> Iterator[Statement]:
        if isinstance(one, ast.Match):
            for case in one.cases:
                yield from self._body(case.body, conditions, scope)
            return
        yield from self._body(one.body, conditions, scope)
        for handler in one.handlers:
            caught = _source(handler.type) if handler.type else "any exception"
            yield from self._body(handler.body, (f"{caught} is raised", *conditions), scope)
        yield from self._body([*one.orelse, *one.finalbody], conditions, scope)

    def _call(self, one: ast.stmt, call: ast.Call, conditions: tuple[str, ...], scope: _Scope) -> Iterator[Statement]:
        owner, _, verb = _called(call.func).rpartition(".")
        if verb in LEVELS and (owner in LOGGERS or owner.endswith(("logger", "logging"))):
            yield from self._made(one, "log", verb.removesuffix("_once"), call.args[:1], conditions, scope)
        elif verb in ("_check", "_check_value") and owner == "torch" and len(call.args) > 1:
            held = (f"not ({_source(call.args[0])})", *conditions)
            yield from self._made(one, "raise", "RuntimeError", call.args[1:2], held, scope)
        elif (verb == "error" and owner.endswith("parser")) or f"{owner}.{verb}" == "sys.exit":
            yield from self._made(one, "exit", "SystemExit", call.args[:1], conditions, scope)

    def _made(  # noqa: PLR0917 - one of each
        self,
        one: ast.stmt,
        kind: Kind,
        exception: str,
        arguments: Iterable[ast.expr],
        conditions: tuple[str, ...],
        scope: _Scope,
    ) -> Iterator[Statement]:
        parts, holes = [""], list[str]()
        for argument in arguments:
            _literals(argument, parts, holes, scope.assigned, 0)
        identifiers = re.findall(r"[A-Za-z_]\w{2,60}", " ".join((*conditions[:DEEPEST], *holes)))
        found = Statement(
            kind=kind,
            exception=exception.rpartition(".")[2][:80],
            parts=tuple(parts),
            holes=tuple(holes),
            conditions=conditions[:DEEPEST],
            names=tuple(dict.fromkeys((*identifiers, *scope.names)))[:60],
            file=self._file,
            line=one.lineno,
            end=one.end_lineno or one.lineno,
            function=scope.name,
        )
        if len(found.words) >= 2:
            yield found


def pieces(text: str) -> list[str]:
    """A text without the places that its format fills in: ``%s``, ``%(name)d``, ``%zu``, ``{0:x}``."""
    return re.split(r"%(?:\(\w+\))?[-+ #0]*\d*(?:\.\d+)?(?:hh|ll?|z|t|j)?[srdiufgxXeEcp]|\{[\w.!:<>\[\]]*\}", text)


def _literals(one: ast.expr, parts: list[str], holes: list[str], assigned: Mapping[str, ast.expr], depth: int) -> None:
    """Add the literal texts of an expression, and the source of what is filled in."""

    def hole(expression: ast.expr) -> None:
        holes.append(_source(expression)[:120])
        parts.append("")

    match one:
        case ast.Constant(value=str(text)):
            first, *rest = pieces(text)
            parts[-1] += first
            for piece in rest:
                holes.append("…")
                parts.append(piece)
        case ast.JoinedStr():
            for value in one.values:
                if isinstance(value, ast.FormattedValue):
                    hole(value.value)
                elif isinstance(value, ast.Constant):
                    parts[-1] += str(value.value)
        case ast.BinOp(op=ast.Add()) if depth < 40:
            _literals(one.left, parts, holes, assigned, depth + 1)
            _literals(one.right, parts, holes, assigned, depth + 1)
        case (
            ast.BinOp(op=ast.Mod(), left=inner)
            | ast.Call(func=ast.Attribute(value=inner, attr="format"))
            | ast.Lambda(body=inner)
        ) if depth < 40:
            _literals(inner, parts, holes, assigned, depth + 1)
        case ast.Name(id=name) if name in assigned and depth < 3:
            _literals(assigned[name], parts, holes, {}, depth + 1)
        case _:
            hole(one)


def _arguments(call: ast.Call) -> list[ast.expr]:
    return [*call.args, *(one.value for one in call.keywords if one.arg in ("message", "msg", "detail", "err_msg"))]


def _called(one: ast.expr) -> str:
    return _source(one)[:120]


def _source(one: ast.expr) -> str:
    return ast.unparse(one)[:CONDITION]


def _names(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    """Attributes, variables and texts in capitals of a function: what may be an option or a variable."""
    for one in ast.walk(function):
        match one:
            case ast.Attribute(attr=name):
                yield name
            case ast.arg(arg=name):
                yield name
            case ast.Constant(value=str(text)) if VARIABLE.fullmatch(text):
                yield text
