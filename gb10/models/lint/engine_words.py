"""The words of each engine release: read of its wheel's text, and kept in recipes/flags/ENGINE-RELEASE.json."""

import ast
import difflib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Final

from packaging.version import InvalidVersion, Version

from gb10.core.installation import ROOT

ENGINES: Final[Mapping[str, str]] = {"vllm": "VLLM_", "sglang": "SGLANG_"}
"""The engines, and what the names of their environment variables begin with."""
PLACES: Final[Mapping[str, re.Pattern[str]]] = {
    "vllm": re.compile(r"vllm/(engine/arg_utils|entrypoints/(openai|common)/cli_args|entrypoints/cli/serve)\.py"),
    "sglang": re.compile(r"sglang/srt/(server_args|arg_groups/fields/\w+)\.py"),
}
"""The modules that declare the options of the server."""
TYPES: Final = re.compile(
    r"vllm/(config/\w+|entrypoints/.*cli_args|engine/arg_utils|renderers/\w+|tool_parsers/\w+)\.py"
)
"""The modules whose types name vLLM's choices."""
UNIONS: Final = ("Literal", "Optional", "Union")
"""Types of several; a Literal may hold another one by its name."""
DEEPEST: Final = 8
"""Types in types."""
FRONT_END: Final = re.compile(r"\w*FrontendArgs")


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineWords:
    """What one release of an engine reads: options with the choices of their value (empty: any), switches, names."""

    options: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The keys of an option whose value is a JSON mapping."""
    environment: frozenset[str] = frozenset()


def read_engine(engine: str, texts: Mapping[str, str]) -> EngineWords:
    """The words of an engine's Python files, text by path in the wheel. Raises SyntaxError and RecursionError."""
    trees = {path: ast.parse(text) for path, text in texts.items() if PLACES[engine].fullmatch(path)}
    types = _Types(ast.parse(text) for path, text in texts.items() if TYPES.fullmatch(path))
    options: dict[str, tuple[str, ...]] = {}
    for tree in trees.values():
        for name, choices in (*_declared(tree, types), *_front_end(tree, types), *_annotated(tree)):
            options[name] = options.get(name) or choices or types.of_field(name)
    keys = {name: found for name in options if (found := types.keys_of(name))}
    wanted = re.compile(rf"\b{ENGINES[engine]}[A-Z0-9_]*[A-Z0-9]\b")
    names = frozenset(name for text in texts.values() for name in wanted.findall(text))
    return EngineWords(options=options, keys=keys, environment=names)


class _Types:
    """The Literal types and the classes of an engine, by name."""

    def __init__(self, trees: Iterable[ast.Module]) -> None:
        self.aliases: dict[str, ast.expr] = {}
        self.fields: dict[str, dict[str, ast.expr]] = {}
        for tree in trees:
            for node in tree.body:
                if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                    self.aliases[node.targets[0].id] = node.value
                elif isinstance(node, ast.ClassDef):
                    self.fields[node.name] = dict(_fields(node))

    def choices(self, annotation: ast.expr | None, depth: int = 0) -> tuple[str, ...]:
        """The texts that a type allows; empty when it allows others, too."""
        if depth > DEEPEST:
            return ()
        match annotation:
            case ast.Constant():
                return _texts([annotation])
            case ast.BinOp():
                return self._union((annotation.left, annotation.right), depth)
            case ast.Name():
                return self.choices(self.aliases.get(annotation.id), depth + 1)
            case ast.Subscript() if ast.unparse(annotation.value).rpartition(".")[2] in UNIONS:
                inner = annotation.slice.elts if isinstance(annotation.slice, ast.Tuple) else [annotation.slice]
                return self._union(inner, depth)
        return ()

    def _union(self, parts: Iterable[ast.expr], depth: int) -> tuple[str, ...]:
        found = [self.choices(part, depth + 1) for part in parts if not _is_none(part)]
        return tuple(text for texts in found for text in texts) if all(found) else ()

    def of_field(self, option: str) -> tuple[str, ...]:
        """The choices of the fields that have an option's name, where they agree."""
        name = option.removeprefix("--").replace("-", "_")
        found = {self.choices(fields[name]) for fields in self.fields.values() if name in fields}
        return found.pop() if len(found) == 1 else ()

    def keys_of(self, option: str) -> tuple[str, ...]:
        """The fields of the class that an option is named after: --speculative-config, SpeculativeConfig."""
        words = option.removeprefix("--").split("-")
        folded = "".join(words).lower()
        name = next((name for name in self.fields if name.lower() == folded), None)
        return tuple(sorted(self.fields[name])) if name and words[-1] == "config" else ()


def _texts(nodes: Iterable[ast.expr]) -> tuple[str, ...]:
    values = [node.value if isinstance(node, ast.Constant) else None for node in nodes]
    texts = tuple(str(value) for value in values if isinstance(value, str | int) and not isinstance(value, bool))
    return texts if len(texts) == len([value for value in values if value is not None]) else ()


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _fields(node: ast.ClassDef) -> Iterator[tuple[str, ast.expr]]:
    for part in node.body:
        if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
            yield part.target.id, part.annotation


