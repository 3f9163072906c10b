"""What explain takes of vLLM's attention of b12x: its refusals, and none of its plans."""

import sys
from types import ModuleType

import pytest

from tests.unit.engine_child import CHILD, fresh, stand_in

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
    module = stand_in(monkeypatch, "vllm.v1.attention.backends.b12x")
    exec(BACKEND, module.__dict__)  # noqa: S102 - the text above
    monkeypatch.setattr(sys.modules["vllm.v1.attention.backends"], "b12x", module, raising=False)
    stand_in(monkeypatch, f"{CHILD}.shared.stand_ins", Anything=object)
    fresh(monkeypatch, "vllm.packages")._stop_before_plans()
    return module


def test_a_layer_is_made_without_its_plans(backend: ModuleType) -> None:
    assert not hasattr(backend.B12xPagedAttentionImpl(128), "width")


def test_what_vllm_refuses_is_refused(backend: ModuleType) -> None:
    with pytest.raises(ValueError, match="requires --block-size"):
        backend.B12xPagedAttentionImpl(16)
