"""What is said of a recipe: its nodes, whether it fits into their memory, and in which words."""

import json
from typing import Any

import pytest

from gb10.cli.models.recipe_show import document, lines, listed, nodes_of
from gb10.models.lint.fit import CODE, FULL, fit_of
from gb10.models.load.loading import load_model_recipe
from gb10.models.load.model_recipe import ModelRecipe
from gb10.models.render.rendered import RenderRequest

KNOWN = "openai/gpt-oss-120b"
"""A model whose sizes are in the checkout: 61 GiB of weights."""


def recipe(command: str = "vllm serve {model} --gpu-memory-utilization 0.8", **keys: Any) -> ModelRecipe:  # noqa: ANN401
    return load_model_recipe(json.dumps({"model": KNOWN, "command": command, **keys}), "x.yaml")


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({}, "any"),
        ({"solo_only": True}, "1"),
        ({"mode": "solo", "max_nodes": 4}, "1"),
        ({"cluster_only": True}, "2 or more"),
        ({"min_nodes": 3}, "3 or more"),
        ({"max_nodes": 4}, "1 to 4"),
        ({"max_nodes": 1}, "1"),
        ({"min_nodes": 2, "max_nodes": 4}, "2 to 4"),
        ({"min_nodes": 2, "max_nodes": 2}, "2"),
        ({"cluster_only": True, "max_nodes": 4}, "2 to 4"),
    ],
)
def test_the_nodes_of_a_recipe(keys: dict[str, Any], words: str) -> None:
    assert nodes_of(recipe(**keys)) == words


def test_a_model_that_fits_has_no_issue_and_a_line() -> None:
    found = fit_of(recipe(defaults={"max_model_len": 4096}, max_nodes=1), RenderRequest()).line
    assert found
    assert " GiB a node" in found
    assert found.endswith("(recipe memory)")
    levels = {issue.level for issue in fit_of(recipe(max_nodes=1), RenderRequest()).issues()}
    assert "error" not in levels


def test_a_model_that_does_not_fit_is_an_error_here_and_a_warning_for_another_launcher() -> None:
    small = recipe("vllm serve {model} --gpu-memory-utilization 0.3", max_nodes=1)
    (issue,) = [one for one in fit_of(small, RenderRequest()).issues() if one.code == CODE]
    assert (issue.level, issue.line) == ("error", small.line("command"))
    assert issue.fix
    for request in (RenderRequest(peer="sparkrun"), RenderRequest(lenient=True)):
        assert [one.level for one in fit_of(small, request).issues(lenient=True) if one.code == CODE] == ["warning"]
    assert (fit_of(small, RenderRequest()).line or "").startswith("does not fit: ")


def test_a_model_that_leaves_little_is_warned_of() -> None:
    full = recipe("vllm serve {model} --gpu-memory-utilization 0.97", max_nodes=1)
    found = fit_of(full, RenderRequest()).issues()
    assert {one.code for one in found} & {CODE, FULL}


def test_a_model_of_which_nothing_is_known_has_no_estimate() -> None:
    unknown = recipe("vllm serve nobody/knows", model="nobody/knows")
    assert fit_of(unknown, RenderRequest()).estimate is None
    assert fit_of(unknown, RenderRequest()).line is None
    assert fit_of(unknown, RenderRequest()).issues() == ()
    assert fit_of(recipe("vllm serve {model} --max-model-len x"), RenderRequest()).estimate is None


def test_lines_leave_out_what_a_recipe_does_not_say() -> None:
    found = list(lines(recipe(description="two\n  lines", defaults={"port": 8000, "empty": ""})))
    assert f"{'what':28} two lines" in found
    assert f"{'set port':28} 8000" in found
    assert not any(line.startswith(("set empty", "image", "mods")) for line in found)


def test_a_document_has_only_what_json_has() -> None:
    made = load_model_recipe(
        "model: a/b\ncommand: vllm serve x\ndefaults: {when: 2026-01-02, list: [1, {a: null}]}\n", "x"
    )
    assert document(made)["defaults"] == {"when": "2026-01-02", "list": [1, {"a": None}]}


def test_a_list_of_recipes_has_straight_columns() -> None:
    head, first, second = listed({"a": recipe(), "a-longer-name": recipe(solo_only=True)})
    assert head.split() == ["name", "engine", "nodes", "throughput", "model"]
    assert first.index(KNOWN) == second.index(KNOWN) == head.index("model")
    assert not any(line.endswith(" ") for line in (head, first, second))
