"""What engines do beside their sums: padding of kernels, pages of the cache, loaders, tables in files, notes."""

import json
from dataclasses import replace
from functools import partial
from math import ceil
from pathlib import Path
from typing import Any

import pytest

from gb10.cli import main
from gb10.errors import UsageError
from gb10.models.lint.engine_words import own_releases
from gb10.models.lint.fit import served_model
from gb10.models.load.loading import load_model_recipe
from gb10.models.memory.cache import Cache, CacheLayer, PagedLayer
from gb10.models.memory.engines.budget import Machine, activations, loader_bytes, padding
from gb10.models.memory.engines.sglang_compressed import compressed_price
from gb10.models.memory.engines.vllm import graph_count, request_bytes
from gb10.models.memory.estimating import estimate
from gb10.models.memory.figures import GIB, load_figures
from gb10.models.memory.launch import Drafts, Engine, Launch
from gb10.models.memory.model import FOLDER, Model, known_model, model_of, read_known
from gb10.models.memory.shapes.config_fields import Fields
from gb10.models.memory.weights.weight import Ranks
from gb10.models.render.rendered import RenderRequest
from tests.unit.models.test_memory_engines import known

MACHINE = Machine(figures=load_figures())
VLLM = Launch(engine="vllm", release="0.33.0", fraction=0.8, length=131072, requests=16, cache_type="fp8")
CONFIGS = Path(__file__).parents[1] / "data/memory/configs"
OSS = "openai/gpt-oss-120b"
FLASH = "RadixArk/Qwen3.8-Flash-Next-NVFP4"


def small(**changed: object) -> Model:
    config = {
        "model_type": "qwen3_moe",
        "hidden_size": 2048,
        "num_hidden_layers": 4,
        "num_attention_heads": 16,
        "num_key_value_heads": 4,
        "head_dim": 128,
        "vocab_size": 32000,
        "num_experts": 32,
        "moe_intermediate_size": 704,
        **changed,
    }
    return model_of(config, "a/b", "its config")


def launched(command: str, model: str = OSS) -> Launch:
    recipe = load_model_recipe(json.dumps({"model": model, "command": command}), "x.yaml")
    return served_model(recipe, RenderRequest(), own_releases()).launch


@pytest.mark.parametrize(
    ("engine", "experts", "wanted"),
    [
        ("vllm", "auto", 5.1),  # Marlin: 2,880 becomes 3,072 and 2,944
        ("vllm", "marlin", 5.1),
        ("vllm", "flashinfer_cutlass", 2.5),  # 2,944 both
        ("vllm", "triton", 0.0),  # 2,880 is a multiple of 64
        ("vllm", "b12x", 0.0),
        ("sglang", "auto", 5.1),  # flashinfer_mxfp4 on 12.x
        ("sglang", "flashinfer_mxfp4", 5.1),
        ("llama-cpp", "auto", 0.0),
    ],
)
def test_the_padding_of_gpt_oss_is_that_of_its_kernel(engine: Engine, experts: str, wanted: float) -> None:
    found = padding(known(OSS), replace(VLLM, engine=engine, experts=experts), 0)
    assert found.size / GIB == pytest.approx(wanted, abs=0.15)
    assert bool(found.words) is bool(wanted)


@pytest.mark.parametrize(
    ("scheme", "tensor", "wanted"),
    [
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, 1, (704, 704)),
        ({"quant_method": "gptq", "bits": 4, "group_size": 128}, 1, (704, 768)),
        ({"quant_method": "gptq", "bits": 4, "group_size": 32}, 2, (352, 384)),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, 1, (704, 704)),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, 4, (176, 256)),
    ],
)
def test_other_schemes_are_padded_on_each_rank(scheme: dict[str, Any], tensor: int, wanted: tuple[int, int]) -> None:
    found = padding(small(quantization_config=scheme), replace(VLLM, ranks=Ranks(tensor=tensor)), 0)
    was, now = wanted
    assert found.words == ("" if was == now else f"{was:,} as {now:,}")
    assert (found.size > 0) is (was != now)


