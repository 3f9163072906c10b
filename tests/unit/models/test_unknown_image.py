"""``recipe lint`` of an image of which no release is known: one note, in place of errors about another release."""

import pytest

from gb10.models.issue import Issue
from gb10.models.lint.linting import lint
from gb10.models.lint.rule import load_rules
from gb10.models.lint.served import unknown_image
from gb10.models.load.loading import load_model_recipe
from gb10.models.load.model_recipe import ModelRecipe

COMPARED = {"unknown-option", "wrong-choice", "unknown-json-key", "unknown-environment"}
COMMAND = "vllm serve org/m --no-such-option 1 --kv-cache-dtype nvfp4_of_a_fork"


def recipe(container: str, more: str = "") -> ModelRecipe:
    text = f'recipe_version: "1"\nname: n\nmodel: org/m\ncontainer: {container}\n{more}'
    return load_model_recipe(f"{text}env: {{VLLM_OF_A_FORK: '1'}}\ncommand: {COMMAND}\n", "x.yaml")


def found(container: str, more: str = "", release: str | None = None) -> list[Issue]:
    issues = lint(recipe(container, more), load_rules(), release=release).issues
    return [one for one in issues if one.code in {*COMPARED, "unknown-release"}]


@pytest.mark.parametrize(
    ("container", "more"),
    [
        ("vllm-node-b12x", ""),
        ("vllm-node-mxfp4:latest", ""),
        ("vllm-node", "build_args: [--exp-b12x]\n"),
        ("vllm/vllm-openai:qwen38-flash-next", ""),
        (f"vllm/vllm-openai@sha256:{'a' * 64}", ""),
        ("ghcr.io/somebody/vllm-fork:canary", ""),
        ("registry.example:5000/mine", ""),
        ("somebody/vllm-node-glm-4.7", ""),
        ("somebody/vllm:qwen-3.5", ""),
        ("somebody/spark-vllm-docker:mimo-v2.5-nightly", ""),
        ("nvcr.io/nvidia/vllm:26.08-py3", ""),
    ],
)
def test_somebodys_image_gets_one_note(container: str, more: str) -> None:
    (note,) = found(container, more)
    assert (note.code, note.level, note.line) == ("unknown-release", "note", 4)
    assert "--no-such-option" in note.text
    assert {one.code for one in found(container, more, release="0.33.0")} >= {"unknown-option", "unknown-environment"}


@pytest.mark.parametrize(
    "container",
    [
        "vllm-node",
        "vllm-node-tf5",
        "vllm/vllm-openai:latest",
        "vllm/vllm-openai:nightly-aarch64",
        "vllm/vllm-openai:v0.33.0",
        "gb10/vllm:0.33.0-cu130-sm121f",
        "somebody/vllm-spark:0.33.0",
        "somebody/spark:vllm-0.33.0",
        "somebody/spark:glm-4.7-v0.33.0",
    ],
)
def test_an_image_of_a_known_release_is_compared(container: str) -> None:
    assert unknown_image(recipe(container)) == ""
    assert {one.code for one in found(container)} >= {"unknown-option", "unknown-environment"}


def test_an_image_that_has_nothing_else_gets_no_note() -> None:
    text = 'recipe_version: "1"\nname: n\nmodel: org/m\ncontainer: vllm-node-b12x\ncommand: vllm serve org/m\n'
    assert not [
        one for one in lint(load_model_recipe(text, "x.yaml"), load_rules()).issues if one.code == "unknown-release"
    ]


def test_a_rule_for_certain_releases_says_nothing_of_an_image_without_one() -> None:
    env = "env: {VLLM_USE_FLASHINFER_MOE_FP4: '1'}\n"
    codes = {
        image: {
            one.code
            for one in lint(
                load_model_recipe(f"model: org/m\ncontainer: {image}\n{env}command: vllm serve org/m\n", "x.yaml"),
                load_rules(),
            ).issues
        }
        for image in ("vllm-node-mxfp4", "vllm/vllm-openai:v0.33.0")
    }
    assert ["moved-moe-backend" in found for found in codes.values()] == [False, True]
