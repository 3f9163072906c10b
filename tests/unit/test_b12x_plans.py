"""What explain takes of vLLM's attention of b12x: its refusals, and none of its plans."""

import sys
from types import ModuleType

import pytest

from gb10.image.plan.catalog import ROOT
from tests.unit.test_refusal import loaded

BACKEND = """
def _max_page_table_width(length):
    return length

class B12xPagedAttentionImpl:
    def __init__(self, block_size):
        if block_size not in (64, 128):
            raise ValueError(f"b12x requires --block-size in (64, 128), got {block_size}.")
        self.width = _max_page_table_width(block_size)
        raise AssertionError("a plan needs CuTe DSL")
"""


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = ModuleType("vllm.v1.attention.backends.b12x")
    exec(BACKEND, module.__dict__)  # noqa: S102 - the text above
    names = module.__name__.split(".")
    for count in range(1, len(names)):
        monkeypatch.setitem(sys.modules, ".".join(names[:count]), ModuleType(".".join(names[:count])))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    parent = sys.modules["vllm.v1.attention.backends"]
    monkeypatch.setattr(parent, "b12x", module, raising=False)
    stand_ins = ModuleType("stand_ins")
    stand_ins.__dict__["Anything"] = object
    monkeypatch.setitem(sys.modules, "stand_ins", stand_ins)
    loaded("presence", ROOT / "gb10/image/explain/child/presence.py")._leave_plans()
    return module


def test_a_layer_is_made_without_its_plans(backend: ModuleType) -> None:
    assert not hasattr(backend.B12xPagedAttentionImpl(128), "width")


def test_what_vllm_refuses_is_refused(backend: ModuleType) -> None:
    with pytest.raises(ValueError, match="requires --block-size"):
        backend.B12xPagedAttentionImpl(16)
