"""Budgets of the engines: their own arithmetic, what would fit, what a container may take, and the verbs around it."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gb10.cli import main
from gb10.errors import UncheckedError, UsageError
from gb10.image.request.recipe_mods import load_file
from gb10.models.lint.engine_words import own_releases
from gb10.models.lint.fit import fit_of, served_model
from gb10.models.load.loading import load_model_recipe
from gb10.models.load.model_recipe import own_section
from gb10.models.memory.cache import Cache
from gb10.models.memory.engines.budget import GROWN, Machine
from gb10.models.memory.estimating import container_memory, estimate
from gb10.models.memory.figures import GIB, load_figures
from gb10.models.memory.launch import Drafts, Launch
from gb10.models.memory.model import Model, known_model, model_of
from gb10.models.memory.weights.weight import Ranks
from gb10.models.registries.recipe_file import RecipeFile, model_names, models_folder
from gb10.models.render.rendered import RenderRequest

MACHINE = Machine(figures=load_figures())
OSS = "openai/gpt-oss-120b"
VLLM = Launch(engine="vllm", release="0.33.0", fraction=0.8, length=131072, requests=16, cache_type="fp8")
SGLANG = replace(VLLM, engine="sglang")


def known(name: str) -> Model:
    model = known_model(name)
    assert model is not None
    return model


def launched(command: str) -> Launch:
    recipe = load_model_recipe(json.dumps({"model": OSS, "command": command}), "x.yaml")
    return served_model(recipe, RenderRequest(), own_releases()).launch


def test_every_recipe_of_ours_with_every_variant_is_known_and_fits() -> None:
    for name in model_names():
        recipe = load_file(RecipeFile(models_folder() / f"{name}.yaml"))
        for variant in (None, *own_section(recipe).variants):
            found = fit_of(recipe, RenderRequest(variant=variant)).estimate
            assert found is not None, (name, variant)
            assert found.fits, (name, variant, found.tightest.problems)


def test_the_cache_of_vllm_is_what_its_share_leaves() -> None:
    budget = estimate(known(OSS), VLLM, MACHINE).tightest
    outside = sum(item.size for item in budget.items if item.name in ("system and driver", "processes of the server"))
    assert budget.serving - outside == pytest.approx(0.8 * MACHINE.total, abs=2)
    more = estimate(known(OSS), replace(VLLM, fraction=0.81), MACHINE).tightest
    assert more.pool - budget.pool == pytest.approx(0.01 * MACHINE.total, abs=2)


def test_bytes_for_the_cache_take_the_place_of_the_share() -> None:
    budget = estimate(known(OSS), replace(VLLM, cache_size=10 * GIB, fraction=0.95), MACHINE).tightest
    assert (budget.pool, budget.fits) == (10 * GIB, True)


def test_a_launch_without_a_length_is_sized_for_the_longest_of_the_model() -> None:
    """131,072 tokens by gpt-oss' config; 32,768 where only its cache is known."""
    model = known(OSS)
    whole, longest, half = (requests(model, length) for length in (None, 131072, 65536))
    assert whole == longest != half
    bare = replace(model, fields=None, cache=model.cache_on(VLLM, 0))
    assert requests(bare, None) == requests(bare, 32768) != requests(bare, 65536)


def requests(model: Model, length: int | None) -> float | None:
    return estimate(model, replace(VLLM, length=length), MACHINE).tightest.requests


def test_graphs_are_beside_the_share_before_vllm_0_19_2() -> None:
    releases = ("0.18.0", "0.19.2rc1", "0.20.0", "0.33.0")
    pools = [estimate(known(OSS), replace(VLLM, release=one), MACHINE).tightest.pool for one in releases]
    assert pools[0] > pools[1] == pools[2] == pools[3]
    eager = estimate(known(OSS), replace(VLLM, graphs=False), MACHINE).tightest
    assert "CUDA graphs" not in [item.name for item in eager.items]


