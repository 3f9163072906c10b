"""Values that an engine's own registries allow: enums, tables and lists in its Python files, by syntax tree."""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

REGISTRIES: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    "vllm": {
        "--attention-backend": ("AttentionBackendEnum",),
        "--quantization": ("QuantizationMethods",),
        "--kv-cache-dtype": ("CacheDType",),
        "--dtype": ("ModelDType",),
        "--load-format": ("LoadFormats",),
        "--tool-call-parser": ("_TOOL_PARSERS_TO_REGISTER",),
        "--reasoning-parser": ("_REASONING_PARSERS_TO_REGISTER",),
        "--moe-backend": ("MoEBackend",),
        "--speculative-config.method": ("SpeculativeMethod",),
    },
    "sglang": {
        "--tool-call-parser": ("TOOL_CALL_PARSER_NAMES", "ToolCallParserEnum"),
        "--reasoning-parser": ("REASONING_PARSER_NAMES", "DetectorMap"),
        "--speculative-algorithm": ("SpeculativeAlgorithm",),
    },
}
"""The names under which an engine keeps what an option takes; of several the first that a release has.

An option with a dot is a key of a JSON value.
"""
ALSO: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    "vllm": {"--attention-backend": ("auto",)},
    "sglang": {"--tool-call-parser": ("auto",), "--reasoning-parser": ("auto",), "--speculative-algorithm": ("NEXTN",)},
}
"""Words that the engines take beside their registries, for the engine to choose or as another name."""
DEEPEST: Final = 24
"""Expressions in expressions and names in names."""
COPIES: Final = ("list", "tuple", "set", "sorted", "frozenset", "get_args")
LARGEST: Final = 4 << 20
"""Characters of a file that is parsed."""


class NamedValues:
    """What the names of an engine stand for: assignments and classes of its files, parsed when a name is asked for."""

    def __init__(self, texts: Mapping[str, str], trees: Iterable[ast.Module] = ()) -> None:
        """``trees`` are files that were parsed already: their names are looked up first."""
        self._texts = texts
        self._nodes: dict[str, list[ast.AST]] = {}
        self._searched: set[str] = set()
        for tree in trees:
            self._add(tree)

    def _add(self, tree: ast.Module) -> None:
        for node in ast.walk(tree):
            match node:
                case ast.ClassDef(name=name):
                    self._nodes.setdefault(name, []).append(node)
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    self._nodes.setdefault(name, []).append(value)
                case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                    self._nodes.setdefault(name, []).append(value)

    def _candidates(self, name: str) -> Iterator[ast.AST]:
        """All that has the name: some files have an alias for it that says less (``QuantizationMethods = Any``)."""
        known = tuple(self._nodes.get(name, ()))
        yield from known
        if name not in self._searched:
            self._searched.add(name)
            written = re.compile(rf"^\s*(?:class {re.escape(name)}\b|{re.escape(name)}\s*(?::[^=\n]*)?=(?!=))", re.M)
            for text in self._texts.values():
                if name in text and len(text) < LARGEST and written.search(text):
                    self._add(ast.parse(text))
        yield from self._nodes.get(name, ())[len(known) :]

    def texts_of(self, name: str, depth: int = 0) -> tuple[str, ...]:
        """The texts that a name holds: members of an enum, entries of a list, keys of a table. Empty if unknown."""
        for node in self._candidates(name) if depth < DEEPEST else ():
            found = tuple(_members(node)) if isinstance(node, ast.ClassDef) else self._of(node, depth)
            if found:
                return found
        return ()

    def _of(self, node: ast.AST, depth: int) -> tuple[str, ...]:
        return self.texts(node, depth + 1) if isinstance(node, ast.expr) else ()

    def texts(self, node: ast.expr | None, depth: int = 0) -> tuple[str, ...]:
        """The texts of an expression; empty when one of its parts is not known."""
        if depth > DEEPEST or node is None:
            return ()
        if isinstance(node, ast.Constant):
            known = isinstance(node.value, str | int) and not isinstance(node.value, bool)
            return (str(node.value),) if known else ()
        name = _name_of(node)
        if name:
            return self.texts_of(name, depth + 1)
        parts = _parts_of(node)
        return self._joined(parts, depth) if parts is not None else ()

    def _joined(self, parts: Sequence[ast.expr], depth: int) -> tuple[str, ...]:
        parts = [part for part in parts if not (isinstance(part, ast.Constant) and part.value is None)]
        found = [self.texts(part.value if isinstance(part, ast.Starred) else part, depth + 1) for part in parts]
        return tuple(dict.fromkeys(text for one in found for text in one)) if all(found) else ()


def _name_of(node: ast.expr) -> str:
    """The name whose texts an expression has: ``NAME``, ``Class.NAME``; empty for another expression."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(attr=name) if name != "ALL":  # many classes have an ALL
            return name
    return ""


def _parts_of(node: ast.expr) -> list[ast.expr] | None:
    """The parts that an expression joins: a list, a sum, a call that copies, a Literal; None for anything else."""
    match node:
        case (
            ast.List(elts=parts)
            | ast.Tuple(elts=parts)
            | ast.Set(elts=parts)
            | ast.Subscript(value=ast.Name(id="Literal"), slice=ast.Tuple(elts=parts))
        ):
            return parts
        case ast.Dict(keys=keys) if None not in keys:  # None: another table is spread into it
            return [key for key in keys if key is not None]
        case ast.BinOp(left=left, right=right):
            return [left, right]
        case (
            ast.Call(func=ast.Attribute(attr="keys", value=only))
            | ast.Subscript(value=ast.Name(id="Literal"), slice=only)
        ):
            return [only]
        case ast.Call(func=ast.Name(id=name), args=parts) if name in COPIES and len(parts) == 1:
            return parts
    return None


def _members(node: ast.ClassDef) -> Iterator[str]:
    """The names of an enum's members, or the texts of a class of constants."""
    for part in node.body:
        if isinstance(part, ast.Assign) and isinstance(part.targets[0], ast.Name):
            name = part.targets[0].id
            if not name.startswith("_") and name.isupper():
                yield name


def registered_values(engine: str, values: NamedValues) -> dict[str, tuple[str, ...]]:
    """By option, what the registries of an engine's files allow; an option whose registry is not there is left out."""
    found = {}
    for option, names in REGISTRIES[engine].items():
        texts = next((texts for name in names if (texts := values.texts_of(name))), ())
        if texts:
            found[option] = tuple(dict.fromkeys((*ALSO[engine].get(option, ()), *texts)))
    return found
