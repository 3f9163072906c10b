"""Quoting for Dockerfiles: plain values stay as they are, others mean themselves."""

import subprocess

import pytest

from gb10.image.plan.render import NEWLINE, array, quoted, shell, word

VALUES = [
    "plain",
    "two words",
    "$HOME",
    'a "quote"',
    "it's",
    "back\\slash\\",
    "ünï 😀",
    "one\ntwo",
    "`x` $(y) <<EOF",
    "",
]


def test_plain_values_are_written_as_before() -> None:
    assert (quoted("/usr/bin:1"), word("/workspace/vllm"), shell("/workspace/vllm")) == (
        '"/usr/bin:1"',
        "/workspace/vllm",
        "/workspace/vllm",
    )
    assert array(("python3", "-m")) == '["python3", "-m"]'


def test_what_a_dockerfile_would_expand_is_escaped() -> None:
    assert word("/a $b") == r'"/a \$b"'
    assert quoted('q"\\') == r'"q\"\\"'
    assert quoted("ü\n$x") == f'"ü${{{NEWLINE}}}\\$x"'


@pytest.mark.parametrize("value", VALUES)
def test_a_shell_reads_the_value_back(value: str) -> None:
    text = f"printf %s {shell(value)}"
    assert "\n" not in text
    done = subprocess.run(["/bin/sh", "-c", text], env={NEWLINE: "\n"}, capture_output=True, check=True)
    assert done.stdout.decode() == value