def test_the_cache_of_sglang_is_what_its_static_share_leaves() -> None:
    """free after the load - free before x (1 - share), both of which are in the table."""
    model = known("nvidia/GLM-4.7-NVFP4")
    launch = replace(SGLANG, ranks=Ranks(tensor=4), fraction=0.6, length=202752)
    budget = estimate(model, launch, MACHINE).tightest
    sizes = {item.name: item.size for item in budget.items}
    before = MACHINE.total - sizes["system and driver"] - sizes["processes of the server"]
    assert budget.pool == pytest.approx(before - sizes["weights"] - sizes[GROWN] - before * 0.4, abs=4)
    assert budget.tokens == budget.pool // (92 * 2 * 2 * 128)


def test_more_tokens_than_asked_for_are_not_kept_by_sglang() -> None:
    budget = estimate(known(OSS), replace(SGLANG, cache_tokens=1000), MACHINE).tightest
    assert budget.tokens == 1000


def test_a_request_in_a_window_does_not_grow() -> None:
    cache = Cache(windows=((2.0, 128),), token=1.0, state=7.0)
    assert cache.of_request(16) == 16 + 32 + 7
    assert cache.of_request(1600) == 1600 + 256 + 7
    assert cache.of_request(1600, ahead=100, copies=3) == 1600 + 456 + 21
    assert cache.of_request(1601) == 1616 + 256 + 7


@pytest.mark.parametrize(
    ("changed", "codes"),
    [
        ({"fraction": 0.99}, {"share-too-large"}),
        ({"fraction": 0.4}, {"weights-too-large"}),
        ({"fraction": 0.60, "length": 1 << 20}, {"pool-too-small"}),
        ({"cache_size": 60 * GIB}, {"share-too-large"}),
        ({"engine": "sglang", "fraction": 0.3}, {"weights-too-large"}),
        ({"engine": "sglang", "fraction": 0.99}, {"headroom-too-small"}),
        ({"engine": "llama-cpp", "length": 1 << 23}, {"share-too-large"}),
    ],
)
def test_a_problem_has_its_code_and_a_change_that_fits(changed: dict[str, Any], codes: set[str]) -> None:
    found = estimate(known(OSS), replace(VLLM, **changed), MACHINE)
    assert {problem.code for problem in found.tightest.problems if not problem.warning} == codes
    assert found.remedies


def test_the_named_share_and_length_are_the_largest_that_fit() -> None:
    tight = replace(VLLM, fraction=0.60, length=1 << 20)
    found = estimate(known(OSS), tight, MACHINE)
    values = {words.split()[0]: words.split()[-2] for words in found.remedies}
    length, share = int(values["max_model_len"]), float(values["gpu_memory_utilization"])
    for one, fits in (
        (replace(tight, length=length), True),
        (replace(tight, length=length + 1024), False),
        (replace(tight, fraction=share), True),
        (replace(tight, fraction=share - 0.01), False),
    ):
        assert estimate(known(OSS), one, MACHINE).fits is fits


def test_what_needs_more_nodes_names_them() -> None:
    found = estimate(known("zai-org/GLM-4.7-FP8"), replace(SGLANG, length=32768), MACHINE)
    assert found.remedies == ("needs 4 nodes (tensor_parallel 4)",)
    huge = estimate(known("zai-org/GLM-4.7-FP8"), replace(SGLANG, length=32768), replace(MACHINE, services=110 * GIB))
    assert "does not fit on 16 nodes" in huge.remedies[0]


def test_other_services_take_from_the_machine() -> None:
    assert not estimate(known(OSS), VLLM, replace(MACHINE, services=40 * GIB)).fits


def test_a_container_takes_what_the_server_takes() -> None:
    budget = estimate(known(OSS), VLLM, MACHINE).tightest
    found = container_memory(budget, VLLM, MACHINE)
    reserve, system = MACHINE.figures["reserve"].size, MACHINE.figures["system"].size
    assert found.limit + found.headroom + reserve + system == MACHINE.total
    assert 0 < found.counted < found.limit
    tight = estimate(known(OSS), replace(VLLM, fraction=0.99), MACHINE).tightest
    assert container_memory(tight, VLLM, MACHINE).headroom < 0


