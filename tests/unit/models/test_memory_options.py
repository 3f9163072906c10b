"""Every option of the engines' own parsers is looked at: counted, named as not counted, or without effect on memory."""

import json
from dataclasses import replace
from math import ceil
from pathlib import Path

import pytest

from gb10.models.lint.engine_words import FLAGS, own_releases
from gb10.models.lint.fit import uncounted_options
from gb10.models.lint.served import options_of
from gb10.models.memory.engines.budget import HOST_TIER, OFFLOADED, ROUNDED, Machine, Problem, gib, size_of
from gb10.models.memory.engines.pinned import pinned_size, share_of_weights
from gb10.models.memory.engines.sglang import SECOND_SCALES, sglang_budget
from gb10.models.memory.engines.vllm import vllm_budget
from gb10.models.memory.estimating import container_memory, estimate
from gb10.models.memory.figures import GIB, load_figures
from gb10.models.memory.launch import Drafts, HostTier, Launch
from gb10.models.memory.memory_options import load_options
from gb10.models.memory.model import FOLDER, Model, known_model, read_known
from gb10.models.memory.weights.weight import Ranks
from tests.unit.models.test_launch_options import changed

MACHINE = Machine(figures=load_figures())
CONFIGS = Path(__file__).parents[1] / "data/memory/configs"
OLDER = {"vllm": {"--swap-space"}, "sglang": set[str]()}
"""Options of releases whose wheels were not read, which recipes still have."""
READ = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(FLAGS.glob("*.json"))]


def sizes(name: str) -> Model:
    found = known_model(name)
    assert found is not None
    return found


SMALL, HYBRID, SEES = sizes("Qwen/Qwen3-0.6B"), sizes("Qwen/Qwen3.8-27B-FP8"), sizes("unsloth/Qwen3.8-27B-NVFP4")
VLLM = Launch(engine="vllm", release="0.33.0", fraction=0.3, length=32768)
SGLANG = Launch(engine="sglang", release="0.5.23", fraction=0.5, length=32768)


def problems(model: Model, launch: Launch) -> dict[str, Problem]:
    budget = (vllm_budget if launch.engine == "vllm" else sglang_budget)(model, launch, MACHINE, 0)
    return {one.code: one for one in budget.problems}


@pytest.mark.parametrize("found", READ, ids=lambda one: f"{one['engine']}-{one['release']}")
def test_each_option_of_a_releases_parser_has_a_class(found: dict[str, dict[str, object]]) -> None:
    """A new release with a new option stops here: read what it does, and write it into recipes/memory/options.yaml."""
    assert found["options"].keys() - load_options()[str(found["engine"])].classes.keys() == set()


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_the_list_is_of_the_newest_release_and_names_no_option_that_none_has(engine: str) -> None:
    assert load_options()[engine].release == own_releases()[engine]
    declared = {name for one in READ if one["engine"] == engine for name in one["options"]}
    plain = {name for name in load_options()[engine].classes if "." not in name}
    assert plain - declared == OLDER[engine]


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_each_listed_key_is_one_of_the_options_config_class(engine: str) -> None:
    newest = next(one for one in READ if (one["engine"], one["release"]) == (engine, load_options()[engine].release))
    long = {"-cc": "--compilation-config", "-ac": "--attention-config"}
    for name in load_options()[engine].classes:
        base, dot, key = name.partition(".")
        assert not dot or key in newest["keys"][long.get(base, base)], name


