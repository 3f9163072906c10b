"""Which optional packages the engine finds: those of the image, not those of this process."""

import ast
import contextlib
import functools
import importlib
import importlib.util
import traceback

from stand_ins import Anything


class Named:
    """A module of which some names are known by its source alone: guarded ones, too. Nothing of it is executed.

    ``real`` is the module itself, where this process can import it: what it has is its own. A constant that is bound
    where an import works has that value: the image has the package.
    """

    def __init__(self, source, real=None):
        tree = ast.parse(source)
        self._its_names, self._its_guarded, self._its_real = dict(_bound(tree)), dict(_guarded(tree)), real

    def __getattr__(self, name):
        if name in self._its_guarded:
            return self._its_guarded[name]
        if hasattr(self._its_real, name):
            return getattr(self._its_real, name)
        if name in self._its_names:
            return Anything if self._its_names[name] else Anything()
        raise AttributeError(name)


def _bound(tree):
    """Each name, and whether it is a function, a class or an import; what else it is, nobody knows."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, False
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from ((alias.asname or alias.name, True) for alias in node.names)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name, True


def _guarded(tree):
    """Each constant that is bound beside an import for whose failure there is a handler."""
    for guard in (node for node in tree.body if isinstance(node, ast.Try)):
        if any(isinstance(node, ast.Import | ast.ImportFrom) for node in guard.body):
            for node in (*guard.body, *guard.orelse):
                if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
                    yield from ((one.id, node.value.value) for one in node.targets if isinstance(one, ast.Name))


@functools.cache
def named(module, real=None):
    """A module by its source; None when the release has none."""
    try:
        found = importlib.util.find_spec(module)
    except ImportError:
        return None
    if found is None or not found.origin:
        return None
    with open(found.origin, encoding="utf-8") as source:
        return Named(source.read(), real)


@functools.cache
def asked(module):
    """A module whose values are asked for: itself, and the names of its source beyond those that are bound here."""
    try:
        real = importlib.import_module(module)
    except Exception:  # a package of the image is not here: its names are known, its values are not
        traceback.print_exc()
        real = None
    return named(module, real)


def answer_packages(present):
    """Answer the engine's questions for packages from a list of the image's modules. Returns them."""
    import vllm.utils.import_utils as asked

    names = set(present)
    for question in ("_has_module", "_has_module_spec"):
        setattr(asked, question, lambda name: name.partition(".")[0] in names or name in names)
    return names


def answer_from(present):
    """As ``answer_packages``; FlashInfer answers itself, and by its sources for what this process cannot import."""
    names = answer_packages(present)
    import vllm.utils.flashinfer as flashinfer

    flashinfer.has_flashinfer = lambda: "flashinfer" in names
    flashinfer._get_submodule = lambda name: asked(name) if "flashinfer" in names else None


def answer_b12x(capability):
    """b12x's own rule says what it supports, if the image has it. Modules that need CuTe DSL offer their names."""
    import vllm.utils.b12x as asked

    if not asked.has_b12x():
        return
    gating = importlib.import_module("b12x._lib.gating")  # by attribute the package would load CuTe DSL
    gating.get_compute_capability = lambda device=None: capability
    for name, module in asked._B12X_SUBMODULES.items():
        if module is None:
            asked._B12X_SUBMODULES[name] = named(name)
        elif hasattr(module, "META"):
            module.is_supported = functools.partial(gating.default_is_supported, requires=module.META.requires)
    _leave_plans()


class Planned(Exception):
    """b12x's attention would be planned here."""


def _leave_plans():
    """b12x plans its attention with CuTe DSL; what vLLM refuses, it refuses before."""
    import vllm.v1.attention.backends.b12x as backend

    owner = backend.B12xPagedAttentionImpl
    complete = owner.__init__

    def init(self, *args, **named):
        with contextlib.suppress(Planned):
            complete(self, *args, **named)

    def plans(*_, **__):
        raise Planned

    owner.__init__, backend._max_page_table_width = init, plans
