"""What a probe cuts out of a file and counts in it, held against Python's own ``ast``."""

import ast

import pytest

from gb10.image.patches.record import count_ast, scope_text

TEXT = '''import os

é = "ü"; A = 1


class K:
    """ä"""

    @property
    def one(self) -> str:
        return f(é) + f(1, 2)

    def two(self): return "\f", f(é)


if A:
    async def three():
        f(); return f(
            3)
'''
PLACES = ("K", "K.one", "K.two", "three")


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("scope", PLACES)
def test_a_definition_is_what_ast_cuts_out(scope: str, end: str) -> None:
    text = TEXT.replace("\n", end)
    name = scope.rpartition(".")[2]
    (node,) = (node for node in ast.walk(ast.parse(text)) if getattr(node, "name", "") == name)
    assert scope_text(text, scope) == ast.get_source_segment(text, node)


def test_a_definition_on_one_line_begins_after_what_stands_before_it() -> None:
    text = 'if é: "ö"\nclass K: x = "ö"; y = 1\n'
    assert scope_text(text, "K") == 'class K: x = "ö"; y = 1'


@pytest.mark.parametrize(
    ("pattern", "count"),
    [
        ("f(_)", 3),
        ("f(...)", 5),
        ("f()", 1),
        ("f(é)", 2),
        ("return _", 3),
        ("_", None),
        ("class K: ...", 0),
        ("f(é, ...)", 2),
        ("f(1, ...)", 1),
        ("f(1, 2, ...)", 1),
        ("f(1, 2, 3, ...)", 0),
    ],
)
def test_a_pattern_counts_what_looks_like_it(pattern: str, count: int | None) -> None:
    every = sum(isinstance(node, ast.expr) for node in ast.walk(ast.parse(TEXT)))
    assert count_ast(TEXT, pattern) == (every if count is None else count)
