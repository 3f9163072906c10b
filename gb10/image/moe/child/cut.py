"""Cuts functions out of an engine's modules, with what they need of the same module; the rest is never executed."""

import ast
import builtins
import sys
from collections.abc import Callable, Iterable, Mapping
from types import CodeType
from typing import Any

Space = dict[str, Any]
Statement = ast.FunctionDef | ast.ClassDef | ast.Assign | ast.AnnAssign


class Module:
    """One source file: its top-level statements by the names that they define, and what it imports."""

    def __init__(self, text: str, where: str) -> None:
        self.where = where
        self.defined: dict[str, Statement] = {}
        self.imported: dict[str, tuple[str, str]] = {}
        for node in ast.parse(text).body:
            self._note(node)

    def _note(self, node: ast.stmt) -> None:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            self.defined[node.name] = node
        elif isinstance(node, ast.Assign):
            self.defined |= {target.id: node for target in node.targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            self.defined[node.target.id] = node
        elif isinstance(node, ast.Import):
            for alias in node.names:
                name = alias.asname or alias.name.partition(".")[0]
                self.imported[name] = (alias.name if alias.asname else name, "")
        elif isinstance(node, ast.ImportFrom):
            self.imported |= {alias.asname or alias.name: (node.module or "", alias.name) for alias in node.names}

    def needed(self, wanted: Iterable[str], known: Iterable[str]) -> list[Statement]:
        """The statements for ``wanted`` and for all that they use, in the order of the file; ``known`` is given.

        Kernels stay out, unless one is wanted: launch code only names them.
        """
        given, found, left = set(known), set[str](), list(wanted)
        kernels = {name for name, node in self.defined.items() if _is_kernel(node)}
        given |= set() if kernels & set(left) else kernels
        while left:
            name = left.pop()
            if name in found or name in given or name not in self.defined:
                continue
            found.add(name)
            left += _names(self.defined[name])
        nodes = {id(self.defined[name]): self.defined[name] for name in found}
        return sorted(nodes.values(), key=lambda node: node.lineno)

    def parameters(self, function: str) -> list[str]:
        """The names of a function's parameters; none when it is not here."""
        node = self.defined.get(function)
        return [arg.arg for arg in node.args.args] if isinstance(node, ast.FunctionDef) else []


class Bare(ast.NodeTransformer):
    """Takes off annotations: they name types of packages that are not here."""

    def visit_arg(self, node: ast.arg) -> ast.arg:
        """A parameter without its type."""
        node.annotation = None
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """A function without the type that it returns."""
        node.returns = None
        return self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST | None:
        """An assignment without its type; a bare declaration goes."""
        if node.value is None:
            return None
        return ast.copy_location(ast.Assign(targets=[node.target], value=self.visit(node.value)), node)


class Cut:
    """The code of ``wanted``, compiled once; ``run`` executes it in a fresh space, so no cache is shared."""

    def __init__(self, module: Module, wanted: Iterable[str], known: Mapping[str, object]) -> None:
        absent = [name for name in wanted if name not in module.defined]
        if absent:
            raise LookupError(f"{module.where} has no {', '.join(absent)}")
        self.module = module
        body = [node if _is_kernel(node) else Bare().visit(node) for node in module.needed(wanted, known)]
        self.uses = {name for node in body for name in _names(node)}
        tree = ast.fix_missing_locations(ast.Module(body=body, type_ignores=[]))
        self.code: CodeType = compile(tree, module.where, "exec")

    def run(self, space: Space, importing: Callable[[str, str], Any]) -> Space:
        """Execute in ``space``; every import, of the module or inside a function, is answered by ``importing``."""

        def take(name: str, _globals: object = None, _locals: object = None, names: Any = (), level: int = 0) -> Any:
            if name.partition(".")[0] in sys.stdlib_module_names:
                return __import__(name, None, None, names, level)
            return Answers(name, importing)

        sources = self.module.imported
        made = {name: importing(*sources[name]) for name in self.uses if name in sources and name not in space}
        space |= made | {"__builtins__": vars(builtins) | {"open": space.get("open", open), "__import__": take}}
        exec(self.code, space)  # noqa: S102 - this is what the process is for
        return space


class Answers:
    """A module whose names are answered when they are used."""

    def __init__(self, name: str, importing: Callable[[str, str], Any]) -> None:
        self._name, self._importing = name, importing

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._importing(self._name, name)


def _names(node: ast.AST) -> list[str]:
    return [part.id for part in ast.walk(node) if isinstance(part, ast.Name)]


def _is_kernel(node: Statement) -> bool:
    return isinstance(node, ast.FunctionDef) and any("triton.jit" in ast.unparse(one) for one in node.decorator_list)
