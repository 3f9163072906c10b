"""Image references: the grammar of the engine, from values."""

import pytest

from gb10.containers.reference import check_reference, is_reference, registry_of, split_digest, split_reference
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


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("vllm", True),
        ("reg:5000/a/b:1", True),
        (f"a@sha256:{'0' * 64}", True),
        (f"a:1@sha256:{'0' * 64}", True),
        ("0" * 64, True),
        (f"a@sha256:{'0' * 63}", False),
        ("a@", False),
        ("a:b c", False),
        ("My/vllm", True),  # the first part is a registry's host
        ("my/Vllm", False),
        ("", False),
    ],
)
def test_what_can_name_an_image(text: str, names: bool) -> None:
    assert is_reference(text) is names


@pytest.mark.parametrize(
    ("reference", "registry"),
    [
        ("vllm", None),
        ("my/vllm", None),
        ("localhost/vllm", "localhost"),
        ("localhost", None),
        ("reg.example/a", "reg.example"),
        ("reg:5000/a", "reg:5000"),
        ("[fd00::1]/a", "[fd00::1]"),
        ("Reg/a", "Reg"),
        ("reg.example", None),
    ],
)
def test_the_registry_that_a_reference_names(reference: str, registry: str | None) -> None:
    assert registry_of(reference) == registry


def test_a_digest_is_apart_from_its_repository() -> None:
    digest = f"sha256:{'0' * 64}"
    assert split_digest(f"reg:5000/a@{digest}") == ("reg:5000/a", digest)
    assert split_digest("reg:5000/a:1") == ("reg:5000/a:1", None)
    for wrong in ("a@sha256:1", "a@"):
        with pytest.raises(UsageError, match="is no digest"):
            split_digest(wrong)


def test_a_name_has_255_characters_at_most() -> None:
    assert check_reference("a" * 255) == f"{'a' * 255}:latest"
    with pytest.raises(UsageError) as caught:
        check_reference("a" * 256)
    assert caught.value.where == "the name is longer than 255 characters"
    with pytest.raises(UsageError) as caught:
        check_reference("0" * 64)
    assert caught.value.where == "64 hex digits name an image's id"
