"""A hostile YAML document is one clear error, in little time and memory."""

from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Annotated

import pytest
from yaml import ScalarNode, YAMLError

from gb10.core.document import (
    DEEPEST,
    LARGEST,
    LONGEST_SCALAR,
    MOST_NODES,
    check_value,
    compose,
    mistakes_of,
    parse_document,
    scalar,
)
from gb10.core.fields import Model, unique
from gb10.errors import UsageError
from gb10.image.plan.catalog import ROOT
from gb10.image.recipe.image_recipe import Recipe
from tests.hang import no_hang

GOOD = (Path(ROOT) / "recipes/images/vllm.yaml").read_text(encoding="utf-8")

HOSTILE: dict[str, tuple[str, str]] = {
    "a list that holds itself": ("a: &a [*a]", "aliases"),
    "a bomb of aliases": ("a: &a [1, 1]\nb: &b [*a, *a]\nc: [*b, *b]", "aliases"),
    "800 nested lists": ("a: " + "[" * 800, "nested more than"),
    "nested keys": ("? " * 800, "nested more than"),
    "a tag on an empty number": ("user: !!int ''", "tags"),
    "a tag on a switch": ("user: !!bool maybe", "tags"),
    "a tag on a date": ("user: !!timestamp x", "tags"),
    "an escape beyond Unicode": (r'a: "\UFFFFFFFF"', "not YAML"),
    "a base 60 float": ("user: 1" + ":59" * 500 + ".5", "too long|this long"),
    "a base 60 number": ("user: 1" + ":59" * 15, "too large"),
    "many values": ("a: [" + "a," * 100_000, "more than 20000 values"),
    "many unknown keys": ("".join(f"k{index}: 1\n" for index in range(9000)), "unknown key"),
    "a long text": ("a: " + "x" * LARGEST, "too large"),
    "a lone surrogate": (r'engine: "\uD800"', "not YAML"),
    "a long key": ("k" * 1000 + ": 1", "unknown key"),
    "a merge key": ("user: <<", "not YAML"),
}


def mistake(text: str) -> str:
    with pytest.raises(UsageError) as caught:
        parse_document(text, Recipe, where="x.yaml", what="image recipe")
    return str(caught.value)


@pytest.mark.parametrize("name", HOSTILE)
@no_hang()
def test_a_hostile_document_is_one_error(name: str) -> None:
    text, said = HOSTILE[name]
    error = mistake(text)
    assert any(word in error for word in said.split("|")), error
    assert len(error) < 50_000


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("torch==2.14.0", "a; " + "(" * 3000),
        lambda text: text.replace("torch==2.14.0", "a==" + "1" * 5000),
        lambda text: text.replace('"3.13"', '"3.1000000000"'),
    ],
)
def test_a_hostile_value_is_refused_where_it_stands(change: Callable[[str], str]) -> None:
    assert "x.yaml:" in mistake(change(GOOD))


class Inner(Model):
    size_of: int = 0
    day: date | None = None


