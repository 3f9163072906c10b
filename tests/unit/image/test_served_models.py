"""The model of ``--for-model``: its config in a plan, the engine's options that it takes, and what is refused."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gb10.errors import UsageError
from gb10.image.context import Context, open_context
from gb10.image.lock.lockfile import load_recipe
from gb10.image.request.kernel_choice import served_model, with_model

CONFIG = {"torch_dtype": "bfloat16", "hidden_size": 64}


@pytest.fixture(name="ctx")
def command_context(tmp_path: Path) -> Context:
    return open_context({"GB10_CACHE_DIR": str(tmp_path / "store"), "HOME": str(tmp_path)}, verbosity=-1)


@pytest.fixture
def model(tmp_path: Path) -> str:
    folder = tmp_path / "A-model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(CONFIG), encoding="utf-8")
    return str(folder)


@pytest.mark.parametrize(
    ("text", "option"),
    [
        ("kv-cache-dtype=fp8", ("kv_cache_dtype", "fp8")),
        ("attention_backend=FLASHINFER", ("attention_backend", "FLASHINFER")),
        ("moe-backend=flashinfer-cutlass", ("moe_backend", "flashinfer-cutlass")),
        ("max-num-seqs=8", ("max_num_seqs", 8)),
        ("max-num-seqs=1", ("max_num_seqs", 1)),
        (f"max-num-seqs={1 << 24}", ("max_num_seqs", 1 << 24)),
        (f"moe-backend={'a' * 40}", ("moe_backend", "a" * 40)),
        ("block-size=128", ("block_size", 128)),
    ],
)
def test_an_option_of_the_engine_is_taken_as_it_is_written_there(
    ctx: Context, model: str, text: str, option: tuple[str, Any]
) -> None:
    served = served_model(ctx, model, [text])
    assert served is not None
    assert (served.name, json.loads(served.config), served.options) == ("A-model", CONFIG, (option,))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("kv-cache-dtype", "is no option that changes kernels"),
        ("kv-cache-dtype=", "is no option that changes kernels"),
        ("port=80", "is no option that changes kernels"),
        ("=fp8", "is no option that changes kernels"),
        ("", "is no option that changes kernels"),
        ("moe-backend=a b", "the value is not a word"),
        (f"moe-backend={'a' * 41}", "the value is not a word"),
        ("max-num-seqs=0", "not a whole number"),
        ("block-size=large", "not a whole number"),
        ("max-num-seqs=-1", "not a whole number"),
        ("max-num-seqs=²", "not a whole number"),
        ("max-num-seqs=16777217", "not a whole number"),
        (f"max-num-seqs={'9' * 5000}", "not a whole number"),
    ],
)
def test_what_is_no_such_option_is_refused(ctx: Context, model: str, text: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        served_model(ctx, model, [text])


def test_an_option_twice_is_refused(ctx: Context, model: str) -> None:
    with pytest.raises(UsageError, match="twice"):
        served_model(ctx, model, ["max-num-seqs=8", "max_num_seqs=9"])


def test_options_without_a_model_are_refused(ctx: Context) -> None:
    assert served_model(ctx, None, []) is None
    with pytest.raises(UsageError, match="needs a model"):
        served_model(ctx, None, ["max-num-seqs=8"])


@pytest.mark.parametrize(("chosen", "kernels"), [({"TRITON_ATTN"}, "core"), ({"FLASHINFER"}, "for-a-model")])
def test_a_model_that_adds_no_module_takes_the_wheel_of_core(
    ctx: Context, model: str, chosen: set[str], kernels: str
) -> None:
    served = served_model(ctx, model, [])
    assert served is not None
    served = replace(served, config=json.dumps(CONFIG | {"head_dim": 64, "num_attention_heads": 1}))
    recipe = load_recipe(ctx.catalog.recipe("vllm"))
    found, toolkit = with_model(ctx, recipe, ctx.catalog.toolkit, served, chosen)
    assert found.wheels["flashinfer-jit-cache"].kernels == kernels
    assert ("flashinfer-for-a-model" in toolkit.kernel_sets) == (kernels != "core")