def test_drafts_of_the_model_and_of_another_one() -> None:
    model = known("nvidia/Qwen3.5-122B-A10B-NVFP4")
    sizes = [
        {item.name for item in estimate(model, replace(VLLM, drafts=drafts), MACHINE).tightest.items}
        for drafts in (None, Drafts(tokens=2, own=True), Drafts(tokens=2, own=False, model="a/b"))
    ]
    assert [names & {"draft layer", "draft model"} for names in sizes] == [set(), {"draft layer"}, {"draft model"}]


@pytest.mark.parametrize(
    ("command", "field", "value"),
    [
        ("vllm serve {model} --max-model-len 128k", "length", 128_000),
        ("vllm serve {model} --max-model-len 1.5K", "length", 1536),
        ("vllm serve {model} --max-model-len auto", "length", None),
        ("vllm serve {model} --kv-cache-memory-bytes 8G", "cache_size", 8 * GIB),
        ("vllm serve {model} --gpu-memory-utilization-gb 60.845", "fraction", 0.5),
        ("vllm serve {model} --enforce-eager", "graphs", False),
        ("vllm serve {model} --load-format instanttensor", "loader", "instanttensor"),
        ("vllm serve {model} -tp 2 -pp 2", "ranks", Ranks(tensor=2, stages=2)),
        ("vllm serve {model} -tp 2 -dp 2 --enable-expert-parallel", "ranks", Ranks(tensor=2, expert_copies=2)),
        (
            """vllm serve {model} --speculative-config '{"method":"mtp","num_speculative_tokens":3}'""",
            "drafts",
            Drafts(tokens=3, own=True),
        ),
        (
            """vllm serve {model} --speculative-config '{"method":"eagle","model":"a/b","num_speculative_tokens":2}'""",
            "drafts",
            Drafts(tokens=2, own=False, model="a/b"),
        ),
        (  # a method of the model's own layers, with those of another repository
            """vllm serve {model} -sc '{"method":"dspark","model":"a/b","num_speculative_tokens":5}'""",
            "drafts",
            Drafts(tokens=5, own=False, model="a/b", reads=5),
        ),
        (
            """vllm serve {model} -sc '{"method":"mtp","model":"openai/gpt-oss-120b","num_speculative_tokens":1}'""",
            "drafts",
            Drafts(tokens=1, own=True),
        ),
        (
            """vllm serve {model} --speculative-config '{"method":"ngram","num_speculative_tokens":4}'""",
            "drafts",
            Drafts(tokens=4, own=False, size=0),
        ),
        (
            "sglang serve --model-path {model} --speculative-algorithm NGRAM",
            "drafts",
            Drafts(tokens=4, own=False, size=0),
        ),
        ("sglang serve --model-path {model} --mem-fraction-static=0.7", "fraction", 0.7),
        ("sglang serve --model-path {model} --tp-size 4 --pp-size 2", "ranks", Ranks(tensor=4, stages=2)),
        ("sglang serve --model-path {model} --disable-cuda-graph", "graphs", False),
        ("sglang serve --model-path {model} --max-mamba-cache-size 48", "states", 48),
    ],
)
def test_the_numbers_of_a_command(command: str, field: str, value: object) -> None:
    found = getattr(launched(command), field)
    assert found == (pytest.approx(value, rel=1e-4) if isinstance(value, float) else value)


@pytest.mark.parametrize(
    "options",
    ["--max-model-len 0", "--max-num-seqs x", "--gpu-memory-utilization 8", "-tp 9999", "--max-model-len 1e99"],
)
def test_a_number_that_is_none_is_one_sentence(options: str) -> None:
    with pytest.raises(UsageError) as found:
        launched(f"vllm serve {{model}} {options}")
    assert found.value.hint