def test_a_page_holds_as_many_layers_as_the_rarest_kind() -> None:
    """Nemotron-3-Nano-4B: 21 states in six groups of four, 4 layers of attention in one; pages of 1,952 tokens."""
    state = CacheLayer(kind="state", size=96 * 80 * 128 * 4 + (96 * 80 + 2 * 8 * 128) * 3 * 2)
    heads = CacheLayer(kind="full", size=2 * 8 * 128)
    cache = Cache(token=4 * heads.size, state=21 * state.size, layers=(*(state,) * 21, *(heads,) * 4))
    page = 1952 * 2048
    alone = replace(VLLM, prefix_caching=False)
    assert request_bytes(cache, alone, 49152, 2048) == (26 + 6) * 4 * page
    assert request_bytes(cache, VLLM, 49152, 2048) == (26 + 2 * 6) * 4 * page
    kept = replace(state, checkpoint=1)
    with_checkpoints = replace(cache, layers=(*(kept,) * 21, *(heads,) * 4))
    assert request_bytes(with_checkpoints, VLLM, 49152, 2048) == (26 + 3 * 6) * 4 * page
    older = replace(VLLM, release="0.27.1", prefix_caching=True)
    assert request_bytes(with_checkpoints, older, 49152, 2048) == (26 + 2 * 6) * 4 * page
    drafting = replace(alone, drafts=Drafts(tokens=2, own=True))
    assert request_bytes(cache, drafting, 49152, 2048) == (26 + 3 * 6) * 4 * page


@pytest.mark.parametrize(
    ("release", "option", "kept"),
    [
        ("0.27.1", "", 1),
        ("0.27.1", "--enable-prefix-caching", 2),
        ("0.28.0", "", 2),
        ("0.28.0", "--no-enable-prefix-caching", 1),
    ],
)
def test_a_model_with_states_caches_prefixes_by_default_since_0_28(release: str, option: str, kept: int) -> None:
    """vllm-project/vllm#50991; a boot log of a fork of 0.20 prints enable_prefix_caching=False without the option."""
    state = CacheLayer(kind="state", size=1 << 20)
    command = f"vllm serve o/m {option}"
    recipe = load_model_recipe(f"model: o/m\ncontainer: vllm/vllm-openai:v{release}\ncommand: {command}\n", "x.yaml")
    launch = served_model(recipe, RenderRequest(), own_releases()).launch
    assert request_bytes(Cache(state=state.size, layers=(state,)), launch, 4096, 2048) == kept << 20


def test_a_window_keeps_the_tokens_in_flight() -> None:
    """Gemma 4 26B: 25 layers with a window of 1,024, 5 that keep all in half the bytes, so in pages of 32 tokens."""
    window, full = CacheLayer(kind="window", size=8192, window=1024), CacheLayer(kind="full", size=4096)
    cache = Cache(token=5 * 4096, windows=((25 * 8192, 1024),), layers=(*(window,) * 25, *(full,) * 5))
    page = 5 * 16 * 8192
    old, new = replace(VLLM, release="0.20.0"), VLLM
    assert request_bytes(cache, old, 8192, 4096) == (5 * 321 + 256) * page
    assert request_bytes(cache, new, 8192, 4096) == (5 * 513 + 256) * page
    assert request_bytes(cache, replace(new, scheduled_ahead=False), 8192, 4096) == (5 * 321 + 256) * page


def test_kinds_of_nearly_as_many_layers_share_the_larger_group() -> None:
    window, full = CacheLayer(kind="window", size=64, window=128), CacheLayer(kind="full", size=64)
    cache = Cache(layers=(*(window,) * 12, *(full,) * 13))
    assert request_bytes(cache, replace(VLLM, scheduled_ahead=False), 160, 16) == (10 + 10) * 13 * 16 * 64


@pytest.mark.parametrize(("largest", "step", "wanted"), [(512, 1, 51), (256, 1, 35), (512, 16, 32), (160, 1, 23)])
def test_as_many_graphs_as_logs_name(largest: int, step: int, wanted: int) -> None:
    assert graph_count(largest, step) == wanted


