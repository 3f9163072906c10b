"""Which optional packages the engine finds: those of the image, not those of this process."""

import ast
import contextlib
import functools
import importlib
import importlib.util

from stand_ins import Anything


class Named:
    """A module by the names that its source binds, guarded ones, too: nothing of it is executed."""

    def __init__(self, source):
        self.names = frozenset(_bound(ast.parse(source)))

    def __getattr__(self, name):
        if name in self.names:
            return Anything
        raise AttributeError(name)


def _bound(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from (alias.asname or alias.name for alias in node.names)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


@functools.cache
def named(module):
    """A module by its source; None when the release has none."""
    try:
        found = importlib.util.find_spec(module)
    except ImportError:
        return None
    if found is None or not found.origin:
        return None
    with open(found.origin, encoding="utf-8") as source:
        return Named(source.read())


def answer_packages(present):
    """Answer the engine's questions for packages from a list of the image's modules. Returns them."""
    import vllm.utils.import_utils as asked

    names = set(present)
    for question in ("_has_module", "_has_module_spec"):
        setattr(asked, question, lambda name: name.partition(".")[0] in names or name in names)
    return names


def answer_from(present):
    """As ``answer_packages``; FlashInfer answers by the text of its sources."""
    names = answer_packages(present)
    import vllm.utils.flashinfer as flashinfer

    flashinfer.has_flashinfer = lambda: "flashinfer" in names
    flashinfer._get_submodule = lambda name: named(name) if "flashinfer" in names else None


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
