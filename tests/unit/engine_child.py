"""Modules of explain's process, which run over an engine: loaded here without one, and without torch."""

import importlib
import importlib.util
import sys
from types import ModuleType

import pytest

from gb10.image.plan.catalog import ROOT

CHILD = "gb10.image.explain.child"


def stand_in(monkeypatch: pytest.MonkeyPatch, name: str, **values: object) -> ModuleType:
    """A module of this name with these values, and the packages that it lies in: our own are the real ones."""
    parts = name.split(".")
    for count in range(1, len(parts)):
        package = ".".join(parts[:count])
        if CHILD.startswith(parts[0]):
            importlib.import_module(package)
        elif package not in sys.modules:
            monkeypatch.setitem(sys.modules, package, ModuleType(package))
    module = ModuleType(name)
    module.__dict__.update(values)
    monkeypatch.setitem(sys.modules, name, module)
    return module


def fresh(monkeypatch: pytest.MonkeyPatch, name: str) -> ModuleType:
    """A module of the child, executed anew: what one test notes in it no other finds."""
    full = f"{CHILD}.{name}"
    spec = importlib.util.spec_from_file_location(full, ROOT / f"{full.replace('.', '/')}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, full, module)
    spec.loader.exec_module(module)
    return module