@pytest.mark.parametrize(
    ("changed", "largest", "wanted"),
    [
        ({}, None, 0.32 * 60),
        ({}, 5 * GIB, 5),
        ({"loader": "fastsafetensors"}, 5 * GIB, 10),
        ({"loader": "fastsafetensors", "engine": "sglang"}, 5 * GIB, 5),
        ({"loader": "instanttensor"}, 5 * GIB, 4.4),
        ({"loader": "runai_streamer"}, 5 * GIB, 37.25),
        ({"loader": "runai_streamer", "loader_limit": 2 * GIB}, 5 * GIB, 2),
        ({"loader": "dummy"}, 5 * GIB, 0),
        ({"engine": "sglang"}, 5 * GIB, 5),
        ({"engine": "sglang", "mapped": False}, 5 * GIB, 50),
        ({"engine": "sglang", "mapped": False, "loader_limit": 2}, 5 * GIB, 20),
    ],
)
def test_each_loader_holds_what_it_reads(changed: dict[str, Any], largest: int | None, wanted: float) -> None:
    model = Model(name="a/b", whole=60 * GIB, largest_file=largest)
    assert loader_bytes(model, replace(VLLM, **changed), MACHINE, 60 * GIB) / GIB == pytest.approx(wanted, rel=0.01)


@pytest.mark.parametrize(
    ("command", "field", "value"),
    [
        ("vllm serve {model} --language-model-only", "text_only", True),
        ("""vllm serve {model} --limit-mm-per-prompt '{"image": 0}'""", "pictures", False),
        ("""vllm serve {model} --limit-mm-per-prompt '{"image": 4}'""", "pictures", True),
        ("vllm serve {model} --no-enable-prefix-caching", "prefix_caching", False),
        ("vllm serve {model} --moe-backend marlin", "experts", "marlin"),
        ("vllm serve {model} --block-size 64", "block", 64),
        ("""vllm serve {model} --model-loader-extra-config '{"memory_limit": 4096}'""", "loader_limit", 4096),
        ("vllm serve {model} --gdn-decode-kernel b12x", "fork", True),
        ("vllm serve {model} --max-num-seqs 4", "fork", False),
        ("sglang serve --model-path {model} --ple-offload-backend file", "table_in_file", True),
        ("sglang serve --model-path {model} --ple-offload-backend pinned", "table_in_file", False),
        ("sglang serve --model-path {model} --weight-loader-disable-mmap", "mapped", False),
    ],
)
def test_options_that_decide_the_memory_are_read(command: str, field: str, value: object) -> None:
    assert getattr(launched(command), field) == value


def test_the_encoder_is_left_out_where_only_text_is_served() -> None:
    config = json.loads((Path(__file__).parents[1] / "data/memory/configs/Qwen--Qwen3.6-35B-A3B.json").read_text())[
        "config"
    ]
    model = model_of(config, "a/b", "its config")
    sizes = [sum(model.parts(replace(VLLM, text_only=only), 0).values()) for only in (False, True)]
    assert sizes[0] - sizes[1] == pytest.approx(0.83 * GIB, rel=0.05)


def test_a_table_that_stays_in_a_file_is_the_way_to_one_node() -> None:
    launch = replace(VLLM, engine="sglang", fraction=0.75, requests=4)
    whole = estimate(known(FLASH), launch, MACHINE)
    assert not whole.fits
    assert any("--ple-offload-backend file fits" in remedy for remedy in whole.remedies)
    assert estimate(known(FLASH), replace(launch, table_in_file=True), MACHINE).fits
    two = replace(launch, ranks=Ranks(tensor=2), fraction=0.8)
    (weights,) = (item.size for item in estimate(known(FLASH), two, MACHINE).tightest.items if item.name == "weights")
    assert weights / GIB == pytest.approx(73.47, rel=0.001)


