"""Stand-ins for compiled modules, for packages that decide nothing, and for tensors of the GPU."""

import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

import torch
from torch.overrides import TorchFunctionMode

UNKNOWN = "the answer of a package that explain does not have"


class Nothing(type):
    """The type of a stand-in: every attribute is one, too."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything

    def __or__(cls, other: Any) -> Any:
        return cls

    def __ror__(cls, other: Any) -> Any:
        return cls

    def __getitem__(cls, key: str) -> Any:
        return cls

    def __iter__(cls) -> Iterator[Any]:
        return iter(())

    def __contains__(cls, _: object) -> NoReturn:
        raise RuntimeError(UNKNOWN)


class Anything(metaclass=Nothing):
    """A class, function, decorator or value of a package that is not there. Asked for its truth, it refuses."""

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def __call__(self, *args: Any, **named: Any) -> Any:
        return args[0] if len(args) == 1 and not named and callable(args[0]) else Anything()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def __bool__(self, *_: object) -> bool:
        raise RuntimeError(UNKNOWN)

    __contains__ = __bool__

    @classmethod
    def __get_pydantic_core_schema__(cls, *_: object) -> Any:
        from pydantic_core import core_schema

        return core_schema.any_schema()


def _add_arithmetic(kind: Any) -> None:
    """Let a calculation with an unknown value give an unknown value; a comparison still refuses."""
    for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lshift", "rshift", "and", "xor"):
        for side in ("", "r"):
            setattr(kind, f"__{side}{name}__", lambda *_: Anything)
    for name in ("neg", "invert", "setitem"):
        setattr(kind, f"__{name}__", lambda *_: Anything)


_add_arithmetic(Nothing)
_add_arithmetic(Anything)


class Constant(Anything):
    """Triton's constexpr: it has the value that it was made with."""

    def __init__(self, value: Any = None) -> None:
        self.value = value

    def __bool__(self, *_: object) -> bool:
        return bool(self.value)


class Absent(types.ModuleType):
    """A module of a package that is not there."""

    __path__ = []  # noqa: RUF012 - a package without a folder

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds stand-ins: ``versions`` by the first name of a package, and the ``compiled`` modules.

    Those offer nothing but the operators that they register.
    """

    def __init__(self, versions: Mapping[str, str], compiled: Iterable[str]) -> None:
        self.versions, self.compiled = versions, frozenset(compiled)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """A spec for what has a stand-in."""
        if name in self.compiled or name.partition(".")[0] in self.versions:
            return importlib.machinery.ModuleSpec(name, self, origin="stand-in", is_package=name not in self.compiled)
        return None

    def create_module(self, spec: Any) -> Any:
        """An empty module, or one that has every name."""
        if spec.name in self.compiled:
            compiled = types.ModuleType(spec.name)
            compiled.__file__ = "stand-in"
            return compiled
        absent: Any = Absent(spec.name)
        absent.__version__ = self.versions[spec.name.partition(".")[0]]
        return absent

    def exec_module(self, module: Any) -> None:
        """Triton lists its backends: one driver that is active."""
        if module.__name__ == "triton.backends":
            active = types.SimpleNamespace(driver=types.SimpleNamespace(is_active=lambda: True))
            module.backends = {"nvidia": active}
        elif module.__name__ == "triton.language":
            module.constexpr = Constant


class Originals(importlib.abc.MetaPathFinder):
    """Finds the modules whose files lie in a folder, by their path below it: others are found as ever."""

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """A spec for a module whose file is there. A package keeps the folders that it has."""
        base = self.folder.joinpath(*name.split("."))
        if base.with_suffix(".py").is_file():
            return importlib.util.spec_from_file_location(name, base.with_suffix(".py"))
        if not (base / "__init__.py").is_file():
            return None
        found = importlib.machinery.PathFinder.find_spec(name, path)
        places = list(found.submodule_search_locations or ()) if found else []
        return importlib.util.spec_from_file_location(name, base / "__init__.py", submodule_search_locations=places)


class OnMeta(TorchFunctionMode):
    """Tensors that the engine would make on the GPU have a shape and no memory.

    The GPU has several names: a word, a ``torch.device``, and its number.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        name = getattr(func, "__name__", "")
        if func is torch.device:
            return (
                func("cuda", args[0])
                if len(args) == 1 and _is_number(args[0]) and not kwargs
                else func(*args, **kwargs)
            )
        if _is_gpu(kwargs.get("device")):
            kwargs["device"] = "meta"
        if name == "cuda" and args and isinstance(args[0], torch.Tensor):
            return args[0].to("meta")
        placing = name in ("to", "_parse_to")
        args = tuple("meta" if _is_gpu(one) and (placing or isinstance(one, torch.device)) else one for one in args)
        return func(*args, **kwargs)


def _is_number(place: Any) -> bool:
    return isinstance(place, int) and not isinstance(place, bool)


def _is_gpu(place: Any) -> bool:
    """Whether this names the GPU: its number does where a device is asked for, and only there."""
    if isinstance(place, str | torch.device):
        return str(place).partition(":")[0] == "cuda"
    return _is_number(place)


def register(
    schemas: Mapping[str, Iterable[str]],
    spaces: Mapping[str, Iterable[str]],
    answers: Mapping[str, bool],
    implement: Callable[[torch.library.Library, str], None] = lambda *_: None,
) -> list[torch.library.Library]:
    """Define operators by their schemas, ``schemas``, in the namespaces of their module, ``spaces``.

    Those in ``answers`` return their value there; ``implement`` gives the others an implementation. Returns what has to
    stay alive.
    """
    libraries = []
    for module, texts in schemas.items():
        for space in spaces.get(module, (module,)):
            library = torch.library.Library(space, "FRAGMENT")
            libraries.append(library)
            for schema in texts:
                _define(library, schema, answers, implement)
    return libraries


def _define(library: Any, schema: str, answers: Mapping[str, bool], implement: Callable[[Any, str], None]) -> None:
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
