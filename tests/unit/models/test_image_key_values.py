"""Image recipes of KEY=VALUE lines become an engine and releases, or one reason why not."""

import pytest

from gb10.errors import UsageError
from gb10.models.load.image_key_values import LARGEST, image_wish, read_key_values

GOOD = """
# a comment
DOCKERFILE=Dockerfile.vllm
IMAGE_TAG="example/vllm:1"
VLLM_VERSION=0.14.1
VLLM_REF='v0.14.1'
FLASHINFER_VERSION=0.6.2
TRANSFORMERS_VERSION=5.0.0
APPLY_VLLM_PR_1=0
BUILD_JOBS=16
"""


def test_an_engine_and_its_releases_are_taken_and_the_rest_is_named() -> None:
    wish = image_wish(read_key_values(GOOD, "x.recipe"), "x.recipe")
    assert (wish.engine, wish.refs) == ("vllm", {"vllm": "0.14.1", "flashinfer": "0.6.2"})
    assert wish.ignored == ("TRANSFORMERS_VERSION",)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("LLAMACPP_VERSION=b9000", "llama.cpp"),
        ("APPLY_VLLM_PR_1=1", "pull requests"),
        ("NCCL_REPO=https://example.org/nccl", "NCCL"),
        ("DSV4_KERNEL_REF=abc", "git repository"),
        ("FLASH_MLA_REF=abc", "FlashMLA"),
        ("SGLANG_VERSION=0.5.10", "two engines"),
        ("VLLM_VERSION=main", "branch or commit"),
        ("VLLM_VERSION=", "cannot be expressed"),
    ],
)
def test_what_cannot_be_built_has_one_reason(line: str, said: str) -> None:
    text = GOOD if not line.endswith("=") else GOOD.replace("VLLM_REF='v0.14.1'", "")
    with pytest.raises(UsageError) as caught:
        image_wish(read_key_values(f"{text}{line}\n", "x.recipe"), "x.recipe")
    assert "x.recipe cannot be expressed" in str(caught.value)
    assert said in str(caught.value)


@pytest.mark.parametrize("text", ["model: x", "A=1\njust words\n", "=1", "A=" + "x" * LARGEST])
def test_what_is_no_such_file_is_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError, match="not an image recipe"):
        read_key_values(text, "x.recipe")
