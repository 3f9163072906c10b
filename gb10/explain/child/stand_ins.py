"""What the engine finds instead of compiled modules, of packages that choose nothing, and of a GPU."""

import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Callable, Iterable, Mapping

import torch
from torch.overrides import TorchFunctionMode


class Nothing(type):
    """The type of a stand-in: every attribute is one, too."""

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything

    def __or__(cls, other):
        return cls

    def __ror__(cls, other):
        return cls

    def __getitem__(cls, key):
        return cls

    def __iter__(cls):
        return iter(())


class Anything(metaclass=Nothing):
    """A class, function, decorator or value of a package that is not there. Asked for its truth, it refuses."""

    def __init__(self, *_, **__):
        pass

    def __call__(self, *args, **named):
        return args[0] if len(args) == 1 and not named and callable(args[0]) else Anything()

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None

    def __bool__(self):
        raise RuntimeError("the answer of a package that explain does not have")

    @classmethod
    def __get_pydantic_core_schema__(cls, *_):
        from pydantic_core import core_schema

        return core_schema.any_schema()


class Constant(Anything):
    """Triton's constexpr: it has the value that it was made with."""

    def __init__(self, value=None):
        self.value = value

    def __bool__(self):
        return bool(self.value)


class Absent(types.ModuleType):
    """A module of a package that is not there."""

    __path__ = ()

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds stand-ins: ``versions`` by the first name of a package, and the ``compiled`` modules.

    Those offer nothing but the operators that they register.
    """

    def __init__(self, versions: Mapping[str, str], compiled: Iterable[str]):
        self.versions, self.compiled = versions, frozenset(compiled)

    def find_spec(self, name, path=None, target=None):
        """A spec for what has a stand-in."""
        if name in self.compiled or name.partition(".")[0] in self.versions:
            return importlib.machinery.ModuleSpec(name, self, origin="stand-in", is_package=name not in self.compiled)
        return None

    def create_module(self, spec):
        """An empty module, or one that has every name."""
        if spec.name in self.compiled:
            module = types.ModuleType(spec.name)
            module.__file__ = "stand-in"
            return module
        module = Absent(spec.name)
        module.__version__ = self.versions[spec.name.partition(".")[0]]
        return module

    def exec_module(self, module):
        """Triton lists its backends: one driver that is active."""
        if module.__name__ == "triton.backends":
            active = types.SimpleNamespace(driver=types.SimpleNamespace(is_active=lambda: True))
            module.backends = {"nvidia": active}
        elif module.__name__ == "triton.language":
            module.constexpr = Constant


class OnMeta(TorchFunctionMode):
    """Tensors that the engine would make on the GPU have a shape and no memory."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if "device" in kwargs and "cuda" in str(kwargs["device"]):
            kwargs["device"] = "meta"
        args = tuple("meta" if isinstance(one, torch.device) and one.type == "cuda" else one for one in args)
        return func(*args, **kwargs)


def register(
    schemas: Mapping[str, Iterable[str]],
    spaces: Mapping[str, Iterable[str]],
    answers: Mapping[str, bool],
    implement: Callable[[torch.library.Library, str], None] = lambda *_: None,
) -> list[torch.library.Library]:
    """Define the operators by their schemas in the namespaces of their module, ``spaces``; those in ``answers`` return it, the others do what ``implement`` gives them."""
    libraries = []
    for module, texts in schemas.items():
        for space in spaces.get(module, (module,)):
            library = torch.library.Library(space, "FRAGMENT")
            libraries.append(library)
            for schema in texts:
                _define(library, schema, answers, implement)
    return libraries


def _define(library, schema, answers, implement):
    name = schema.partition("(")[0]
    try:
        library.define(schema)
    except RuntimeError:  # a text in the module that is no schema
        return
    if name in answers:
        library.impl(name, lambda *_: answers[name], "CompositeExplicitAutograd")
    else:
        implement(library, schema)


def install(versions: Mapping[str, str], compiled: Iterable[str]) -> None:
    """Put the finder first for compiled modules and packages that are stood in for."""
    sys.meta_path.insert(0, Finder(versions, compiled))