VALUES = {
    "--kv-transfer-config": '{"kv_connector":"SimpleCPUOffloadConnector"}',
    "--speculative-config": '{"num_speculative_tokens":2}',
    "-sc": '{"num_speculative_tokens":2}',
    "--model-loader-extra-config": '{"memory_limit":7}',
    "--limit-mm-per-prompt": '{"image":0}',
    "--kv-cache-dtype": "fp8",
    "--mamba-cache-dtype": "bfloat16",
    "--mamba-ssm-cache-dtype": "bfloat16",
    "--mamba-ssm-dtype": "bfloat16",
    "--load-format": "dummy",
    "--safetensors-load-strategy": "eager",
    "--moe-backend": "marlin",
    "--moe-runner-backend": "marlin",
    "--spec-method": "ngram",
    "--speculative-num-steps": "5",
    "--ple-offload-backend": "file",
    "--quantization": "fp8",
    "-q": "fp8",
    "--speculative-algorithm": "NEXTN",
    "--gpu-memory-utilization": "0.5",
    "--device-memory-utilization": "0.5",
    "--mem-fraction-static": "0.5",
    "--swa-full-tokens-ratio": "0.5",
    "--hicache-host-memory-fraction": "0.5",
    "--hicache-host-memory-mode": "buffer_only",
    "--enable-prefix-caching": "",
    "--async-scheduling": "",
}
"""Values of options that take no number."""
WITH = {
    "--spec-method": "--spec-model a/b --spec-tokens 2 ",
    "--spec-model": "--spec-tokens 2 ",
    "--kv-offloading-backend": "--kv-offloading-size 9 ",
    "--cpu-offload-params": "--cpu-offload-gb 9 ",
    "--hicache": "--enable-hierarchical-cache ",
    "--speculative-": "--speculative-algorithm EAGLE ",
    "-ep": "-dp 2 ",
    "--enable-expert-parallel": "-dp 2 ",
    "": "",
}
"""What an option needs beside it, by its start."""
ALONE = {
    "--model": "names the model",
    "--model-path": "names the model",
    "--engram-config": "weights count a table, wherever it is",
    "--cpu-offload-params": "says which weights, not how many",
    "--ple-offload-embedding": "its opposite is refused beside a file",
    "--ple-offload-dir": "says where the file is",
    "--ep-size": "as many bytes",
    "--ep": "as many bytes",
    "--expert-parallel-size": "as many bytes",
    "--kv-offloading-backend": "native is the default",
}
COUNTED = [(engine, name) for engine, one in load_options().items() for row in one.counted for name in row.options]


@pytest.mark.parametrize(("engine", "name"), [case for case in COUNTED if case[1] not in ALONE])
def test_each_option_that_is_said_to_be_counted_changes_the_launch(engine: str, name: str) -> None:
    written = f"--no-{name[2:]}" if VALUES.get(name) == "" else name
    value = VALUES.get(name, "3")
    starts = (start for start in WITH if name.startswith(start) and name not in WITH[start])
    before = "" if name == "--speculative-config" else WITH[next(starts, "")]
    assert changed(engine, f"{before}{written} {value}") != changed(engine, before), name  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("engine", "command", "reason"),
    [
        ("vllm", "--enable-lora", "LoRA"),
        ("vllm", "--no-enable-lora", ""),
        ("vllm", "--offload-group-size 8", "prefetched"),
        ("vllm", "--offload-group-size 0", ""),
        ("vllm", "--distributed-executor-backend mp", ""),
        ("vllm", "--distributed-executor-backend ray", "object store"),
        ("vllm", "--no-swa-bounded-replay", "DeepSeek-V4.1"),
        ("vllm", "--no-enable-chunked-prefill", "whole prompt"),
        ("vllm", "--enable-chunked-prefill", ""),
        ("vllm", '--compilation-config {"cudagraph_mode":"FULL"}', "cudagraph_mode"),
        ("vllm", '--compilation-config {"mode":3}', ""),
        ("vllm", "--compilation-config.cudagraph_mode FULL", "cudagraph_mode"),
        ("vllm", "-cc.cudagraph_mode=FULL", "cudagraph_mode"),
        ("vllm", '--compilation-config {"cudagraph_mode', ""),
        ("vllm", "--swap-space 4", "before 0.18"),
        ("vllm", "--of-a-fork 4", "no release of vllm"),
        ("vllm", '--kv-transfer-config {"kv_connector":"LMCacheConnectorV1"}', "LMCacheConnectorV1"),
        ("vllm", "--kv-offloading-size 9 --kv-offloading-backend lmcache", "--services"),
        ("sglang", "--enable-dp-attention", "attention is whole"),
        ("sglang", "--enable-hisparse", "sparse cache"),
        ("sglang", "--attention-backend triton --page-size 64", ""),
        ("trtllm", "--anything 4", ""),
    ],
)
def test_what_is_not_counted_is_a_row(engine: str, command: str, reason: str) -> None:
    rows = uncounted_options(engine, own_releases().get(engine, ""), options_of(command.split(" "))[0])
    assert [reason in str(row) for row in rows] == [True] * bool(reason), rows


