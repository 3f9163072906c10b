"""What the engine is told of a module of FlashInfer: its own values, and names where it cannot be imported here."""

from types import SimpleNamespace

import pytest

from tests.unit.engine_child import CHILD, fresh, stand_in

SOURCE = """
try:
    import nobody_has_this
    READY = True
except ImportError:
    READY = False

TABLE = make_a_table()

def decode():
    pass

if READY:
    def guarded():
        pass
"""


@pytest.fixture(name="named")
def named_module(monkeypatch: pytest.MonkeyPatch) -> type:
    anything = type("Anything", (), {"__bool__": lambda _: 1 / 0})
    stand_in(monkeypatch, f"{CHILD}.shared.stand_ins", Anything=anything)
    kind: type = fresh(monkeypatch, "vllm.packages").Named
    return kind


def test_a_value_is_the_module_s_own(named: type) -> None:
    real = SimpleNamespace(TABLE={(64, 128)}, decode=print)
    assert (64, 128) in named(SOURCE, real).TABLE
    assert named(SOURCE, real).decode is print


def test_a_value_that_nobody_here_knows_has_no_truth(named: type) -> None:
    with pytest.raises(ZeroDivisionError):
        bool(named(SOURCE).TABLE)


def test_names_are_known_and_others_are_absent(named: type) -> None:
    assert callable(named(SOURCE).decode)
    assert callable(named(SOURCE, SimpleNamespace()).guarded)
    with pytest.raises(AttributeError):
        _ = named(SOURCE).other


def test_a_guarded_constant_is_that_of_the_image(named: type) -> None:
    assert named(SOURCE, SimpleNamespace(READY=False)).READY is True
