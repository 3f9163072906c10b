"""Values of other people's files, and how a recipe that was imported is written."""

import pytest
import yaml

from gb10.models.importing.import_result import ImportResult, command_of, number, pullable, recipe_text, texts
from gb10.models.launches.container_launch import mapping


@pytest.mark.parametrize(
    ("value", "found"),
    [(3, 3.0), (0.5, 0.5), (0, 0), (-1, 0), (-0.5, 0), (True, 0), ("3", 0), (None, 0), ([3], 0)],
)
def test_a_number_or_nothing(value: object, found: float) -> None:
    assert number(value) == found


def test_mappings_and_lists_of_others_have_texts() -> None:
    assert mapping({1: "a", "b": 2}) == {"1": "a", "b": 2}
    assert mapping([("a", 1)]) == mapping(None) == {}
    assert texts([1, "a", None]) == texts((1, "a", None)) == ["1", "a", "None"]
    assert texts("abc") == texts(None) == []


@pytest.mark.parametrize(
    ("image", "found"),
    [
        ("owner/name:tag", "docker.io/owner/name:tag"),
        ("ours:tag", "ours:tag"),
        ("ghcr.io/owner/name", "ghcr.io/owner/name"),
        ("localhost:5000/name", "localhost:5000/name"),
    ],
)
def test_an_image_has_a_registry_where_a_node_must_pull_it(image: str, found: str) -> None:
    assert pullable(image) == found


def test_a_command_has_an_option_and_its_values_in_each_line() -> None:
    made = command_of("vllm serve", ["{model}", "-tp", "2", "--json", '{"a b": 1}', "--port", "{port}", "{Port}"])
    assert made == "vllm serve \\\n  {model} \\\n  -tp 2 \\\n  --json '{\"a b\": 1}' \\\n  --port {port} '{Port}'\n"
    assert command_of("vllm serve", []) == "vllm serve\n"


def test_texts_of_several_lines_are_blocks_and_equal_values_no_aliases() -> None:
    shared = ["x"]
    text = recipe_text(ImportResult(values={"b": "one\ntwo\n", "a": shared, "c": shared, "d": "é"}), "x.json")
    assert text.startswith("# Imported from x.json. Look at `recipe lint` before you use it.\nb: |\n  one\n  two\na:\n")
    assert "&" not in text
    assert "é" in text
    assert yaml.safe_load(text) == {"b": "one\ntwo\n", "a": ["x"], "c": ["x"], "d": "é"}
