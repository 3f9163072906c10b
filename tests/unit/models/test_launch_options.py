"""The numbers of a serve command, option by option: what each changes of the launch, and nothing else."""

from dataclasses import fields
from typing import Any

import pytest

from gb10.errors import UsageError
from gb10.models.lint.fit import launch_of, model_name
from gb10.models.lint.served import json_object, options_of, share, size_in_gib, vllm_drafts, whole, word
from gb10.models.load.loading import load_model_recipe
from gb10.models.memory.launch import Drafts, Engine, Launch
from gb10.models.memory.weights.weight import Ranks
from gb10.models.render.rendered import RenderedRecipe


def launch(engine: Engine, command: str, image: str = "x/y:1") -> Launch:
    rendered = RenderedRecipe(runtime=engine, image=image, script=None, serve=command, parameters={})
    return launch_of(engine, "1.0", options_of(command.split())[0], rendered, "org/m")


def changed(engine: Engine, command: str) -> dict[str, Any]:
    """The fields that differ from those of a command without options."""
    found, plain = launch(engine, command), launch(engine, "")
    names = [field.name for field in fields(Launch)]
    return {name: getattr(found, name) for name in names if getattr(found, name) != getattr(plain, name)}


def test_a_command_without_options_is_the_default_launch() -> None:
    assert launch("vllm", "") == Launch(engine="vllm", release="1.0")
    assert launch("sglang", "") == Launch(engine="sglang", release="1.0")
    assert launch("vllm", "", image="gb10/vllm:1").own_image


@pytest.mark.parametrize(
    ("command", "wanted"),
    [
        ("--gpu-memory-utilization 0.8", {"fraction": 0.8}),
        ("--tensor-parallel-size 2", {"ranks": Ranks(tensor=2)}),
        ("-tp 2 -pp 3", {"ranks": Ranks(tensor=2, stages=3)}),
        ("-dp 2", {"replicas": 2}),
        ("-dp 2 --enable-expert-parallel", {"replicas": 2, "ranks": Ranks(expert_copies=2)}),
        ("--kv-cache-memory-bytes 2G", {"cache_size": 2 << 30}),
        ("--kv-cache-memory 2g", {"cache_size": 2_000_000_000}),
        ("--max-model-len 64k", {"length": 64_000}),
        ("--max-model-len 64K", {"length": 65_536}),
        ("--max-model-len auto", {}),
        ("--max-model-len -1", {}),
        ("--max-num-seqs 8", {"requests": 8}),
        ("--max-num-batched-tokens 4096", {"batched": 4096}),
        ("--kv-cache-dtype fp8", {"cache_type": "fp8"}),
        ("--enforce-eager", {"graphs": False, "whole_graphs": False}),
        ("--max-cudagraph-capture-size 64", {"graph_batch": 64}),
        ("--load-format fastsafetensors", {"loader": "fastsafetensors"}),
        ("--model-loader-extra-config {\"memory_limit\":7}", {"loader_limit": 7}),
        ("--model-loader-extra-config {\"memory_limit\":-7}", {}),
        ("--model-loader-extra-config {\"memory_limit\":true}", {}),
        ("--safetensors-load-strategy eager", {"mapped": False}),
        ("--no-enable-prefix-caching", {"prefix_caching": False}),
        ("--no-async-scheduling", {"scheduled_ahead": False}),
        ("--block-size 32", {"block": 32}),
        ("--moe-backend marlin", {"experts": "marlin"}),
        ("--language-model-only", {"text_only": True}),
        ("--limit-mm-per-prompt {\"image\":0}", {"pictures": False}),
        ("--limit-mm-per-prompt {\"image\":0,\"video\":0}", {"pictures": False}),
        ("--limit-mm-per-prompt {\"image\":0,\"video\":1}", {}),
        ("--limit-mm-per-prompt {\"image\":1}", {}),
        ("--spec-method mtp --spec-tokens 2", {"drafts": Drafts(tokens=2, own=True)}),
        ("--speculative-config {\"num_speculative_tokens\":3}", {"drafts": Drafts(tokens=3, own=True)}),
        (
            "--speculative-config {\"num_speculative_tokens\":3,\"model\":\"a/b\",\"method\":\"eagle3\"}",
            {"drafts": Drafts(tokens=3, own=False, model="a/b", reads=3)},
        ),
        ("--speculative-config {\"num_speculative_tokens\":0}", {}),
        ("-sc.num-speculative-tokens 4", {"drafts": Drafts(tokens=4, own=True)}),
    ],
)  # fmt: skip
def test_options_of_vllm(command: str, wanted: dict[str, Any]) -> None:
    assert changed("vllm", command) == wanted


