"""The words and options of a serve command, the nodes and the release that a recipe asks for."""

import json

import pytest

from gb10.models.lint.served import (
    engine_of,
    lint_case,
    options_of,
    release_of,
    requested_nodes,
    unknown_image,
    words_of,
)
from gb10.models.load.loading import load_model_recipe
from gb10.models.load.model_recipe import ModelRecipe


def recipe(**keys: object) -> ModelRecipe:
    return load_model_recipe(json.dumps({"model": "org/m", "command": "vllm serve org/m", **keys}), "x.yaml")


@pytest.mark.parametrize(
    ("command", "engine", "words"),
    [
        ("vllm serve m --port 1", "vllm", ["m", "--port", "1"]),
        ("cd /x && vllm serve m --port 1 && echo done", "vllm", ["m", "--port", "1"]),
        ("vllm serve m | tee log", "vllm", ["m"]),
        ("vllm serve m; sleep 1", "vllm", ["m"]),
        ("vllm serve m || true", "vllm", ["m"]),
        ("vllm serve m \\\n  --port 1", "vllm", ["m", "--port", "1"]),
        ("vllm serve m --name 'a b' --json '{\"a\": 1}'", "vllm", ["m", "--name", "a b", "--json", '{"a": 1}']),
        ("vllm serve m --name 'a;b' # c", "vllm", ["m", "--name", "a;b", "#", "c"]),
        ("vllm serve m --name 'a b", "vllm", ["m", "--name"]),
        ("python -m sglang.launch_server --tp 2", "sglang", ["--tp", "2"]),
        ("trtllm-serve m --tp_size 2", "trtllm", ["m", "--tp_size", "2"]),
        ("llama-server -m x", None, ["llama-server", "-m", "x"]),
        ("", None, []),
    ],
)
def test_the_words_of_a_server(command: str, engine: str | None, words: list[str]) -> None:
    assert engine_of(command, recipe()) == engine
    assert words_of(command, engine) == words


def test_options_have_long_names_and_keep_their_spelling() -> None:
    words = ["m", "-tp", "2", "--max_num_seqs=8", "--enable-x", "--port", "-1", "--stop", "a", "b", "--stop", "c"]
    values, spelled = options_of(words)
    assert values == {
        "--tensor-parallel-size": ("2",),
        "--max-num-seqs": ("8",),
        "--enable-x": ("",),
        "--port": ("-1",),
        "--stop": ("a", "b", "c"),
    }
    assert spelled["--tensor-parallel-size"] == "-tp"
    assert spelled["--max-num-seqs"] == "--max_num_seqs"


@pytest.mark.parametrize(
    ("keys", "nodes"),
    [
        ({}, 1),
        ({"min_nodes": 3}, 3),
        ({"min_nodes": 0}, 1),
        ({"defaults": {"tensor_parallel": 4}}, 4),
        ({"defaults": {"tensor_parallel": 2, "pipeline_parallel": 3, "data_parallel": 2}}, 12),
        ({"defaults": {"tensor_parallel": 64}}, 64),
        ({"defaults": {"tensor_parallel": 65}}, 1),
        ({"defaults": {"tensor_parallel": "2"}}, 1),
        ({"defaults": {"tensor_parallel": 4, "pipeline_parallel": 0}}, 4),
        ({"solo_only": True, "defaults": {"tensor_parallel": 4}}, 1),
        ({"cluster_only": True}, 2),
        ({"cluster_only": True, "defaults": {"tensor_parallel": 4}}, 4),
        ({"min_nodes": 2, "solo_only": True}, 2),
    ],
)
def test_the_nodes_that_a_recipe_asks_for(keys: dict[str, object], nodes: int) -> None:
    assert requested_nodes(recipe(**keys)) == nodes


@pytest.mark.parametrize(
    ("container", "release"),
    [
        ("vllm/vllm-openai:v0.33.0", "0.33.0"),
        ("vllm/vllm-openai:v0.33.0-cu130", "0.33.0"),
        ("lmsysorg/sglang:0.5.23.post1", "0.5.23.post1"),
        ("vllm/vllm-openai:v0.19.2rc1", "0.19.2rc1"),
        ("vllm/vllm-openai:latest", "9.9"),
        (None, "9.9"),
    ],
)
def test_the_release_is_the_tags_or_that_of_our_image(container: str | None, release: str) -> None:
    keys = {"container": container} if container else {}
    assert release_of(recipe(**keys), "vllm", {"vllm": "9.9"}) == release
    assert release_of(recipe(), "llama", {"vllm": "9.9"}) == release_of(recipe(), None, {"vllm": "9.9"}) == ""


@pytest.mark.parametrize(
    ("container", "known"),
    [
        ("vllm/vllm-openai:latest", True),
        ("vllm/vllm-openai:nightly-aarch64", True),
        ("vllm/vllm-openai", True),
        ("vllm/vllm-openai:v0.33.0", True),
        ("vllm/vllm-openai:cu130", False),
        (f"vllm/vllm-openai@sha256:{'a' * 64}", False),
        ("registry.example:5000/me/vllm", False),
        ("vllm-node", True),
        ("vllm-node-tf5", True),
        ("vllm-node-mxfp4", False),
    ],
)
def test_images_of_which_a_release_is_known(container: str, known: bool) -> None:
    assert (unknown_image(recipe(container=container)) == "") is known


def test_a_recipe_as_it_runs() -> None:
    keys = {"command": "vllm serve org/m -tp {tensor_parallel} --port {port}", "defaults": {"port": 8000}}
    case = lint_case(recipe(**{**keys, "defaults": {"port": 8000, "tensor_parallel": 2}}), {"vllm": "0.33.0"})
    assert (case.engine, case.release, case.nodes, case.first) == ("vllm", "0.33.0", 2, ("org/m",))
    assert case.number("--port") == 8000
    assert case.number("--tensor-parallel-size") == 2
    assert case.number("--absent") is None
    assert (case.foreign, case.unknown) == (False, "")
