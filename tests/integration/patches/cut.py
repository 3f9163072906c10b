"""Functions of a release, cut out by syntax and run without it: no import of the release, no torch."""

import __future__

import ast
from collections.abc import Iterable
from typing import Any

from tests.integration.patches.releases import original, patched


def find(text: str, dotted: str) -> ast.stmt | None:
    """A function or class, by its name with dots; None when there is none."""
    node: Any = ast.parse(text)
    for name in dotted.split("."):
        node = next((child for child in node.body if getattr(child, "name", "") == name), None)
        if node is None:
            return None
    assert isinstance(node, ast.stmt)
    return node


def run(nodes: Iterable[ast.stmt | None], names: dict[str, Any]) -> dict[str, Any]:
    """Execute definitions of a release; its imports are left out, what they would bring stands in ``names``."""

    class NoImports(ast.NodeTransformer):
        def visit_ImportFrom(self, _: ast.ImportFrom) -> ast.Pass:
            return ast.Pass()

    tree = NoImports().visit(ast.Module([node for node in nodes if node], type_ignores=[]))
    code = compile(ast.fix_missing_locations(tree), "release", "exec", flags=__future__.annotations.compiler_flag)
    exec(code, names)  # noqa: S102 - a few functions of a pinned release
    return names


def both(source: str, version: str, patch: str, path: str) -> tuple[str, str]:
    """A file before and after one patch."""
    return original(source, version, path), patched(source, version, patch, path)