class Outer(Model):
    name: str
    inner: Inner | None = None
    listed: tuple[Inner, ...] = ()
    named: dict[str, Inner] = {}  # noqa: RUF012 # pydantic copies it
    noted: Annotated[tuple[Inner, ...], unique("the size", lambda one: str(one.size_of))] = ()


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ("nam: x", ["f:1:1: unknown key 'nam'; did you mean 'name'? valid keys: "]),
        ("name: x\nzzz: 1", ["f:2:1: unknown key 'zzz'; valid keys: name, inner, listed, named, noted"]),
        ("name: x\ninner: {sise-of: 1}", ["f:2:9: unknown key 'sise-of'; did you mean 'size-of'? valid keys: size-of"]),
        ("name: x\nlisted:\n- size-of: 1\n- b: 2", ["f:4:3: unknown key 'b'; valid keys: size-of, day"]),
        ("name: x\nnamed:\n  k: {b: 2}", ["f:3:7: unknown key 'b'; valid keys: size-of, day"]),
        ("name: x\nnoted: [{b: 2}]", ["f:2:10: unknown key 'b'; valid keys: size-of, day"]),
        ("name: x\nnoted: [{size-of: 2}, {size-of: 2}]", ["f:2:23: 'noted[1]': the size 2 is listed twice"]),
        ("name: [1]", ["f:1:7: 'name' must be text, found a list"]),
        ("name: {a: 1}", ["f:1:7: 'name' must be text, found a mapping"]),
        ("name: 5", ["f:1:7: 'name' must be text, found 5 (for text, put it in quotes)"]),
        ("name: x\ninner: 5", ["f:2:8: 'inner' must be a mapping (key: value), found 5"]),
        ("name: x\ninner: {day: 2026-02-30}", ["f:2:14: this is not YAML: 2026-02-30 is no date"]),
        ("name: x\nname: y", ["f:2:1: the key 'name' is a duplicate (first in line 1)"]),
        ("[1]: x", ["f:1:1: a key must be text, not a list or a mapping"]),
        (f"name: x\ninner: {{size-of: {1 << 64}}}", ["f:2:18: this is not YAML: the number is too large"]),
        (f"name: [{'x' * 80}]", ["f:1:7: 'name' must be text, found a list"]),
        (f"{'k' * 80}: 1", [f"f:1:1: unknown key '{'k' * 80}'; valid keys: "]),
        (f"{'k' * 81}: 1", [f"f:1:1: unknown key '{'k' * 80}…'; valid keys: "]),
    ],
)
def test_each_mistake_has_its_place_and_remedy(text: str, problems: list[str]) -> None:
    with pytest.raises(UsageError) as caught:
        parse_document(text, Outer, where="f", what="file")
    lines = (caught.value.where or "").splitlines()
    for problem in problems:
        assert any(line.startswith(problem) for line in lines), lines


def test_what_is_at_a_limit_is_accepted() -> None:
    text = f"name: x{' ' * (LARGEST - 7)}"
    assert parse_document(text, Outer, where="f", what="file").name == "x"
    found = parse_document(f"name: x\ninner: {{size-of: {(1 << 64) - 1}}}", Outer, where="f", what="file")
    assert found.inner == Inner(size_of=(1 << 64) - 1)
    deep = f"a: {'[' * (DEEPEST - 2)}1{']' * (DEEPEST - 2)}"
    compose(deep)
    with pytest.raises(YAMLError, match="nested more than"):
        compose(deep.replace("1", "[1]"))
    wide = f"[{'1,' * (MOST_NODES - 1)}]"
    compose(wide)
    with pytest.raises(YAMLError, match="more than 20000 values"):
        compose(wide.replace("]", "1]"))
    compose("- [1]\n" * DEEPEST)  # neighbours are not nested
    assert scalar(ScalarNode("tag:yaml.org,2002:int", "1" * 19)) == int("1" * 19)
    with pytest.raises(ValueError, match="too long"):
        scalar(ScalarNode("tag:yaml.org,2002:int", "0" * (LONGEST_SCALAR + 1)))
    assert scalar(ScalarNode("tag:yaml.org,2002:int", "0" * LONGEST_SCALAR)) == 0


def test_a_value_without_positions_is_told_by_its_keys() -> None:
    check_value({"name": "x", "listed": ({"size-of": 1},)}, Outer, where="f", what="file")
    with pytest.raises(UsageError, match="f is not a valid file: 2 errors") as caught:
        check_value({"listed": ({"size-of": "1"},)}, Outer, where="f", what="file")
    assert set((caught.value.where or "").splitlines()) == {
        "name: the key 'name' is missing",
        "listed[0].size-of: 'listed[0].size-of' must be a whole number, found '1'",
    }
    assert mistakes_of({"name": "x"}, Outer) == []
