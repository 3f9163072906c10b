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
from gb10.models.lint.engine_registries import NamedValues, registered_values
from gb10.models.lint.engine_variables import variable_kinds

ENGINES: Final[Mapping[str, str]] = {"vllm": "VLLM_", "sglang": "SGLANG_"}
"""The engines, and what the names of their environment variables begin with."""
PLACES: Final[Mapping[str, re.Pattern[str]]] = {
    "vllm": re.compile(
        r"vllm/(engine/arg_utils|entrypoints/(openai|common|launchers)/cli_args|entrypoints/cli/serve)\.py"
    ),
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
    values: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """What a key of a JSON value takes: ``--speculative-config.method``."""
    environment: frozenset[str] = frozenset()
    variables: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """What a variable takes, where it does not take any text: ``("int",)``, ``("float",)``, or words."""


def read_engine(engine: str, texts: Mapping[str, str]) -> EngineWords:
    """The words of an engine's Python files, text by path in the wheel. Raises SyntaxError and RecursionError."""
    trees = {path: ast.parse(text) for path, text in texts.items() if PLACES[engine].fullmatch(path)}
    types = _Types(ast.parse(text) for path, text in texts.items() if TYPES.fullmatch(path))
    values = NamedValues(texts, trees.values())
    options: dict[str, tuple[str, ...]] = {}
    for tree in trees.values():
        for name, choices in (*_declared(tree, types, values), *_front_end(tree, types), *_annotated(tree, values)):
            options[name] = options.get(name) or choices or types.of_field(name)
    registered = registered_values(engine, values)
    options |= {name: options[name] or registered.get(name, ()) for name in options}
    keys = {name: found for name in options if (found := types.keys_of(name))}
    wanted = re.compile(rf"\b{ENGINES[engine]}[A-Z0-9_]*[A-Z0-9]\b")
    names = frozenset(name for text in texts.values() for name in wanted.findall(text))
    return EngineWords(
        options=options,
        keys=keys,
        values={name: found for name, found in registered.items() if "." in name},
        environment=names,
        variables=variable_kinds(engine, texts),
    )


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
        found = [
            self.choices(part, depth + 1)
            for part in parts
            if not (isinstance(part, ast.Constant) and part.value is None)
        ]
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


def _fields(node: ast.ClassDef) -> Iterator[tuple[str, ast.expr]]:
    for part in node.body:
        if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
            yield part.target.id, part.annotation


def _dashed(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _declared(tree: ast.Module, types: _Types, values: NamedValues) -> Iterator[tuple[str, tuple[str, ...]]]:
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
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "add_argument":
            choices = _listed(node, values) or _choices_of(node, classes, types)
            for argument in node.args:
                if isinstance(argument, ast.Constant) and str(argument.value).startswith("-"):
                    yield str(argument.value), choices


def _listed(call: ast.Call, values: NamedValues) -> tuple[str, ...]:
    """The choices of ``choices=[…]``, or of a list by its name."""
    return values.texts(next((word.value for word in call.keywords if word.arg == "choices"), None))


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


def _annotated(tree: ast.Module, values: NamedValues) -> Iterator[tuple[str, tuple[str, ...]]]:
    """SGLang's fields: ``name: A[type, "help"]`` or ``name: A[type, Arg(cli_name=…, aliases=[…], no_cli=True)]``."""
    for node in tree.body:
        for name, annotation in _fields(node) if isinstance(node, ast.ClassDef) else ():
            if isinstance(annotation, ast.Subscript) and ast.unparse(annotation.value) == "A":
                parts = annotation.slice.elts if isinstance(annotation.slice, ast.Tuple) else []
                yield from _of_arg(name, [part for part in parts if isinstance(part, ast.Call)], values)


def _of_arg(name: str, calls: list[ast.Call], values: NamedValues) -> Iterator[tuple[str, tuple[str, ...]]]:
    given = {word.arg: word.value for call in calls if ast.unparse(call.func) == "Arg" for word in call.keywords}
    if ast.unparse(given.get("no_cli", ast.Constant(value=False))) == "True":
        return
    cli, aliases = given.get("cli_name"), given.get("aliases")
    allowed = values.texts(given.get("choices"))
    yield str(cli.value) if isinstance(cli, ast.Constant) else _dashed(name), allowed
    for alias in _texts(aliases.elts) if isinstance(aliases, ast.List | ast.Tuple) else ():
        yield alias, allowed


FLAGS: Final = ROOT / "recipes/flags"
SWITCH: Final = re.compile("^--(no|disable|enable)-")
CLOSE: Final = 0.75
"""The likeness of a misspelt name, by difflib."""


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
        values={name: tuple(values) for name, values in found.get("values", {}).items()},
        environment=frozenset(found["environment"]),
        variables={name: tuple(kinds) for name, kinds in found.get("variables", {}).items()},
    )


def document(engine: str, release: str, words: EngineWords) -> str:
    """The words as a file: sorted, an option per line."""
    found = {
        "engine": engine,
        "release": release,
        "options": {name: list(words.options[name]) for name in sorted(words.options)},
        "keys": {name: list(words.keys[name]) for name in sorted(words.keys)},
        "values": {name: list(words.values[name]) for name in sorted(words.values)},
        "environment": sorted(words.environment),
        "variables": {name: list(words.variables[name]) for name in sorted(words.variables)},
    }
    return f"{json.dumps(found, indent=1)}\n"


def releases(engine: str) -> list[str]:
    """The releases of an engine that the checkout knows, the newest last."""
    return list(_known_releases(engine))


@cache
def _known_releases(engine: str) -> tuple[str, ...]:
    found = (path.stem.removeprefix(f"{engine}-") for path in FLAGS.glob(f"{engine}-*.json"))
    return tuple(sorted(filter(is_version, found), key=Version))


@dataclass(frozen=True, kw_only=True, slots=True)
class ReleaseWords:
    """The words that a release is compared with: its own, or those of the nearest release that the checkout knows."""

    words: EngineWords
    engine: str
    asked: str
    found: str

    @property
    def exact(self) -> bool:
        """Whether the words are the release's own."""
        return self.asked == self.found

    @property
    def title(self) -> str:
        """``vllm 0.33.0``; of a release that is not known ``vllm 0.25.1 (the nearest known to 0.20.0)``."""
        return f"{self.engine} {self.found}{'' if self.exact else f' (the nearest known to {self.asked})'}"


@cache
def words_for(engine: str, release: str) -> ReleaseWords | None:
    """The words of a release, or of the nearest one that is known; None for another engine or for no release."""
    own = known_words(engine, release)
    if own is not None:
        return ReleaseWords(words=own, engine=engine, asked=release, found=release)
    known = [Version(one) for one in releases(engine)] if is_version(release) else []
    if not known:
        return None
    wanted = Version(release)
    near = str(min(known, key=lambda one: (_apart(one, wanted), one)))
    words = known_words(engine, near)
    return ReleaseWords(words=words, engine=engine, asked=release, found=near) if words else None


def _apart(one: Version, other: Version) -> tuple[int, ...]:
    """How far two releases are apart: by major number, then minor, then micro."""
    pairs = zip((one.major, one.minor, one.micro), (other.major, other.minor, other.micro), strict=True)
    return tuple(abs(left - right) for left, right in pairs)


@cache
def has_known(engine: str, option: str) -> bool:
    """Whether any release that the checkout knows has an option."""
    return any(declared(words, option) for one in releases(engine) if (words := known_words(engine, one)))


def own_releases() -> dict[str, str]:
    """The engine releases of our images, which are the newest that the checkout has words of."""
    return {engine: known[-1] for engine in ENGINES if (known := releases(engine))}


def is_version(text: str) -> bool:
    try:
        return bool(Version(text))
    except InvalidVersion:
        return False


def declared(words: EngineWords, option: str) -> str | None:
    """The name under which an engine declares an option; None when it does not have it.

    vLLM's parser takes underscores, the opposite of a switch, ``--json-option.key``, and the unique start of a name.
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
    return next(iter(near_ones(name, names, most=1)), None)


def near_ones(name: str, names: Iterable[str], most: int = 3) -> list[str]:
    """The closest of some names, letter case aside; first those that the name begins with (B12X of B12X_MLA).

    Then those whose last part it is: ``modelopt_fp4`` for ``fp4``.
    """
    folded: dict[str, str] = {}
    for one in sorted(names):
        folded.setdefault(_plain(one), one)
    whole = _plain(name)
    same = [folded[whole]] if whole in folded else []
    begins = [one for text, one in folded.items() if text and whole.startswith(f"{text}-")]
    ends = [one for text, one in folded.items() if text.endswith(f"-{whole}")]
    close = [folded[text] for text in difflib.get_close_matches(whole, folded, n=most, cutoff=CLOSE)]
    return list(dict.fromkeys((*same, *sorted(begins, key=len, reverse=True), *ends, *close)))[:most]


def _plain(text: str) -> str:
    return text.strip().lower().replace("_", "-")
