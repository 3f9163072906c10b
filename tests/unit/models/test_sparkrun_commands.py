"""The runtime that sparkrun takes, and the flags that it adds to a command or replaces in it."""

import json
from typing import Any

import pytest

from gb10.models.load.loading import load_model_recipe
from gb10.models.load.model_recipe import ModelRecipe
from gb10.models.render.rendered import RenderedRecipe, RenderRequest
from gb10.models.render.rendering import render_recipe
from gb10.models.render.sparkrun import IMAGES, runtime_of


def recipe(command: str = "vllm serve {model}", **keys: Any) -> ModelRecipe:  # noqa: ANN401 # keys of a recipe
    return load_model_recipe(json.dumps({"model": "a/b", "command": command, **keys}), "x.yaml")


def rendered(command: str, nodes: str = "", **keys: Any) -> RenderedRecipe:  # noqa: ANN401
    return render_recipe(recipe(command, **keys), RenderRequest(nodes=tuple(nodes)))


def serve(command: str, nodes: str = "", **keys: Any) -> str:  # noqa: ANN401
    found = rendered(command, nodes, **keys)
    assert found.serve, found.issues
    return " ".join(found.serve.split())


RAY = {"defaults": {"distributed_executor_backend": "Ray"}}


@pytest.mark.parametrize(
    ("command", "keys", "runtime"),
    [
        ("vllm serve x", {}, "vllm-distributed"),
        ("sglang serve x", {}, "sglang"),
        ("python -m sglang.launch_server", {}, "sglang"),
        ("python3 -m sglang.launch_server", {}, "sglang"),
        ("llama-server -hf x", {}, "llama-cpp"),
        ("trtllm-serve x", {}, "trtllm"),
        ("mpirun -n 2 trtllm-llmapi-launch", {}, "trtllm"),
        ("serve x", {}, "vllm-distributed"),
        ("vllm serve x", RAY, "vllm-ray"),
        ("vllm serve x", {"runtime": "vllm", **RAY}, "vllm-ray"),
        ("vllm serve x --distributed-executor-backend ray", {}, "vllm-ray"),
        ("vllm serve x", {"runtime": "vllm-distributed", **RAY}, "vllm-distributed"),
        ("vllm serve x", {"runtime": "atlas"}, "atlas"),
    ],
)
def test_the_runtime_as_written_or_as_the_command_says(command: str, keys: dict[str, Any], runtime: str) -> None:
    assert runtime_of(recipe(command, **keys)) == runtime


def test_an_override_of_the_backend_wins() -> None:
    def given(value: str) -> tuple[tuple[str, str], ...]:
        return (("distributed_executor_backend", value),)

    assert runtime_of(recipe(), given(" RAY ")) == "vllm-ray"
    assert runtime_of(recipe("vllm serve x", **RAY), given("mp")) == "vllm-distributed"
    assert runtime_of(recipe("sglang serve x"), given("ray")) == "sglang"


def test_the_name_of_the_model_is_served() -> None:
    assert serve("vllm serve {model}").endswith("vllm serve a/b --served-model-name a/b")
    assert serve("vllm serve {model} --served-model-name own").count("--served-model-name") == 1
    assert serve("vllm serve {model}", defaults={"served_model_name": "own"}).endswith("--served-model-name own")
    assert "--served-model-name" not in serve("sglang serve {model}")
    assert "--served-model-name own" in serve("sglang serve {model}", defaults={"served_model_name": "own"})
    llama = serve("llama-server -hf {model}", runtime="llama-cpp", defaults={"served_model_name": "own"})
    assert "--alias own" in llama


def test_tensorrt_reads_some_parameters_from_a_file() -> None:
    flag = "--extra_llm_api_options /tmp/extra-llm-api-config.yml"
    assert flag not in serve("trtllm-serve {model}")
    assert serve("trtllm-serve {model}", defaults={"moe_backend": "CUTLASS"}).endswith(flag)
    own = serve("trtllm-serve {model} --extra_llm_api_options own.yml", defaults={"moe_backend": "CUTLASS"})
    assert own.count("--extra_llm_api_options") == 1


def test_ray_joins_several_nodes_alone() -> None:
    command = "vllm serve {model} -tp {tensor_parallel}"
    two = serve(command, "ab", runtime="vllm-ray", defaults={"tensor_parallel": 2})
    assert "--distributed-executor-backend ray" in two
    assert "--distributed-executor-backend" not in serve(command, runtime="vllm-ray", defaults={"tensor_parallel": 1})
    replaced = {"distributed_executor_backend": "mp"}
    own = serve("vllm serve {model} --distributed-executor-backend uni", defaults=replaced)
    assert own.count("--distributed-executor-backend") == 1
    assert "--distributed-executor-backend mp" in own


def test_a_placeholder_without_a_value_is_an_error_at_its_line() -> None:
    text = "model: a/b\ncommand: |\n\n  vllm serve {model} \\\n    --port {nowhere}\n"
    found = render_recipe(load_model_recipe(text, "x.yaml"), RenderRequest())
    (issue,) = [one for one in found.issues if one.code == "missing-placeholder"]
    assert (issue.level, issue.line) == ("error", 5)
    assert "{nowhere}" in issue.text
    assert found.serve is None


def test_an_unknown_runtime_is_named_and_images_have_defaults() -> None:
    assert {"unknown-runtime"} <= {one.code for one in rendered("x", runtime="of-nobody").issues}
    assert rendered("sglang serve {model}").image == IMAGES["sglang"]
    assert rendered("sglang serve {model}", container="my/own:1").image == "my/own:1"


def test_what_stands_behind_two_dashes_is_dropped_and_said() -> None:
    found = render_recipe(recipe(), RenderRequest(arguments=("--seed", "1"), peer="sparkrun"))
    assert "dropped-arguments" in {one.code for one in found.issues}
    assert "dropped-arguments" not in {one.code for one in rendered("vllm serve {model}").issues}
