"""Image references: the grammar of the engine, from values."""

import pytest

from gb10.containers.reference import check_reference, split_reference
from gb10.errors import UsageError


@pytest.mark.parametrize(
    ("written", "whole"),
    [
        ("vllm", "vllm:latest"),
        ("my/vllm", "my/vllm:latest"),
        ("my/vllm:0.9_a-B", "my/vllm:0.9_a-B"),
        ("reg:5000/x", "reg:5000/x:latest"),
        ("reg:5000/a/b__c-d:1", "reg:5000/a/b__c-d:1"),
        ("localhost/x", "localhost/x:latest"),
        ("GHCR.example/x:1", "GHCR.example/x:1"),
        ("[fd00::1]:5000/x:1", "[fd00::1]:5000/x:1"),
    ],
)
def test_a_reference_is_completed(written: str, whole: str) -> None:
    assert check_reference(written) == whole
    assert check_reference(whole) == whole


@pytest.mark.parametrize(
    "wrong",
    [
        "",
        ":1",
        "x:",
        "x:-1",
        f"x:{'a' * 129}",
        "My-Vllm",
        "a//b",
        "/a",
        "a/",
        "a b",
        "x:a:b",
        "-reg.example/x",
        "reg:port/x",
        "x@sha256:" + "0" * 64,
        "0" * 64,
        "a___b",
        "a" * 256,
        "x\n",
        "x:1\n",
        "https://reg.example/x",
    ],
)
def test_what_the_engine_would_refuse_is_refused_with_a_hint(wrong: str) -> None:
    with pytest.raises(UsageError) as caught:
        check_reference(wrong)
    assert caught.value.hint


def test_a_port_is_no_tag() -> None:
    assert split_reference("reg:5000/x") == ("reg:5000/x", "latest")
    assert split_reference("reg:5000/x:1") == ("reg:5000/x", "1")
