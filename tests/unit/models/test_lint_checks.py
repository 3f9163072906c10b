"""The computed rules of `recipe lint`, on both sides of what they compare."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from gb10.models.lint.checks import (
    DEEPEST,
    blanks,
    graphs_between_steps,
    graphs_without_drafts,
    missing_templates,
    parallel_sizes,
    quotes,
    secrets,
    small_graphs,
)
from gb10.models.lint.engine_words import own_releases
from gb10.models.lint.rule import Finding
from gb10.models.lint.served import LintCase, lint_case
from gb10.models.lint.word_checks import unknown_options
from gb10.models.load.loading import load_model_recipe

DRAFTS = '--speculative-config \'{"method": "mtp", "num_speculative_tokens": 3}\''
TOKEN = "hf_" + "a" * 20
Check = Callable[[LintCase], Iterator[Finding]]


def found(check: Check, options: str = "", **keys: Any) -> list[tuple[str, str]]:  # noqa: ANN401
    """Value and name of what a check finds in a recipe of vLLM."""
    document = {"model": "a/b", "command": f"vllm serve a/b {options}", **keys}
    case = lint_case(load_model_recipe(json.dumps(document), "x.yaml"), own_releases())
    return [(one.value, one.name) for one in check(case)]


@pytest.mark.parametrize(
    ("check", "options", "wanted"),
    [
        (small_graphs, "--max-cudagraph-capture-size 7 --max-num-seqs 8", [("7", "8")]),
        (small_graphs, f"--max-cudagraph-capture-size 7 --max-num-seqs 8 {DRAFTS}", [("7", "32")]),
        (small_graphs, "--max-cudagraph-capture-size 8 --max-num-seqs 8", []),
        (small_graphs, "--max-cudagraph-capture-size 7", []),
        (small_graphs, "--max-num-seqs 8", []),
        (graphs_without_drafts, f"--max-cudagraph-capture-size 31 --max-num-seqs 8 {DRAFTS}", [("31", "32")]),
        (graphs_without_drafts, f"--max-cudagraph-capture-size 8 --max-num-seqs 8 {DRAFTS}", [("8", "32")]),
        (graphs_without_drafts, f"--max-cudagraph-capture-size 32 --max-num-seqs 8 {DRAFTS}", []),
        (graphs_without_drafts, f"--max-cudagraph-capture-size 7 --max-num-seqs 8 {DRAFTS}", []),
        (graphs_without_drafts, "--max-cudagraph-capture-size 8 --max-num-seqs 8", []),
        (graphs_without_drafts, f"--max-num-seqs 8 {DRAFTS}", []),
        (graphs_between_steps, f"--max-cudagraph-capture-size 30 {DRAFTS}", [("30", "4")]),
        (graphs_between_steps, f"--max-cudagraph-capture-size 32 {DRAFTS}", []),
        (graphs_between_steps, "--max-cudagraph-capture-size 31", []),
        (graphs_between_steps, DRAFTS, []),
    ],
)
def test_the_largest_graph_holds_the_largest_batch(check: Check, options: str, wanted: list[tuple[str, str]]) -> None:
    assert found(check, options) == wanted


@pytest.mark.parametrize(
    ("options", "keys", "wanted"),
    [
        ("-tp 2", {"max_nodes": 2}, []),
        ("-tp 4", {"max_nodes": 2}, [("4", "the recipe allows 2")]),
        ("-tp 2", {"solo_only": True}, [("2", "the recipe allows 1")]),
        ("-tp 2", {"mode": "solo"}, [("2", "the recipe allows 1")]),
        ("-tp 1", {"solo_only": True}, []),
        ("-tp 2 -pp 2 -dp 2", {"max_nodes": 7}, [("8", "the recipe allows 7")]),
        ("-tp 2 -pp 2 -dp 2", {"max_nodes": 8}, []),
        ("-tp 2 -dp 2 --enable-dp-attention", {"max_nodes": 2}, []),
        ("-tp 1", {"min_nodes": 2}, [("1", "the recipe asks for 2 nodes")]),
        ("-tp 1", {"cluster_only": True}, [("1", "the recipe asks for 2 nodes")]),
        ("-tp 2", {"cluster_only": True}, []),
        ("", {"cluster_only": True}, []),
        ("-tp 1", {}, []),
        ("-tp 1", {"min_nodes": "2"}, []),
        ("-tp 2", {"max_nodes": "1"}, []),
    ],
)
def test_gpus_are_as_many_as_nodes(options: str, keys: dict[str, Any], wanted: list[tuple[str, str]]) -> None:
    assert found(parallel_sizes, options, **keys) == wanted


@pytest.mark.parametrize(
    ("value", "keys", "missing"),
    [
        ("own.jinja", {}, True),
        ("folder/own.jinja2", {}, True),
        ("/own.jinja", {}, False),
        ("~/own.jinja", {}, False),
        ("$HOME/own.jinja", {}, False),
        ("https://a.example/own.jinja", {}, False),
        ("own.jinja", {"mods": ["m"]}, False),
        ("examples/own.jinja", {"container": "vllm/vllm-openai:v1"}, False),
        ("examples/own.jinja", {"container": "other"}, True),
        ("own.jinja", {"container": "vllm/vllm-openai:v1"}, True),
    ],
)
def test_a_template_must_be_there(value: str, keys: dict[str, Any], missing: bool) -> None:
    assert found(missing_templates, f"--chat-template {value}", **keys) == ([(value, "")] if missing else [])


def nested(depth: int) -> object:
    value: object = TOKEN
    for _ in range(depth):
        value = {"k": value}
    return value


def test_a_token_is_found_wherever_it_stands_but_not_shown() -> None:
    assert found(secrets, description=f"use {TOKEN}") == [("", "description")]
    assert found(secrets, defaults={"a": "x", "b": [1, TOKEN]}) == [("", "defaults.b.1")]
    assert found(secrets, env={"HF_TOKEN": TOKEN}) == []
    assert found(secrets, defaults={"a": "hf_" + "a" * 19}) == []
    deep = found(secrets, metadata=nested(DEEPEST - 1))
    assert [name.count(".") for _, name in deep] == [DEEPEST - 1]
    assert found(secrets, metadata=nested(DEEPEST)) == []


V1 = {"recipe_version": "1", "name": "n", "container": "c"}


def test_quotes_and_blanks_of_version_1() -> None:
    assert found(quotes, env={"A": 'x "y"', "B": 'x \\"y\\"', "C": "plain", "D": '\\\\"'}, **V1) == [
        ('x "y"', "A"),
        ('\\\\"', "D"),
    ]
    assert found(quotes, env={"A": 'x "y"'}) == []
    assert found(blanks, "--a 1 \\  \n --b 2", **V1) == [("\\  ", "")]
    assert found(blanks, "--a 1 \\\n --b 2", **V1) == []
    assert found(blanks, "--a 1 \\  \n", **V1) == []  # nothing follows
    assert found(blanks, "--a 1 \\  \n --b 2") == []


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ("--max-modle-len 1", [("--max-modle-len", "; did you mean --max-model-len?")]),
        ("--zzzzqqqq 1", [("--zzzzqqqq", "")]),
        ("--max-model-len 1 --help -h", []),
    ],
)
def test_an_unknown_option_has_the_closest_beside_it(options: str, wanted: list[tuple[str, str]]) -> None:
    document = {"model": "a/b", "command": f"vllm serve a/b {options}", "container": "gb10/vllm:0.33.0-cu130-sm121f"}
    case = lint_case(load_model_recipe(json.dumps(document), "x.yaml"), own_releases())
    assert [(one.value, one.more) for one in unknown_options(case)] == wanted