def _dashed(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _declared(tree: ast.Module, types: _Types) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The options of ``add_argument("--name", **config_kwargs["field"])``."""
    classes = {
        node.targets[0].id: ast.unparse(node.value.args[0])
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, ast.Call)
        and ast.unparse(node.value.func).endswith("get_kwargs")
        and node.value.args
    }
    constants = {
        node.targets[0].id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "add_argument":
            choices = _listed(node, constants) or _choices_of(node, classes, types)
            for argument in node.args:
                if isinstance(argument, ast.Constant) and str(argument.value).startswith("-"):
                    yield str(argument.value), choices


def _listed(call: ast.Call, constants: Mapping[str, ast.expr]) -> tuple[str, ...]:
    """The choices of ``choices=[…]``, or of a list of the module by its name."""
    given = next((word.value for word in call.keywords if word.arg == "choices"), None)
    found = constants.get(given.id) if isinstance(given, ast.Name) else given
    return _texts(found.elts) if isinstance(found, ast.List | ast.Tuple) else ()


def _choices_of(call: ast.Call, classes: Mapping[str, str], types: _Types) -> tuple[str, ...]:
    for keyword in call.keywords:
        value = keyword.value
        if keyword.arg is None and isinstance(value, ast.Subscript) and isinstance(value.slice, ast.Constant):
            fields = types.fields.get(classes.get(ast.unparse(value.value), ""), {})
            return types.choices(fields.get(str(value.slice.value)))
    return ()


def _front_end(tree: ast.Module, types: _Types) -> Iterator[tuple[str, tuple[str, ...]]]:
    """vLLM's front end: each field of its classes is an option."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and FRONT_END.fullmatch(node.name):
            for name, annotation in _fields(node):
                yield _dashed(name), types.choices(annotation)


def _annotated(tree: ast.Module) -> Iterator[tuple[str, tuple[str, ...]]]:
    """SGLang's fields: ``name: A[type, "help"]`` or ``name: A[type, Arg(cli_name=…, aliases=[…], no_cli=True)]``."""
    for node in tree.body:
        for name, annotation in _fields(node) if isinstance(node, ast.ClassDef) else ():
            if isinstance(annotation, ast.Subscript) and ast.unparse(annotation.value) == "A":
                parts = annotation.slice.elts if isinstance(annotation.slice, ast.Tuple) else []
                yield from _of_arg(name, [part for part in parts if isinstance(part, ast.Call)])


def _of_arg(name: str, calls: list[ast.Call]) -> Iterator[tuple[str, tuple[str, ...]]]:
    given = {word.arg: word.value for call in calls if ast.unparse(call.func) == "Arg" for word in call.keywords}
    if ast.unparse(given.get("no_cli", ast.Constant(value=False))) == "True":
        return
    choices, cli, aliases = given.get("choices"), given.get("cli_name"), given.get("aliases")
    allowed = _texts(choices.elts) if isinstance(choices, ast.List | ast.Tuple) else ()
    yield str(cli.value) if isinstance(cli, ast.Constant) else _dashed(name), allowed
    for alias in _texts(aliases.elts) if isinstance(aliases, ast.List | ast.Tuple) else ():
        yield alias, allowed


FLAGS: Final = ROOT / "recipes/flags"
SWITCH: Final = re.compile("^--(no|disable|enable)-")


@cache
def known_words(engine: str, release: str) -> EngineWords | None:
    """The words of a release; None when the checkout has none of it."""
    path = FLAGS / f"{engine}-{release}.json"
    if "/" in release or not path.is_file():
        return None
    found = json.loads(path.read_text(encoding="utf-8"))
    return EngineWords(
        options={name: tuple(choices) for name, choices in found["options"].items()},
        keys={name: tuple(keys) for name, keys in found["keys"].items()},
        environment=frozenset(found["environment"]),
    )


def document(engine: str, release: str, words: EngineWords) -> str:
    """The words as a file: sorted, an option per line."""
    found = {
        "engine": engine,
        "release": release,
        "options": {name: list(words.options[name]) for name in sorted(words.options)},
        "keys": {name: list(words.keys[name]) for name in sorted(words.keys)},
        "environment": sorted(words.environment),
    }
    return f"{json.dumps(found, indent=1)}\n"


def releases(engine: str) -> list[str]:
    """The releases of an engine that the checkout knows, the newest last."""
    found = (path.stem.removeprefix(f"{engine}-") for path in FLAGS.glob(f"{engine}-*.json"))
    return sorted(filter(_is_version, found), key=Version)


def own_releases() -> dict[str, str]:
    """The engine releases of our images, which are the newest that the checkout has words of."""
    return {engine: known[-1] for engine in ENGINES if (known := releases(engine))}


def _is_version(text: str) -> bool:
    try:
        return bool(Version(text))
    except InvalidVersion:
        return False


def declared(words: EngineWords, option: str) -> str | None:
    """The name under which an engine declares an option; None when it does not have it.

    Its parser takes underscores, the opposite of a switch, ``--json-option.key``, and the unique start of a name.
    """
    if not option.startswith("--"):
        name = option.partition(".")[0]  # -cc.mode sets a field, as --compilation-config.mode does
        return name if name in words.options else None
    name = option.partition(".")[0].replace("_", "-")
    stem = SWITCH.sub("", name)
    opposites = [f"--{prefix}{stem}" for prefix in ("", "no-", "enable-", "disable-")] if stem != name else []
    found = next((one for one in (name, *opposites) if one in words.options), None)
    if found:
        return found
    longer = [one for one in words.options if one.startswith(name)]
    return longer[0] if len(longer) == 1 else None


def nearest(name: str, names: Iterable[str]) -> str | None:
    """The closest of some names; None when none is close."""
    close = difflib.get_close_matches(name, sorted(names), n=1, cutoff=0.75)
    return close[0] if close else None
