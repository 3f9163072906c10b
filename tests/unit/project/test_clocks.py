"""No test compares a clock with a figure: a busy machine would break it. tests/hang.py has what only a hang breaks."""

import ast
from collections.abc import Iterator

import pytest

from gb10.image.plan.catalog import ROOT

CLOCKS = ("monotonic", "perf_counter", "process_time", "time", "getloadavg", "getrusage")
UPWARD = (ast.Lt, ast.LtE)
"""``clock < figure``: what takes longer fails."""


def held_clocks(text: str) -> Iterator[int]:
    """The lines of assertions that fail when time goes on."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Assert):
            compared = [one for one in ast.walk(node.test) if isinstance(one, ast.Compare)]
            if any(isinstance(one.ops[0], UPWARD) and reads_clock(one) for one in compared):
                yield node.lineno


def reads_clock(node: ast.AST) -> bool:
    called = [one.func for one in ast.walk(node) if isinstance(one, ast.Call)]
    return any(getattr(one, "attr", getattr(one, "id", "")) in CLOCKS for one in called)


@pytest.mark.parametrize(
    "text", ["assert time.monotonic() - begun < 3", "assert (0, process_time() - a <= 2) == (0, True)"]
)
def test_a_clock_below_a_figure_is_seen(text: str) -> None:
    assert list(held_clocks(text)) == [1]


def test_no_test_holds_a_clock() -> None:
    found = []
    for path in sorted((ROOT / "tests").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if any(f"{clock}()" in text for clock in CLOCKS):
            found += [f"{path.relative_to(ROOT)}:{line}" for line in held_clocks(text)]
    assert found == []