def test_rows_need_no_known_release() -> None:
    rows = uncounted_options("vllm", "", options_of(["--enable-lora", "--max-num-seqs", "3"])[0])
    assert [str(row) for row in rows] == [
        "not checked: options: --enable-lora: LoRA adapters and their buffers are not computed"
    ]


def test_vllms_tier_in_host_memory_is_divided_over_the_ranks_and_the_nodes_own() -> None:
    launch = replace(VLLM, ranks=Ranks(tensor=2))
    tier = changed("vllm", "-tp 2 --kv-offloading-size 20")["host_tier"]
    assert tier == HostTier(option="--kv-offloading-size", size=10 * GIB)
    with_tier, plain = (vllm_budget(SMALL, replace(launch, host_tier=one), MACHINE, 0) for one in (tier, None))
    assert with_tier.serving - plain.serving == 10 * GIB
    assert with_tier.pool == plain.pool
    source = next(one.source for one in with_tier.items if one.name == HOST_TIER)
    assert "20.0 GiB in all" in source
    assert "a /dev/shm of as much on each node" in source
    limits = [container_memory(one, launch, MACHINE) for one in (with_tier, plain)]
    assert limits[0].counted - limits[1].counted == 10 * GIB  # a cgroup counts host memory, and not CUDA's


@pytest.mark.parametrize(
    ("config", "size"),
    [
        ({"kv_connector": "OffloadingConnector", "kv_connector_extra_config": {"cpu_bytes_to_use": 4 << 30}}, 2 << 30),
        (
            {
                "kv_connector": "OffloadingConnector",
                "kv_connector_extra_config": {
                    "cpu_bytes_to_use": 4 << 30,
                    "spec_name": "TieringOffloadingSpec",
                    "secondary_tiers": [{"type": "fs", "root_dir": "/kv"}],
                },
            },
            2 << 30,
        ),
        ({"kv_connector": "SimpleCPUOffloadConnector"}, 4 << 30),
        (
            {
                "kv_connector": "SimpleCPUOffloadConnector",
                "kv_connector_extra_config": {"cpu_bytes_to_use_per_rank": 3 << 30},
            },
            3 << 30,
        ),
        (
            {
                "kv_connector": "OffloadingConnector",
                "kv_connector_extra_config": {"cpu_bytes_to_use": 4 << 30, "secondary_tiers": [{"type": "obj"}]},
            },
            None,
        ),
        ({"kv_connector": "OffloadingConnector", "kv_connector_extra_config": {"cpu_bytes_to_use": -1}}, None),
        ({"kv_connector": "OffloadingConnector", "kv_connector_extra_config": [1]}, None),
        ({"kv_connector": "MultiConnector"}, None),
    ],
)
def test_a_connector_is_counted_or_named(config: dict[str, object], size: int | None) -> None:
    command = f"-tp 2 --kv-transfer-config {json.dumps(config, separators=(',', ':'))}"
    found = changed("vllm", command).get("host_tier")
    assert (found.size if found else None) == size
    assert len(uncounted_options("vllm", "0.33.0", options_of(command.split())[0])) == (size is None)


