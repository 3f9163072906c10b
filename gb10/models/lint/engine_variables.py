"""How an engine reads its environment variables, by syntax tree: which take a number, a switch, or certain words.

vLLM reads a variable when it is first needed, and a text that its reader refuses ends the server; so does an empty
text, which is not the same as an absent variable. SGLang's own fields fall back to their default with a warning.
"""

import ast
from collections.abc import Iterator, Mapping
from typing import Final

TABLE: Final[Mapping[str, tuple[str, str]]] = {"vllm": ("vllm/envs.py", "environment_variables")}
"""The module and the name of the table whose entries read the variables."""
NUMBERS: Final = {"int": "int", "float": "float", "maybe_convert_int": "int", "maybe_convert_bool": "int"}
"""Functions that refuse a text that is no number."""


def variable_kinds(engine: str, texts: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """By variable: ``("int",)``, ``("float",)``, or the words that it takes. One that takes any text is left out."""
    place, name = TABLE.get(engine, ("", ""))
    tree = ast.parse(texts.get(place, ""))
    tables = (
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign | ast.AnnAssign)
        and isinstance(node.value, ast.Dict)
        and ast.unparse(node.targets[0] if isinstance(node, ast.Assign) else node.target) == name
    )
    return {
        key.value: kind
        for table in tables
        for key, value in zip(table.keys, table.values, strict=True)
        if isinstance(key, ast.Constant) and isinstance(key.value, str) and (kind := _kind(key.value, value))
    }


def _kind(name: str, reader: ast.expr) -> tuple[str, ...]:
    if isinstance(reader, ast.Call) and ast.unparse(reader.func) == "env_with_choices":
        return _choices(reader)
    if isinstance(reader, ast.Lambda) and not _guarded(name, reader.body):
        return next(_numbers(name, reader.body), ())
    return ()


def _choices(call: ast.Call) -> tuple[str, ...]:
    listed = next((word.value for word in call.keywords if word.arg == "choices"), (*call.args, None, None, None)[2])
    parts = listed.elts if isinstance(listed, ast.List | ast.Tuple) else []
    texts = tuple(part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str))
    return texts if len(texts) == len(parts) else ()


def _numbers(name: str, body: ast.expr) -> Iterator[tuple[str, ...]]:
    """The conversions that read the variable and nothing else: ``int(os.getenv(NAME, "0"))``."""
    for node in ast.walk(body):
        if isinstance(node, ast.Call) and len(node.args) == 1 and _reads(name, node.args[0]):
            kind = NUMBERS.get(ast.unparse(node.func))
            if kind:
                yield (kind,)


def _guarded(name: str, body: ast.expr) -> bool:
    """Whether an empty text is sorted out first: ``int(…) if os.getenv(NAME) else …``."""
    tests = (node.test for node in ast.walk(body) if isinstance(node, ast.IfExp))
    return any(_reads(name, test) or isinstance(test, ast.NamedExpr) for test in tests)


def _reads(name: str, node: ast.expr) -> bool:
    """Whether an expression is the variable's text: ``os.getenv(NAME, …)``, ``os.environ[NAME]``."""
    if isinstance(node, ast.Call):
        called = ast.unparse(node.func)
        return called in ("os.getenv", "os.environ.get") and bool(node.args) and _is(name, node.args[0])
    return isinstance(node, ast.Subscript) and ast.unparse(node.value) == "os.environ" and _is(name, node.slice)


def _is(name: str, node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value == name