RECIPE = """
model: openai/gpt-oss-120b
container: gb10/vllm:0.33.0-cu130-sm121f
command: vllm serve {model} --gpu-memory-utilization 0.45 --max-model-len 131072
"""


def test_render_refuses_what_does_not_fit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "large.yaml"
    path.write_text(RECIPE, encoding="utf-8")
    assert main(["recipe", "render", str(path), "--json"]) == UsageError.code
    found = json.loads(capsys.readouterr().out)
    assert found["script"] is None
    (issue,) = (one for one in found["issues"] if one["code"] == "does-not-fit")
    assert (issue["level"], issue["line"]) == ("error", 4)
    assert "gpu_memory_utilization" in issue["fix"]


@pytest.mark.parametrize("option", ["--lenient", "--peer"])
def test_another_launcher_renders_it_with_a_warning(
    option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "large.yaml"
    path.write_text(RECIPE, encoding="utf-8")
    assert main(["recipe", "render", str(path), option, "sparkrun"]) == 0
    out, err = capsys.readouterr()
    assert "vllm serve" in out
    assert "warning: it does not fit" in err


def test_the_document_has_every_figure_with_its_origin(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["recipe", "memory", "qwen3.5-122b-nvfp4", "--variant", "mtp", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    (stage,) = found["stages"]
    assert found["schema"] == "gb10/recipe-memory/v1"
    assert all(
        item["source"] and item["known"] in ("computed", "measured", "published", "assumed") for item in stage["items"]
    )
    assert stage["serving"] == sum(item["bytes"] for item in stage["items"])
    assert stage["container"]["limit"] < stage["total"]


def test_an_unknown_model_names_the_ways_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.yaml"
    path.write_text("model: a/b\ncommand: vllm serve {model}\n", encoding="utf-8")
    assert main(["recipe", "memory", str(path)]) == UncheckedError.code
    err = capsys.readouterr().err
    assert "the sizes of a/b are not known here" in err
    assert "--fetch" in err


def test_states_and_those_of_drafts_share_a_part_of_what_sglang_has_left() -> None:
    """MiaAI-Lab/Qwen3.8-Flash-Next-Dual-DGX-Sparks#8: 143 states in 5.78 GB and 715,136 tokens; with 0.70 of the memory
    28 in 1.43 and 137,408. A request takes five, so 28 are enough for five."""
    model = known("RadixArk/Qwen3.8-Flash-Next-NVFP4")
    launch = Launch(
        engine="sglang",
        release="0.5.23",
        ranks=Ranks(tensor=2),
        requests=16,
        length=262144,
        state_type="bfloat16",
        drafts=Drafts(tokens=4, own=True),
    )
    for share, states, tokens in ((0.8, 5.78, 715_136), (0.7, 1.43, 137_408)):
        budget = estimate(model, replace(launch, fraction=share), MACHINE).tightest
        sizes = {item.name: item.size / GIB for item in budget.items}
        # 0.6 GiB that one node loses while it loads, and these two did not, is a third for the states.
        assert sizes["states of sequences"] == pytest.approx(states, abs=0.3)
        assert budget.tokens * 14144 / GIB == pytest.approx(tokens * 14144 / GIB, abs=0.9)
    bare = replace(launch, drafts=None, prefix_caching=False, fraction=0.8)
    sizes = {item.name: item.size for item in estimate(model, bare, MACHINE).tightest.items}
    each = model.cache_on(bare, 0).state
    assert sizes["states of sequences"] == pytest.approx(17 * each, rel=0.001)  # 16 requests, and one that pads
    few = replace(launch, drafts=None, states=4, state_buffers=False)
    assert not [one for one in estimate(model, few, MACHINE).tightest.problems if "request" in one.text]
    assert [
        one
        for one in estimate(model, replace(few, state_buffers=True), MACHINE).tightest.problems
        if "request" in one.text
    ]


def test_more_requests_than_states_are_refused_with_the_number_that_fits() -> None:
    """A report on an L40S with vLLM 0.26: "max_num_seqs (256) exceeds available Mamba cache blocks (184)"."""
    model = known("Qwen/Qwen3.8-27B-FP8")
    launch = Launch(engine="vllm", release="0.26.0", cache_size=round(8.82 * GIB), length=131072)
    found = estimate(model, launch, MACHINE)
    (text,) = [problem.text for problem in found.tightest.problems if not problem.warning]
    assert "the cache has 184 states, and 256 requests may run" in text
    for fitting in (
        replace(launch, requests=184),
        replace(launch, graphs=False, whole_graphs=False),
        replace(launch, release="0.25.0"),
        replace(launch, drafts=Drafts(tokens=1, own=True), length=65536),
    ):
        assert estimate(model, fitting, MACHINE).fits, fitting
    for word, whole in (
        ("", True),
        ("--enforce-eager", False),
        ("""--compilation-config '{"cudagraph_mode": "PIECEWISE"}'""", False),
        ("-cc.cudagraph_mode=piecewise", False),
        ("""-cc '{"cudagraph_mode": "PIECEWISE"}' """, False),
        ("""-cc '{"cudagraph_mode": null}' """, True),
        ("-O0", False),
        ("-O 1", False),
        ("-O3", True),
        ("--compilation-config.cudagraph_mode FULL_AND_PIECEWISE", True),
    ):
        assert launched(f"vllm serve {{model}} {word}").whole_graphs is whole, word


def test_parallel_layers_have_both_attention_and_a_state() -> None:
    """Falcon-H1: 521.4 million and 7.59 billion parameters by its publisher."""
    config = {
        "model_type": "falcon_h1",
        "dtype": "bfloat16",
        "hidden_size": 3072,
        "intermediate_size": 12288,
        "num_hidden_layers": 44,
        "num_attention_heads": 12,
        "num_key_value_heads": 2,
        "head_dim": 128,
        "mamba_n_heads": 24,
        "mamba_d_head": 128,
        "mamba_d_state": 256,
        "mamba_n_groups": 1,
        "mamba_d_conv": 4,
        "vocab_size": 130049,
        "tie_word_embeddings": False,
    }
    large = model_of(config, "tiiuae/Falcon-H1-7B-Instruct", "its config")
    small = {"hidden_size": 1024, "intermediate_size": 2048, "num_hidden_layers": 36, "num_attention_heads": 8}
    small |= {"head_dim": 64, "mamba_d_head": 64, "mamba_d_state": 128, "vocab_size": 32784}
    assert large.total / 2 == pytest.approx(7.59e9, rel=0.002)
    assert model_of(config | small, "f", "its config").total / 2 == pytest.approx(521.4e6, rel=0.002)
    kept = large.cache_on(VLLM, 0)
    assert kept.token == 44 * 2 * 2 * 128  # FP8
    assert kept.state == pytest.approx(44 * (24 * 128 * 256 * 4 + (3072 + 2 * 256) * 3 * 2))
    assert estimate(large, VLLM, MACHINE).fits


def test_a_layer_that_predicts_tokens_has_an_input_of_two_hidden_states() -> None:
    """MiMo-7B: 7.83 billion parameters by its publisher, with one such layer (vLLM's mimo_mtp.py)."""
    config = {
        "model_type": "mimo",
        "torch_dtype": "bfloat16",
        "hidden_size": 4096,
        "intermediate_size": 11008,
        "num_hidden_layers": 36,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "attention_bias": True,
        "vocab_size": 151680,
        "num_nextn_predict_layers": 1,
        "tie_word_embeddings": False,
    }
    layer = 2 * 4096 * (4096 + 1024) + 3 * 4096 * 11008
    whole = 2 * 151680 * 4096 + 37 * layer + 2 * 4096 * 4096
    sizes = model_of(config, "XiaomiMiMo/MiMo-7B-Base", "its config")
    assert (sizes.total + sizes.drafts) / 2 == pytest.approx(whole, rel=0.001)
    assert sizes.drafts / 2 == pytest.approx(layer + 2 * 4096 * 4096, rel=0.001)
