"""Published figures: found by the model's family, each with its source."""

import pytest

from gb10.serving.benchmark.published import family, published

FAMILIES = {
    "gpt-oss-120b": ("openai/gpt-oss-120b", "ggml-org/gpt-oss-120b-GGUF"),
    "qwen3-30b-a3b": ("nvidia/Qwen3-30B-A3B-FP4", "Qwen/Qwen3-30B-A3B", "/models/Qwen3-30B-A3B-Instruct-2507-FP8/"),
    "qwen3-coder-30b-a3b": ("ggml-org/Qwen3-Coder-30B-A3B-Instruct-Q8_0-GGUF",),
    "glm-4.7": ("zai-org/GLM-4.7-FP8", "nvidia/GLM-4.7-NVFP4"),
    "gemma-3-4b": ("ggml-org/gemma-3-4b-it-qat-GGUF",),
}


@pytest.mark.parametrize(("name", "models"), FAMILIES.items())
def test_the_form_of_the_weights_is_no_other_model(name: str, models: tuple[str, ...]) -> None:
    assert {family(model) for model in models} == {name}


def test_rows_of_recipes_and_of_llama_cpp_are_found() -> None:
    found = published("someone/gpt-oss-120b-AWQ")
    assert {one.row.engine for one in found} == {"vllm", "llama-cpp"}
    assert [one.row.concurrency for one in found] == sorted(one.row.concurrency for one in found)
    coder = published("Qwen/Qwen3-Coder-30B-A3B-Instruct")
    assert [one.row.tokens_per_s for one in coder] == [57.63, 64.11, 102.01, 154.91, 232.98, 345.01]
    assert all("llama.cpp" in one.row.source for one in coder)


def test_nobody_published_an_unknown_model() -> None:
    assert published("nobody/knows-this-1b") == ()
