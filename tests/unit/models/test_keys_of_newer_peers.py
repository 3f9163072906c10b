"""Keys that the newest sparkrun and eugr have: where build arguments stand, the least release, pulled images."""

import pytest

from gb10.models.load.known_keys import SPARKRUN_READ
from gb10.models.load.loading import check_recipe, load_model_recipe
from gb10.models.load.model_recipe import ModelRecipe
from gb10.models.needs.image_need import image_need
from gb10.models.recipe_privileges import powers_of

HEAD = 'recipe_version: "2"\nmodel: org/model\nruntime: vllm\ncontainer: vllm-node\ncommand: vllm serve {model}\n'


def recipe(more: str) -> ModelRecipe:
    return load_model_recipe(HEAD + more, "x.yaml")


ARGUMENTS = '[--vllm-ref, v0.26.0, --apply-vllm-pr, "12345"]'


@pytest.mark.parametrize(
    "more",
    [
        f"runtime_config:\n  build_args: {ARGUMENTS}\n",
        f"build_args: {ARGUMENTS}\n",
        'build_args: [--vllm-ref, v0.26.0]\nruntime_config: {build_args: [--apply-vllm-pr, "12345"]}\n',
    ],
)
def test_build_arguments_are_read_where_either_peer_has_them(more: str) -> None:
    found = image_need(recipe(more))
    assert dict(found.refs)["vllm"] == "0.26.0"
    assert found.pulls == (("vllm", 12345),)
    assert any("the image gets code from elsewhere" in power.text for power in powers_of(recipe(more), ()))


def test_code_from_elsewhere_is_shown_at_its_line() -> None:
    (power,) = (one for one in powers_of(recipe(f"runtime_config:\n  build_args: {ARGUMENTS}\n"), ()) if one.line > 5)
    assert power.line == 7
    assert "12345" in power.text


@pytest.mark.parametrize(("value", "what"), [("text", "must be a list"), ("[1]", "entry 1 of")])
def test_build_arguments_of_the_runtime_are_a_list_of_texts(value: str, what: str) -> None:
    (issue,) = (one for one in check_recipe(recipe(f"runtime_config:\n  build_args: {value}\n")))
    assert (issue.level, issue.code) == ("error", "wrong-type")
    assert what in issue.text
    assert "runtime_config.build_args" in issue.text


@pytest.mark.parametrize(
    ("least", "level"), [(SPARKRUN_READ, None), ("0.4.0", None), ("0.3", None), ("0.5.0", "warning"), ("x", "warning")]
)
def test_the_least_sparkrun_is_compared_and_refuses_nothing(least: str, level: str | None) -> None:
    found = [*check_recipe(recipe(f'min_sparkrun_version: "{least}"\n'))]
    assert [one.level for one in found] == ([level] if level else [])


def test_pull_image_is_a_key() -> None:
    text = 'recipe_version: "1"\nname: n\nmodel: m\ncontainer: c\npull_image: true\ncommand: vllm serve m\n'
    assert [*check_recipe(load_model_recipe(text, "x.yaml"))] == []
