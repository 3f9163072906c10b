"""Which optional packages vLLM finds: those of the image, not those of this process."""

import ast
import contextlib
import functools
import importlib
import importlib.util
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

from gb10.image.explain.child.shared.stand_ins import Anything


class Named:
    """A module whose names are read from its source, guarded ones, too. Nothing of it is executed.

    ``real`` is the module itself, where this process can import it: its values come first. A constant that is bound
    where an import works has that value: the image has the package.
    """

    def __init__(self, source: str, real: Any = None) -> None:
        tree = ast.parse(source)
        self._its_names, self._its_guarded, self._its_real = dict(_bound(tree)), dict(_guarded(tree)), real

    def __getattr__(self, name: str) -> Any:
        if name in self._its_guarded:
            return self._its_guarded[name]
        if hasattr(self._its_real, name):
            return getattr(self._its_real, name)
        if name in self._its_names:
            return Anything if self._its_names[name] else Anything()
        raise AttributeError(name)


def _bound(tree: ast.Module) -> Iterator[tuple[str, bool]]:
    """Each name, and whether it is a function, a class or an import; what else it is, nobody knows."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, False
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from ((alias.asname or alias.name, True) for alias in node.names)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name, True


def _guarded(tree: ast.Module) -> Iterator[tuple[str, object]]:
    """Each constant that is bound beside an import for whose failure there is a handler."""
    for guard in (node for node in tree.body if isinstance(node, ast.Try)):
        if any(isinstance(node, ast.Import | ast.ImportFrom) for node in guard.body):
            for node in (*guard.body, *guard.orelse):
                if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
                    yield from ((one.id, node.value.value) for one in node.targets if isinstance(one, ast.Name))


@functools.cache
def by_source(module: str, real: Any = None) -> Named | None:
    """A module by its source; None when the release has none."""
    try:
        found = importlib.util.find_spec(module)
    except ImportError:
        return None
    if found is None or not found.origin:
        return None
    return Named(Path(found.origin).read_text(encoding="utf-8"), real)


@functools.cache
def by_value(module: str) -> Named | None:
    """A module: the values that it has here, and the names of its source beyond those."""
    try:
        real = importlib.import_module(module)
    except Exception:  # a package of the image is not here: its names are known, its values are not
        traceback.print_exc()
        real = None
    return by_source(module, real)


def answer_packages(present: list[str]) -> set[str]:
    """Answer vLLM's questions for packages from a list of the image's modules. Returns them."""
    import vllm.utils.import_utils as utils

    names = set(present)
    for question in ("_has_module", "_has_module_spec"):
        setattr(utils, question, lambda name: name.partition(".")[0] in names or name in names)
    return names


def answer_from_sources(present: list[str]) -> None:
    """As ``answer_packages``; FlashInfer's modules that this process cannot import answer by their sources."""
    names = answer_packages(present)
    from vllm.utils import flashinfer

    flashinfer.has_flashinfer = lambda: "flashinfer" in names
    flashinfer._get_submodule = lambda name: by_value(name) if "flashinfer" in names else None


def answer_b12x(capability: tuple[int, int]) -> None:
    """Let b12x's own rule say what it supports, if the image has it. Modules that need CuTe DSL have names alone."""
    import vllm.utils.b12x as utils

    if not utils.has_b12x():
        return
    gating: Any = importlib.import_module("b12x._lib.gating")  # by attribute the package would load CuTe DSL
    gating.get_compute_capability = lambda device=None: capability
    for name, module in utils._B12X_SUBMODULES.items():
        if module is None:
            utils._B12X_SUBMODULES[name] = by_source(name)
        elif hasattr(module, "META"):
            module.is_supported = functools.partial(gating.default_is_supported, requires=module.META.requires)
    _stop_before_plans()


class PlanReachedError(Exception):
    """b12x's attention would be planned here."""


def _stop_before_plans() -> None:
    """End the constructor of b12x's attention where it plans with CuTe DSL: vLLM's refusals come before that."""
    import vllm.v1.attention.backends.b12x as backend

    owner = backend.B12xPagedAttentionImpl
    complete = owner.__init__

    def init(self: Any, *args: Any, **named: Any) -> None:
        with contextlib.suppress(PlanReachedError):
            complete(self, *args, **named)

    def plans(*_: object, **__: object) -> NoReturn:
        raise PlanReachedError

    owner.__init__, backend._max_page_table_width = init, plans