def test_offloaded_weights_stay_on_the_node_and_in_vllms_share() -> None:
    plain, moved = (vllm_budget(SMALL, replace(VLLM, offloaded=size), MACHINE, 0) for size in (0, GIB // 2))
    assert size_of(moved.items, OFFLOADED) == GIB // 2
    rounded = ceil(GIB // 2 * (share_of_weights(SMALL, VLLM.ranks) - 1))
    assert size_of(moved.items, ROUNDED) == rounded > 0
    assert (moved.serving, moved.pool, moved.load) == (plain.serving + rounded, plain.pool, plain.load)
    whole = vllm_budget(SMALL, replace(VLLM, offloaded=900 * GIB), MACHINE, 0)
    assert size_of(whole.items, "weights") == 0
    assert whole.serving == plain.serving + size_of(whole.items, ROUNDED)


def test_a_pinned_tensor_takes_a_power_of_two() -> None:
    assert [pinned_size(size) for size in (0, 1, 3, 4, 5, 40 * GIB, 64 * GIB)] == [0, 1, 4, 4, 8, 64 * GIB, 64 * GIB]


@pytest.mark.parametrize(
    ("name", "times"),
    [
        ("deepseek-ai/DeepSeek-V4-Flash-0731", 1.0),
        ("nvidia/Qwen3.6-35B-A3B-NVFP4", 1.0),
        ("nvidia/GLM-5.3-NVFP4", 4 / 3),
    ],
)
def test_numbers_and_scales_of_experts_are_pinned_apart(name: str, times: float) -> None:
    """Two GiB of numbers and their scales are powers of two each, and their sum is none; 1.5 GiB take two."""
    assert share_of_weights(sizes(name), Ranks(tensor=2)) == pytest.approx(times, abs=0.01)


@pytest.mark.parametrize(("release", "twice"), [("0.5.11", True), ("0.5.12", False), ("0.5.23", False), ("", False)])
def test_old_releases_of_sglang_keep_scales_of_experts_twice(release: str, twice: bool) -> None:
    model = read_known(FOLDER / "nvidia--MiniMax-M3-NVFP4.json")
    launch = Launch(engine="sglang", release=release, ranks=Ranks(tensor=4), fraction=0.8, length=8192)
    found = sglang_budget(model, launch, MACHINE, 0)
    experts = model.parts(launch, 0)["experts"]
    assert size_of(found.items, SECOND_SCALES) == (experts // 9 if twice else 0)
    assert 5.5 * GIB < experts // 9 < 6.5 * GIB


def test_sglang_copies_a_layer_of_offloaded_weights_at_a_time() -> None:
    plain, moved = (sglang_budget(SMALL, replace(SGLANG, offloaded=size), MACHINE, 0) for size in (0, GIB // 2))
    layer = size_of(plain.items, "weights") // len(SMALL.layers)
    assert size_of(moved.items, "copy of an offloaded layer") == layer
    assert size_of(moved.items, "weights", OFFLOADED) == size_of(plain.items, "weights")


@pytest.mark.parametrize(
    ("command", "size"),
    [
        ("--enable-hierarchical-cache --hicache-size 10", 10**10),
        ("--enable-hicache --hicache-ratio 0.5", None),
        ("--enable-hierarchical-cache", None),
        ("--enable-hierarchical-cache --hicache-size 0", None),
        ("--hicache-size 10", 0),
    ],
)
def test_sglangs_host_pools(command: str, size: int | None) -> None:
    tier = changed("sglang", command).get("host_tier")
    found = sglang_budget(SMALL, replace(SGLANG, host_tier=tier), MACHINE, 0)
    plain = sglang_budget(SMALL, SGLANG, MACHINE, 0)
    if "ratio" in command:
        size = found.pool // 2
    elif size is None:  # 0.8 of what is free beside 10 GiB, less 5 %; the default of 2 would be more
        size = round((MACHINE.total - sum(one.size for one in plain.items if one.name in HELD) - 10 * GIB) * 0.76)
    assert size_of(found.items, HOST_TIER) == pytest.approx(size, abs=2)
    assert found.pool == plain.pool
    assert found.fits


HELD = ("system and driver", "processes of the server", "weights", "KV cache")


def test_a_hybrid_model_has_two_host_pools_of_a_size() -> None:
    found = sglang_budget(HYBRID, replace(SGLANG, host_tier=HostTier(option="x", size=10**9)), MACHINE, 0)
    assert size_of(found.items, HOST_TIER) == 2 * 10**9


def test_host_pools_that_sglang_refuses_are_an_error_with_what_fits() -> None:
    launch = replace(SGLANG, host_tier=HostTier(option="--hicache-ratio", ratio=3.0))
    found = estimate(SMALL, launch, MACHINE)
    assert not found.fits
    assert "10 GiB that it leaves" in problems(SMALL, launch)["host-tier"].text
    assert "without --hicache-ratio it fits" in found.remedies


def test_decode_context_parallelism_divides_the_tokens_of_full_attention() -> None:
    """Two key heads over eight ranks: four ranks hold the same, and may share its tokens."""
    glm = sizes("nvidia/GLM-4.7-NVFP4")
    assert glm.fields is not None
    assert glm.fields.kv_heads == 8
    launch = replace(VLLM, ranks=Ranks(tensor=16), fraction=0.8)
    one, two = (vllm_budget(glm, replace(launch, sequence_ranks=count), MACHINE, 0) for count in (1, 2))
    assert two.tokens == pytest.approx(2 * one.tokens, rel=1e-3)
    assert "context-parallel" not in problems(glm, replace(launch, sequence_ranks=2))


@pytest.mark.parametrize(
    ("name", "changes", "text"),
    [
        ("nvidia/GLM-4.7-NVFP4", {"ranks": Ranks(tensor=8), "sequence_ranks": 2}, "at most 1 share"),
        ("nvidia/GLM-4.7-NVFP4", {"ranks": Ranks(tensor=16), "sequence_ranks": 3}, "do not divide into 3"),
        ("openai/gpt-oss-120b", {"ranks": Ranks(tensor=16), "sequence_ranks": 2}, "kind window cannot"),
        ("Qwen/Qwen3.8-27B-FP8", {"prefill_ranks": 2}, "kind delta cannot"),
        ("Qwen/Qwen3-0.6B", {"prefill_ranks": 4, "sequence_ranks": 3}, "it is 1, 4 or 4, not 3"),
    ],
)
def test_context_parallelism_that_vllm_refuses(name: str, changes: dict[str, object], text: str) -> None:
    model, launch = sizes(name), replace(VLLM, **changes)  # type: ignore[arg-type]
    assert text in problems(model, launch)["context-parallel"].text
    assert not problems(model, launch)["context-parallel"].warning
    assert problems(model, replace(launch, fork=True))["context-parallel"].warning  # a fork may have it


@pytest.mark.parametrize("shared", [1, 2, 4])
def test_prefill_ranks_may_share_tokens_with_none_each_other_or_all(shared: int) -> None:
    """Two ranks of the model, two of prefill: the same tokens on one, two or all four."""
    launch = replace(VLLM, ranks=Ranks(tensor=2), prefill_ranks=2, sequence_ranks=shared)
    found = problems(sizes("Qwen/Qwen3-0.6B"), launch).get("context-parallel")
    assert found is None or "prefill ranks" not in found.text


def test_sglangs_ranks_that_share_tokens_hold_the_same_heads() -> None:
    """One of eight ranks of eight heads holds one; in pairs two, of half the tokens: the same pool, as many tokens."""
    glm = sizes("nvidia/GLM-4.7-NVFP4")
    launch = replace(SGLANG, ranks=Ranks(tensor=8), fraction=0.8)
    one, two = (sglang_budget(glm, replace(launch, sequence_ranks=count), MACHINE, 0) for count in (1, 2))
    assert two.tokens == pytest.approx(one.tokens, rel=1e-3)
    few = [sglang_budget(SMALL, replace(launch, ranks=Ranks(tensor=16), sequence_ranks=n), MACHINE, 0) for n in (1, 2)]
    assert few[1].tokens == pytest.approx(2 * few[0].tokens, rel=1e-3)


def test_sglangs_ranks_that_share_tokens_keep_the_whole_index() -> None:
    """GLM-5.3: 656 bytes of a latent are halved, 132 of its index are not."""
    glm = sizes("nvidia/GLM-5.3-NVFP4")
    launch = replace(SGLANG, ranks=Ranks(tensor=8), fraction=0.8, cache_type="fp8_e4m3")
    one, two = (sglang_budget(glm, replace(launch, sequence_ranks=count), MACHINE, 0) for count in (1, 2))
    assert two.tokens / one.tokens == pytest.approx((656 + 132) / (328 + 132), rel=1e-3)


def test_prefill_ranks_are_nodes_with_the_whole_cache_and_a_part_of_the_experts() -> None:
    found = changed("vllm", "-tp 2 -pcp 2")
    assert found["prefill_ranks"] == 2
    launch = replace(VLLM, **found)
    assert launch.nodes == 4
    moe = sizes("nvidia/Qwen3-30B-A3B-FP4")
    plain = vllm_budget(moe, replace(VLLM, ranks=Ranks(tensor=2)), MACHINE, 0)
    wide = vllm_budget(moe, launch, MACHINE, 0)
    assert size_of(wide.items, "weights") < 0.6 * size_of(plain.items, "weights")
    assert wide.pool / wide.tokens == pytest.approx(plain.pool / plain.tokens, rel=1e-3)


def test_the_cache_of_a_known_draft_model_is_counted() -> None:
    drafts = Drafts(tokens=3, own=False, model="Qwen/Qwen3-0.6B", size=SMALL.total)
    alone, drafting = (vllm_budget(HYBRID, replace(VLLM, drafts=one), MACHINE, 0) for one in (None, drafts))
    target, both = (HYBRID.cache_on(replace(VLLM, drafts=one), 0).token for one in (None, drafts))
    assert both - target == SMALL.cache_on(VLLM, 0).token
    assert drafting.tokens < alone.tokens


def test_asleep_the_weights_are_still_on_the_node() -> None:
    problem = problems(SMALL, replace(VLLM, sleeps=True))["asleep"]
    assert problem.warning
    weights = size_of(vllm_budget(SMALL, VLLM, MACHINE, 0).items, "weights")
    assert gib(weights + MACHINE.figures["system"].size + MACHINE.figures["processes"].size) in problem.text
    assert "asleep" not in problems(SMALL, VLLM)


@pytest.mark.parametrize(("size", "text"), [(None, "8 GiB"), (1.5, "3 GiB"), (0.0, "")])
def test_prepared_pictures_are_told_for_a_model_that_sees(size: float | None, text: str) -> None:
    found = problems(SEES, replace(VLLM, picture_cache=size))
    assert ("pictures" in found) == bool(text)
    assert not text or text in found["pictures"].text
    assert "pictures" not in problems(SEES, replace(VLLM, text_only=True))
    assert "pictures" not in problems(SMALL, VLLM)


def test_types_of_the_cache_by_their_own_names() -> None:
    """vLLM: half a byte and a scale for 16 numbers; a scale in FP32 for each side of a head of a token."""
    word = {"bfloat16": 2.0, "nvfp4": 0.5625, "nvfp4_4over6": 0.5625}
    plain = SMALL.cache_on(VLLM, 0).token
    for name, size in word.items():
        assert SMALL.cache_on(replace(VLLM, cache_type=name), 0).token == plain * size / 2
    heads = 8 * 2 * len(SMALL.layers)
    assert SMALL.cache_on(replace(VLLM, cache_type="int4_per_token_head"), 0).token == plain / 4 + 4 * heads
    assert SMALL.cache_on(replace(VLLM, cache_type="fp8_per_token_head"), 0).token == plain / 2 + 4 * heads
    assert "cache-type" in problems(SMALL, replace(VLLM, cache_type="nvfp4_ds_mla"))


def test_the_type_of_states_is_the_launchs() -> None:
    states = [HYBRID.cache_on(replace(VLLM, state_type=word), 0).state for word in ("auto", "float32", "bfloat16")]
    assert states[0] == states[1]
    assert 0.5 <= states[2] / states[1] < 0.55  # the convolution's inputs stay


@pytest.mark.parametrize(
    ("change", "told"),
    [({}, True), ({"jobs": 4}, False), ({"experts": "triton"}, False), ({"own_image": True}, False)],
)
def test_compilers_of_kernels_for_experts_stand_beside_the_weights(change: dict[str, object], told: bool) -> None:
    """vllm#46307: Gemma 4 26B in BF16, share 0.70, took 112 GiB while it profiled, and the Spark hung."""
    model = read_known(CONFIGS / "google--gemma-4-26B-A4B.json")
    launch = replace(VLLM, fraction=0.7, length=8192, **change)  # type: ignore[arg-type]
    found = problems(model, launch)
    assert ("compile-jobs" in found) is told
    text = found["compile-jobs"].text if told else ""
    assert not told or ("20 jobs" in text and "vllm-project/vllm#46307" in text and "MAX_JOBS=8" in text)


@pytest.mark.parametrize(
    ("services", "change", "words"),
    [
        (0, {}, "20 jobs compile "),
        (40, {}, "MAX_JOBS=4 in `env` takes "),
        (40, {"jobs": 6}, "MAX_JOBS=4 in `env` takes "),
        (80, {"jobs": 1}, "1 job compiles "),
        (80, {}, "20 jobs compile "),
    ],
)
def test_the_first_start_of_experts_has_one_number_and_no_advice_that_does_not_help(
    services: int, change: dict[str, int], words: str
) -> None:
    model = read_known(CONFIGS / "google--gemma-4-26B-A4B.json")
    machine = replace(MACHINE, services=services * GIB)
    budget = vllm_budget(model, replace(VLLM, fraction=0.7, length=8192, **change), machine, 0)  # type: ignore[arg-type]
    text = next(one.text for one in budget.problems if one.code == "compile-jobs")
    assert words in text
    assert f"a first start may have {gib(budget.start)} of" in text
    assert ("MAX_JOBS" in text) is (services < 80), text
    if not services:
        assert 111 * GIB < budget.start < 113 * GIB, "112 GiB were in use: vllm-project/vllm#46307"


def test_fewer_jobs_make_the_first_start_smaller_down_to_torchs_own_compilers() -> None:
    model = read_known(CONFIGS / "google--gemma-4-26B-A4B.json")
    found = [vllm_budget(model, replace(VLLM, jobs=jobs), MACHINE, 0).compilers for jobs in (20, 8, 2, 1)]
    job, least = (MACHINE.figures[name].size for name in ("compile_job", "first_start"))
    assert found == [20 * job, 8 * job, least, least]


def test_a_budget_of_logits_that_is_small_already_is_no_advice() -> None:
    sparse = replace(VLLM, fraction=0.85, length=1 << 20, ranks=Ranks(tensor=2))
    plain, few = (
        problems(sizes("RedHatAI/GLM-5.3-Flash-NVFP4"), replace(sparse, indexer_logits=mib)) for mib in (None, 64)
    )
    assert "VLLM_SPARSE_INDEXER_MAX_LOGITS_MB=64 in `env` it takes" in plain["prefill-grows"].text
    assert "VLLM_SPARSE_INDEXER" not in few["prefill-grows"].text


@pytest.mark.parametrize(
    ("name", "in_use", "weights", "over", "step"),
    [("compile_job", 112, 48, 20, 1.7), ("load_file", 117e9 / GIB, 76, 76, 0)],
)
def test_a_figure_that_leans_on_assumed_ones_is_assumed(
    name: str, in_use: float, weights: int, over: int, step: float
) -> None:
    beside = sum(MACHINE.figures[one].size for one in ("system", "processes")) / GIB
    found = MACHINE.figures[name]
    assert (found.gib or found.number) == pytest.approx((in_use - weights - beside - step) / over, abs=0.05)
    assert found.known == "assumed"