@pytest.mark.parametrize(
    ("command", "wanted"),
    [
        ("--mem-fraction-static 0.7", {"fraction": 0.7}),
        ("--tp 2 --pp-size 2", {"ranks": Ranks(tensor=2, stages=2)}),
        ("--dp-size 2", {"replicas": 2}),
        ("--dp 2 --enable-dp-attention", {}),
        ("--max-total-tokens 1000", {"cache_tokens": 1000}),
        ("--context-length 4096", {"length": 4096}),
        ("--max-running-requests 8", {"requests": 8}),
        ("--chunked-prefill-size 2048", {"batched": 2048}),
        ("--chunked-prefill-size -1", {}),
        ("--kv-cache-dtype fp8_e4m3", {"cache_type": "fp8_e4m3"}),
        ("--disable-cuda-graph", {"graphs": False}),
        ("--cuda-graph-max-bs 16", {"graph_batch": 16}),
        ("--cuda-graph-max-bs 16 --cuda-graph-max-bs-decode 8", {"graph_batch": 8}),
        ("--max-mamba-cache-size 9", {"states": 9}),
        ("--speculative-algorithm NEXTN", {"drafts": Drafts(tokens=4, own=True)}),
        ("--speculative-algorithm EAGLE --speculative-num-draft-tokens 6", {"drafts": Drafts(tokens=6, own=True)}),
        (
            "--speculative-algorithm EAGLE3 --speculative-draft-model-path a/b",
            {"drafts": Drafts(tokens=4, own=False, model="a/b", reads=3)},
        ),
        ("--speculative-num-draft-tokens 6", {}),
        ("--load-format runai_streamer", {"loader": "runai_streamer"}),
        ("--model-loader-extra-config {\"num_threads\":8}", {"loader_limit": 8}),
        ("--weight-loader-disable-mmap", {"mapped": False}),
        ("--moe-runner-backend triton", {"experts": "triton"}),
        ("--language-only", {"text_only": True}),
        ("--ple-offload-backend file", {"table_in_file": True}),
        ("--ple-offload-backend file --no-ple-offload-embedding", {}),
        ("--ple-offload-backend cpu", {}),
    ],
)  # fmt: skip
def test_options_of_sglang(command: str, wanted: dict[str, Any]) -> None:
    assert changed("sglang", command) == wanted


@pytest.mark.parametrize(
    ("fields", "own", "size"),
    [
        ('"method":"mtp","model":"auto"', True, None),
        ('"method":"mtp","model":"org/m"', True, None),
        ('"model":"ngram"', False, 0),
        ('"model":"[ngram]"', False, 0),
        ('"method":"[ngram]"', False, 0),
        ('"model":"a/b"', False, None),
    ],
)
def test_which_model_makes_drafts(fields: str, own: bool, size: int | None) -> None:
    drafts = launch("vllm", f'--speculative-config {{"num_speculative_tokens":2,{fields}}}').drafts
    assert drafts
    assert (drafts.own, drafts.size) == (own, size)


def test_memory_in_gib_is_a_share_of_the_machine() -> None:
    found = launch("vllm", "--gpu-memory-utilization-gb 64").fraction
    assert found
    assert 0.4 < found < 0.6
    assert launch("vllm", "--gpu-memory-utilization-gb 32").fraction == pytest.approx(found / 2)


@pytest.mark.parametrize(
    ("text", "size"),
    [("1", 1), ("1k", 1000), ("1K", 1024), ("2.5m", 2_500_000), ("1G", 1 << 30), ("1T", 1 << 40), ("1024T", 1 << 50)],
)
def test_a_whole_number_has_a_unit(text: str, size: int) -> None:
    assert whole({"--x": ("7", text)}, "--x") == size


@pytest.mark.parametrize("text", ["0", "x", "-2", "1.5x", "1025T", "1e3", "9" * 16])
def test_what_is_no_whole_number_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"--x .* is not a whole number"):
        whole({"--x": (text,)}, "--x")


def test_a_share_is_above_0_and_up_to_1() -> None:
    assert share({"--x": ("1",)}, "--x") == 1
    assert share({"--x": ("auto",)}, "--x") is share({}, "--x") is share({"--x": ("{x}",)}, "--x") is None
    for wrong in ("0", "1.01", "-1", "nan", "x"):
        with pytest.raises(UsageError, match="above 0, up to 1"):
            share({"--x": (wrong,)}, "--x")
    assert size_in_gib({"--x": ("4096",)}, "--x") == 4096
    assert size_in_gib({}, "--x") is None
    with pytest.raises(UsageError, match="up to 4096"):
        size_in_gib({"--x": ("4097",)}, "--x")


def test_the_last_value_counts_and_of_names_the_first() -> None:
    assert word({"--x": ("a", "b")}, "--x") == "b"
    assert word({}, "--x") == "auto"
    assert whole({"--b": ("2",), "--a": ("1",)}, "--a", "--b") == 1
    assert whole({"--b": ("2",), "--a": ()}, "--a", "--b") == 2


def test_json_that_is_no_object_is_empty() -> None:
    assert json_object('{"a": 1}') == {"a": 1}
    assert json_object("[1]") == json_object("{") == json_object("[" * 9_000) == json_object('"x"') == {}


@pytest.mark.parametrize("tokens", ["x", "-1", "1000", "²", ""])
def test_a_number_of_drafts_has_three_digits_at_most(tokens: str) -> None:
    assert vllm_drafts({"--spec-tokens": (tokens,), "--spec-method": ("mtp",)}) is None
    assert vllm_drafts({"--spec-tokens": ("999",), "--spec-method": ("mtp",)}) is not None


def test_the_model_is_what_the_command_names() -> None:
    recipe = load_model_recipe("model: a/recipe\ncommand: vllm serve x\n", "x.yaml")
    assert model_name(recipe, {}, ["b/words", "--x"]) == "b/words"
    assert model_name(recipe, {"--model": ("c/option",)}, ["b/words"]) == "c/option"
    assert model_name(recipe, {"--model-path": ("d/path",), "--model": ("c/option",)}, []) == "d/path"
    assert model_name(recipe, {"--model": ("{model}",)}, []) == "a/recipe"
    assert model_name(recipe, {}, ["--x"]) == "a/recipe"