def test_a_fork_is_not_refused_for_a_table_that_it_may_leave_in_a_file() -> None:
    launch = replace(VLLM, fraction=0.72, length=32768)
    assert not estimate(known(FLASH), launch, MACHINE).fits
    found = estimate(known(FLASH), replace(launch, fork=True), MACHINE)
    assert found.fits
    assert "was not looked at" in found.notes[-1]
    assert not estimate(known(FLASH), replace(launch, fork=True, fraction=0.3), MACHINE).fits


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nvidia/X-30B-A3B-NVFP4", "NVFP4"),
        ("org/X-FP8", "FP8"),
        ("org/x-awq-4bit", "awq"),
        ("org/X-GPTQ-Int4", "GPTQ"),
        ("org/X-w4a16-g128", "w4a16"),
        ("org/X-30B-A3B", ""),
        ("org/Fp8n-30B", ""),
    ],
)
def test_a_name_with_few_bits_and_a_config_without_is_said(name: str, said: str) -> None:
    config = {"model_type": "qwen3", "hidden_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4}
    model = model_of({**config, "vocab_size": 1000, "intermediate_size": 512}, name, "its config")
    assert bool(model.notes) is bool(said)
    assert model.known == ("assumed" if said else "computed")
    if said:
        assert f"the name says {said}" in model.notes[0]
        assert "hf_quant_config.json" in model.notes[0]
    told = {**config, "quantization_config": {"quant_method": "fp8"}, "vocab_size": 1000, "intermediate_size": 512}
    assert not model_of(told, name, "its config").notes


def test_a_share_that_ran_on_some_sparks_is_rendered_with_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = "vllm serve {model} --gpu-memory-utilization 0.95 --max-model-len 131072"
    path = tmp_path / "large.yaml"
    path.write_text(json.dumps({"model": OSS, "container": "gb10/vllm:0.33.0", "command": command}), encoding="utf-8")
    assert main(["recipe", "render", str(path), "--json"]) == 0
    (issue,) = (one for one in json.loads(capsys.readouterr().out)["issues"] if one["code"] == "memory-nearly-full")
    assert issue["level"] == "warning"
    assert main(["recipe", "memory", str(path)]) == 0
    assert "such launches ran on some Sparks and hung others" in capsys.readouterr().out


def test_an_unknown_family_is_told_what_its_files_can_and_cannot_say(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe, config = tmp_path / "x.yaml", tmp_path / "config.json"
    recipe.write_text("model: a/b\ncommand: vllm serve {model}\n", encoding="utf-8")
    config.write_text('{"model_type": "mystery", "hidden_size": 64}', encoding="utf-8")
    assert main(["recipe", "memory", str(recipe), "--weights", str(config)]) == UsageError.code
    err = capsys.readouterr().err
    assert "the tensors of model type 'mystery' are not known" in err
    assert "the folder with its .safetensors files" in err
    assert "docs/models.md lists the families" in err


def test_run_says_that_a_node_will_be_nearly_full(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "gpt-oss-120b", "--set", "gpu_memory_utilization=0.95", "--dry-run"]) == 0
    assert "warning: the node would use" in capsys.readouterr().err


def test_what_was_left_out_for_a_fork_is_a_note_of_render(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.yaml"
    command = "vllm serve {model} --gpu-memory-utilization 0.72 --max-model-len 32768 --max-num-seqs 8"
    command += " --gdn-decode-kernel b12x"
    path.write_text(json.dumps({"model": FLASH, "container": "a/fork", "command": command}), encoding="utf-8")
    main(["recipe", "render", str(path), "--json"])
    issues = json.loads(capsys.readouterr().out)["issues"]
    assert [one["level"] for one in issues if one["code"] == "memory-note"] == ["note"]
    assert "does-not-fit" not in {one["code"] for one in issues}


def test_a_cache_without_layers_is_counted_as_published() -> None:
    """DeepSeek-V4: whole tokens of a window beside compressed ones; each draft keeps a state more."""
    published = Cache(token=100.0, windows=((10.0, 128),), state=1000.0)
    alone = 1600 * 100 + 128 * 10 + 1000
    assert request_bytes(published, VLLM, 1600, 0) == alone
    assert request_bytes(published, VLLM, 1600, 64) == alone + 64 * 10
    assert request_bytes(published, VLLM, 1600, 10**6) == alone + (1600 - 128) * 10
    drafting = replace(VLLM, drafts=Drafts(tokens=3, own=True))
    assert request_bytes(published, drafting, 1600, 0) == alone + 3 * 1000


def test_pages_of_a_window_reach_one_token_back_from_each_of_a_step() -> None:
    """A window of 130 has 129 tokens before the next one: three pages of 64, and one that begins inside of a page."""
    cache = Cache(pages=(PagedLayer(block=64, window=130, size=1000),))
    assert request_bytes(cache, VLLM, 10**6, 0) == (3 + 1) * 1000
    assert request_bytes(replace(cache, pages=(PagedLayer(block=64, window=129, size=1000),)), VLLM, 10**6, 0) == 3000
    assert request_bytes(cache, VLLM, 64, 0) == (1 + 1) * 1000
    assert request_bytes(Cache(pages=(PagedLayer(block=64, window=0, size=1000),)), VLLM, 65, 0) == 2000
    assert request_bytes(Cache(pages=(PagedLayer(block=64, window=0, size=9, ring=True),)), VLLM, 10**6, 0) == 9


def test_a_model_counts_its_table_and_leaves_drafts_out() -> None:
    model = small(tie_word_embeddings=False)
    assert model.total == sum(one.size for one in model.weights if one.part != "draft")
    assert model.table == sum(one.size for one in model.weights if one.part == "table")
    assert model.known == "computed"


def test_a_launch_has_64_ranks_at_most() -> None:
    assert launched("vllm serve openai/gpt-oss-120b -tp 8 -pp 8").ranks == Ranks(tensor=8, stages=8)
    with pytest.raises(UsageError, match="13 x 5 x 1 ranks are more than 64"):
        launched("vllm serve openai/gpt-oss-120b -tp 13 -pp 5")


def test_a_dflash_draft_model_has_neither_embedding_nor_output_and_a_cache_of_its_own() -> None:
    """22.16 GiB loaded with Qwen3.6-27B NVFP4 (AEON-7/vllm-ultimate-dgx-spark#9): ours are within 4 %."""
    draft = known_model("z-lab/Qwen3.6-27B-DFlash")
    assert draft is not None
    layer = 5120 * (2 * 32 * 128 + 2 * 8 * 128) + 3 * 5120 * 17408
    assert draft.total == 2 * (5 * layer + 5 * 5120 * 5120)
    kinds = [one.mixer for one in draft.layers]
    assert kinds == ["window"] * 4 + ["full"]
    drafts = Drafts(tokens=7, own=False, model="z-lab/Qwen3.6-27B-DFlash", size=draft.total)
    served = known_model("unsloth/Qwen3.8-27B-NVFP4")
    assert served is not None
    alone, both = (served.cache_on(replace(VLLM, drafts=one, cache_type="fp8"), 0) for one in (None, drafts))
    assert both.token - alone.token == 2 * 8 * 128
    assert both.windowed - alone.windowed == 4 * 2 * 8 * 128


def activations_of(model: Model, **launch: Any) -> int:  # noqa: ANN401 - fields of a launch
    return activations(model, replace(VLLM, **launch), Machine(figures=load_figures()), 65536, 0).size


def test_a_step_of_a_gated_delta_network_is_what_its_prefill_has_at_once() -> None:
    """Qwen3.8-27B, 48 value heads and 16 key heads of 128: by the tensors of FLA's prefill, 1.4 times."""
    model = known_model("unsloth/Qwen3.8-27B-NVFP4")
    assert model is not None
    chunk = 48 * (64 * 6 + 2 * 3 * 128 + 2 * 128 * 128 / 64)
    around = 3 * 2 * 10240 + 2 * 2 * 6144 + 2 * 2 * 2048
    assert activations_of(model) == ceil(65536 * (chunk + around + 3 * 2 * 5120) * 1.4)
    assert activations_of(model, ranks=Ranks(tensor=2)) < activations_of(model)


def test_a_step_of_experts_counts_what_they_give_for_each_choice() -> None:
    """gpt-oss-120b: 4 experts of 2,880 for each token, and a step of 42 bytes a number."""
    model = known_model("openai/gpt-oss-120b")
    assert model is not None and model.fields is not None
    step = 42 * 2880 + 4 * 2 * (3 * 2880 + 2880)
    assert activations_of(model) == 65536 * step
    fields = dict(model.fields.config)
    del fields["num_experts_per_tok"], fields["experts_per_token"]
    assert activations_of(replace(model, fields=Fields(fields))) == 65536 * step
    named = {**fields, "moe_k": 6}
    assert activations_of(replace(model, fields=Fields(named))) == 65536 * (42 * 2880 + 6 * 2 * (3 * 2880 + 2880))
    no_gate = {**named, "model_type": "nemotron_h"}
    assert activations_of(replace(model, fields=Fields(no_gate))) == 65536 * (42 * 2880 + 6 * 2 * (2 * 2880 + 2880))
    dense = tuple(replace(layer, feed="dense") for layer in model.layers)
    assert activations_of(replace(model, layers=dense)) == 65536 * 42 * 2880


def test_logits_of_drafts_beyond_the_trial_are_beside_the_share() -> None:
    """64 requests with 15 drafts: the trial has 128 rows of 151,936 words, less than its tokens take; a step 1,024."""
    model = known_model("Qwen/Qwen3-0.6B")
    assert model is not None
    launch = replace(VLLM, requests=64, batched=32768, length=8192, fraction=0.5)
    drafting = replace(launch, drafts=Drafts(tokens=15, own=False, size=0))
    alone, both = (estimate(model, one, Machine(figures=load_figures())).budgets[0] for one in (launch, drafting))
    sizes = {item.name: item.size for item in both.items}
    assert "logits of drafts" not in {item.name for item in alone.items}
    assert sizes["activations"] == next(item.size for item in alone.items if item.name == "activations")
    assert sizes["activations"] + sizes["logits of drafts"] == 1024 * 151_936 * 24


def test_a_token_of_deepseek_v4_costs_what_logs_of_sglang_say() -> None:
    """10 August 2026: 7,705.45 bytes, 0.07 GiB of states, 1.57 GiB for 209,280 tokens. Later releases count pages with
    their padding, and the windows by requests."""
    model = read_known(CONFIGS / "sgl-project--DeepSeek-V4-Flash-FP8.json")
    assert model.fields is not None
    priced = partial(compressed_price, model.fields, model.layers)
    launch = Launch(engine="sglang", release="0.5.18", requests=4)
    price, fixed = priced(launch, 0)
    assert price == pytest.approx(7705.45, abs=0.01)
    assert fixed / GIB == pytest.approx(0.07, abs=0.005)
    assert (1.57 * GIB - fixed) / price == pytest.approx(209_280, rel=0.005)
    few, many = (priced(replace(launch, release="0.5.23", requests=count), 0) for count in (4, 256))
    assert few[0] == many[0] < price
    assert many[1] - few[1] > 252 * 2176 * 43 * 585  # tokens of the windows of a request, in pages with padding
    drafting = replace(launch, drafts=Drafts(tokens=3, own=True))
    assert priced(drafting, 0)[0] == pytest.approx((price + 0.1 * 8 / 128 * 10240 * 21) * 44 / 43)
    halves = [priced(replace(launch, ranks=Ranks(stages=2)), stage)[0] for stage in (0, 1)]
    assert sum(halves) == pytest.approx(price)


@pytest.mark.parametrize(("method", "layers"), [("eagle3", 3), ("DFlash", 5), ("mtp", 0)])
def test_states_that_drafts_read_are_there_beside_a_step(method: str, layers: int) -> None:
    drafts = json.dumps({"method": method, "model": "a/b", "num_speculative_tokens": 2})
    recipe = json.dumps({"model": "Qwen/Qwen3-0.6B", "command": f"vllm serve {{model}} -sc '{drafts}'"})
    launch = served_model(load_model_recipe(recipe, "x.yaml"), RenderRequest(), own_releases()).launch
    found = estimate(read_known(FOLDER / "Qwen--Qwen3-0.6B.json"), launch, Machine(figures=load_figures())).budgets[0]
    assert sum(one.size for one in found.items if one.name == "states for the drafts") == 4 * layers * 1024 * 2048
