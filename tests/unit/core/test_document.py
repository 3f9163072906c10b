"""A hostile YAML document is one clear error, in little time and memory."""

from collections.abc import Callable
from pathlib import Path
from time import process_time

import pytest

from gb10.core.document import LARGEST, parse_document
from gb10.errors import UsageError
from gb10.image.plan.catalog import ROOT
from gb10.image.recipe.image_recipe import Recipe

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
def test_a_hostile_document_is_one_error(name: str) -> None:
    text, said = HOSTILE[name]
    start = process_time()
    error = mistake(text)
    assert any(word in error for word in said.split("|")), error
    assert process_time() - start < 5
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
