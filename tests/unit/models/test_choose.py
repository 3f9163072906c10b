"""A model by its files: what is chosen fits, is clean for lint, names parsers that the release has, and says why."""

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from gb10.core.host import Host
from gb10.errors import UsageError
from gb10.image.plan.catalog import ROOT
from gb10.image.request.chosen_recipe import _container, choose_for
from gb10.models.choose.choosing import (
    ENGINES,
    PURPOSES,
    SMALLER,
    Choice,
    ChoiceRequest,
    ModelFiles,
    Purpose,
    choose,
    engine_for,
    lines,
    quantization_of,
)
from gb10.models.choose.served_models import format_of, load_formats, served_by
from gb10.models.choose.writing import recipe_name, recipe_text
from gb10.models.issue import errors_of
from gb10.models.lint.engine_words import FLAGS
from gb10.models.lint.fit import fit_of
from gb10.models.lint.linting import lint
from gb10.models.lint.rule import load_rules
from gb10.models.load.loading import load_model_recipe
from gb10.models.memory.engines.budget import Machine
from gb10.models.memory.figures import GIB, load_figures
from gb10.models.memory.model import known_config, known_model, known_names, model_of, with_sizes
from gb10.models.memory.shapes.config_fields import Fields
from gb10.models.render.rendered import RenderRequest
from gb10.models.render.rendering import render_recipe
from tests.unit.models.test_memory import DEFAULTS

CONTAINERS = {"vllm": "gb10/vllm:0.33.0-cu130-sm121f", "sglang": "gb10/sglang:0.5.23-cu130-sm121f"}
HERMES = "{% if tools %}<tool_call>{% endif %}{% if enable_thinking %}<think>{% endif %}"
MACHINE = Machine(figures=load_figures())
NAMES = [name for name in known_names() if known_config(name).get("architectures")]


def files_of(name: str, template: str = HERMES, **changed: object) -> ModelFiles:
    config: Mapping[str, Any] = {**known_config(name), **changed}
    return ModelFiles(
        name=name,
        fields=Fields(config),
        sizes=(None if changed else known_model(name)) or model_of(config, name, "its config"),
        template=template,
        revision="a" * 40,
    )


def chosen(name: str, **more: Any) -> Choice:  # noqa: ANN401 - as choose takes them
    template = more.pop("template", HERMES)
    return choose(files_of(name, template), MACHINE, CONTAINERS, **more)


CASES = [
    (name, engine)
    for name in NAMES
    for engine in ENGINES
    if served_by(engine).has(known_config(name)["architectures"][0])
]


@pytest.mark.parametrize(
    ("name", "engine", "purpose"),
    [(*case, [*PURPOSES][number % len(PURPOSES)]) for number, case in enumerate(CASES)],
)
def test_every_known_model_gets_a_recipe_that_fits_and_is_clean(name: str, engine: str, purpose: Purpose) -> None:
    choice = chosen(name, engine=engine, purpose=purpose)
    recipe = load_model_recipe(recipe_text(choice), "new.yaml")
    assert [issue.text for issue in recipe.issues] == []
    fit = fit_of(recipe, RenderRequest())
    assert fit.estimate is not None
    assert fit.estimate.fits, fit.line
    nodes = tuple(f"n{at}" for at in range(choice.launch.nodes)) if choice.launch.nodes > 1 else ()
    assert not errors_of(render_recipe(recipe, RenderRequest(nodes=nodes)).issues)
    found = lint(recipe, load_rules())
    assert [issue.text for issue in found.issues if issue.level == "error"] == [], purpose


@pytest.mark.parametrize("kind", DEFAULTS)
def test_the_default_model_of_a_family_gets_a_recipe_where_an_engine_serves_it(kind: str) -> None:
    config = {"dtype": "bfloat16", **DEFAULTS[kind]["config"]}
    (architecture,) = config["architectures"]
    served = [engine for engine in ENGINES if architecture in served_by(engine).generates]
    sizes = model_of(config, kind, "its config")
    files = ModelFiles(name=f"o/{kind}", fields=Fields(config), sizes=sizes, template=HERMES, revision="a" * 40)
    for engine in served:
        choice = choose(files, MACHINE, CONTAINERS, engine=engine)
        recipe = load_model_recipe(recipe_text(choice), "new.yaml")
        assert [issue.text for issue in recipe.issues] == []
        assert [issue.text for issue in lint(recipe, load_rules()).issues if issue.level == "error"] == []
    if not served:
        with pytest.raises(UsageError, match=f"has the architecture {architecture}"):
            choose(files, MACHINE, CONTAINERS)


def test_a_purpose_decides_context_and_requests() -> None:
    found = {purpose: chosen("nvidia/Qwen3.5-122B-A10B-NVFP4", purpose=purpose).launch for purpose in PURPOSES}
    assert found["agents"].length == 262144
    assert found["chat"].length == 131072
    assert (found["batch"].length, found["batch"].requests) == (32768, 64)
    assert {one.nodes for one in found.values()} == {1}


def test_the_share_is_no_larger_than_the_requests_need() -> None:
    small, large = chosen("Qwen/Qwen3-0.6B"), chosen("openai/gpt-oss-120b")
    assert small.launch.fraction is not None and large.launch.fraction is not None
    assert small.launch.fraction < 0.5
    assert large.launch.fraction == 0.85
    why = {reason.what: reason.why for reason in small.reasons}
    assert why["gpu_memory_utilization"].startswith("the smallest share whose cache holds all requests")


def test_what_else_runs_on_a_node_lowers_the_share() -> None:
    shares = {}
    for gib in (0, 8, 16):
        machine = Machine(figures=load_figures(), services=gib << 30)
        shares[gib] = choose(files_of("openai/gpt-oss-120b"), machine, CONTAINERS).launch.fraction or 0.0
    assert shares[0] == 0.85
    assert 0.75 < shares[16] < shares[8] < 0.85


def test_nodes_are_the_fewest_and_divide_the_heads() -> None:
    assert chosen("zai-org/GLM-4.7-FP8").launch.nodes == 4
    assert chosen("zai-org/GLM-4.7-FP8", nodes=8).launch.nodes == 8
    with pytest.raises(UsageError, match="on 3 nodes: its"):
        chosen("nvidia/Qwen3.5-122B-A10B-NVFP4", nodes=3)
    with pytest.raises(UsageError, match="does not fit on 2 nodes: its weights take"):
        chosen("zai-org/GLM-4.7-FP8", nodes=2)


def test_eight_bits_where_the_caches_own_type_holds_too_little() -> None:
    found = chosen("nm-testing/Mixtral-8x7B-Instruct-v0.1-FP8-Dynamic", purpose="agents", nodes=1)
    assert found.launch.cache_type == "auto"
    config = dict(known_config("openai/gpt-oss-120b"))
    config |= {"num_key_value_heads": 64, "max_position_embeddings": 131072}
    files = ModelFiles(name="o/m", fields=Fields(config), sizes=model_of(config, "o/m", "config"), template=HERMES)
    wide = choose(files, MACHINE, CONTAINERS, purpose="agents", nodes=1)
    assert wide.launch.cache_type in ("auto", "fp8")
    assert ("--kv-cache-dtype fp8" in recipe_text(wide)) == (wide.launch.cache_type == "fp8")


def test_every_choice_has_its_reason_in_the_file_and_the_plan_is_short() -> None:
    choice = chosen("nvidia/Qwen3.5-122B-A10B-NVFP4")
    text = recipe_text(choice)
    read = yaml.safe_load(text)
    for name in ("tensor_parallel", "gpu_memory_utilization", "max_model_len", "max_num_seqs"):
        line = next(at for at, line in enumerate(text.splitlines()) if line.startswith(f"  {name}:"))
        assert text.splitlines()[line - 1].startswith("  # "), name
        assert name in {reason.what for reason in choice.reasons}
    for subject in ("# engine vllm", "# parsers hermes, reasoning qwen3", "# backends the engine's", "# drafts off"):
        assert subject in text
    assert read["model_revision"] == "a" * 40
    assert read["gb10"]["variants"]["mtp"]
    assert max(map(len, text.splitlines())) <= 130
    assert len(lines(choice)) <= 10


@pytest.mark.parametrize("row", load_formats(), ids=lambda row: row.what)
def test_parsers_are_of_the_release(row: Any) -> None:  # noqa: ANN401 - a Format
    options = json.loads((FLAGS / "vllm-0.33.0.json").read_text(encoding="utf-8"))["options"]
    assert row.tools in options["--tool-call-parser"]
    assert row.reasoning is None or row.reasoning in options["--reasoning-parser"]


@pytest.mark.parametrize(
    ("template", "kind", "name", "tools", "reasoning"),
    [
        ("<tool_call>{}</tool_call> <think>", "qwen3", "Qwen/Qwen3-8B", "hermes", "qwen3"),
        ("<tool_call>{}</tool_call>", "qwen2", "Qwen/Qwen2.5-7B", "hermes", None),
        ("<tool_call><function=a><parameter=b> <think>", "qwen3_5", "Qwen/Qwen3.8-27B", "qwen3_coder", "qwen3"),
        ("<tool_call><function=a><parameter=b>", "qwen3_moe", "Qwen/Qwen3-Coder-30B", "qwen3_coder", None),
        ("<function= <think>", "nemotron_h", "nvidia/N", "qwen3_coder", "nemotron_v3"),
        ("<arg_key>", "glm4_moe", "zai-org/GLM-4.5-Air", "glm45", "glm45"),
        ("<arg_key>", "glm4_moe", "zai-org/GLM-4.7", "glm47", "glm47"),
        ("<tool_call> <arg_key> <think>", "bailing_hybrid", "inclusionAI/Ling-3.0-tiny", "ling3", "ling3"),
        ("<|channel|>", "gpt_oss", "openai/gpt-oss-120b", "openai", "openai_gptoss"),
        ("[TOOL_CALLS] [THINK]", "mistral3", "mistralai/M", "mistral", "mistral"),
        ("<|python_tag|>", "llama", "meta-llama/L", "llama3_json", None),
        ("<tool_calls><tool_call>", "hy_v3", "tencent/Hy3", "hy_v3", "hy_v3"),
        ("<tool_call> <think>", "ernie4_5_moe", "baidu/E", "ernie45", "ernie45"),
        ("<|tool_call|>", "granite", "ibm-granite/granite-3.3-8b", "granite", None),
        ("<tool_call>", "granitemoehybrid", "ibm-granite/granite-4.0-h-small", "granite4", None),
        ("<|START_ACTION|> <|START_THINKING|>", "cohere2", "CohereLabs/C", "cohere_command3", "cohere_command3"),
    ],
)
def test_the_template_decides_the_parsers(
    template: str, kind: str, name: str, tools: str, reasoning: str | None
) -> None:
    found = format_of(template, kind, name)
    assert found is not None
    assert (found.tools, found.reasoning_for(template)) == (tools, reasoning)


def test_sglang_reads_the_template_itself_and_a_base_model_gets_no_parser() -> None:
    assert "--reasoning-parser auto --tool-call-parser auto" in recipe_text(chosen("Qwen/Qwen3-0.6B", engine="sglang"))
    base = recipe_text(chosen("Qwen/Qwen3-0.6B", template=""))
    assert "parser" not in base.partition("command: |")[2]
    assert "has a chat template" in base.replace("\n#", "")
    odd = chosen("Qwen/Qwen3-0.6B", template="nothing that is known")
    assert odd.options == ()
    assert "tool calls come as text" in recipe_text(odd).replace("\n#", "")


def test_an_embedding_model_pools() -> None:
    files = files_of("Qwen/Qwen3-0.6B", architectures=["Qwen3ForSequenceClassification"])
    if files.architecture not in served_by("vllm").pools:
        files = files_of("Qwen/Qwen3-0.6B", architectures=[sorted(served_by("vllm").pools)[0]])
    choice = choose(files, MACHINE, CONTAINERS, engine="vllm")
    assert choice.pools
    assert "--runner pooling" in recipe_text(choice)
    assert "parser" not in recipe_text(choice).partition("command: |")[2]


def test_a_model_that_writes_is_served_for_vectors_where_its_files_say_so() -> None:
    files = replace(files_of("Qwen/Qwen3-0.6B"), pools=True)
    for engine, option in (("vllm", "--runner pooling"), ("sglang", "--is-embedding")):
        choice = choose(files, MACHINE, CONTAINERS, engine=engine)
        assert option in recipe_text(choice)
        assert choice.launch.batched == choice.launch.length == 40960
        assert "computed in one step" in recipe_text(choice)


def test_qwens_reranker_ranks_though_its_files_write() -> None:
    files = replace(files_of("Qwen/Qwen3-0.6B"), name="Qwen/Qwen3-Reranker-0.6B")
    choice = choose(files, MACHINE, CONTAINERS)
    recipe = load_model_recipe(recipe_text(choice), "new.yaml")
    assert [issue.text for issue in recipe.issues] == []
    serve = render_recipe(recipe, RenderRequest()).serve or ""
    overrides = json.loads(shlex.split(serve)[shlex.split(serve).index("--hf-overrides") + 1])
    assert overrides["classifier_from_token"] == ["no", "yes"]
    assert "--runner pooling" in serve
    assert "parser" not in serve
    assert not choose(files, MACHINE, CONTAINERS, engine="sglang").pools


def test_an_encoder_keeps_no_cache_and_its_text_ends_before_its_last_positions() -> None:
    files = encoder()
    choice = choose(files, MACHINE, CONTAINERS)
    assert choice.engine == "vllm"
    assert (choice.launch.length, choice.launch.nodes, choice.launch.fraction) == (8192, 1, 0.35)
    cache = next(item for item in choice.found.tightest.items if item.name == "KV cache")
    assert cache.size < 1 << 20, "a share of memory that nothing is reserved of"
    assert "an encoder keeps no cache" in recipe_text(choice).replace("\n  #", "")
    short = choose(replace(files, text_limit=512), MACHINE, CONTAINERS)
    assert short.launch.length == 512


ENCODER: Mapping[str, Any] = {
    "architectures": ["XLMRobertaModel"],
    "model_type": "xlm-roberta",
    "hidden_size": 1024,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "intermediate_size": 4096,
    "max_position_embeddings": 8194,
    "pad_token_id": 1,
    "vocab_size": 250002,
    "torch_dtype": "float32",
}


def encoder(text_limit: int | None = 8192, **changed: object) -> ModelFiles:
    config = {name: value for name, value in {**ENCODER, **changed}.items() if value is not None}
    sizes = with_sizes(config, [("embeddings.word_embeddings.weight", 250002 * 1024 * 4)], "o/encoder", "headers")
    return ModelFiles(name="o/encoder", fields=Fields(config), sizes=sizes, revision="a" * 40, text_limit=text_limit)


def test_an_encoder_fits_with_either_engine() -> None:
    choice = choose(encoder(), MACHINE, CONTAINERS, engine="sglang")
    assert (choice.launch.length, choice.launch.nodes, choice.launch.fraction) == (8192, 1, 0.35)
    assert choice.found.tightest.requests is None
    bert = {"architectures": ["BertModel"], "model_type": "bert", "max_position_embeddings": 512}
    assert choose(encoder(None, **bert), MACHINE, CONTAINERS, engine="sglang").launch.length == 512


@pytest.mark.parametrize(
    ("changed", "limit", "longest"),
    [
        ({"max_position_embeddings": None}, 512, 512),
        ({"max_position_embeddings": None}, None, 0),
        ({"pad_token_id": 9000}, 512, 512),
        ({"pad_token_id": 9000}, None, 0),
        ({}, None, 8192),
    ],
)
def test_a_context_is_never_negative(changed: dict[str, object], limit: int | None, longest: int) -> None:
    assert encoder(limit, **changed).longest == longest


LLAMA: Mapping[str, Any] = {"architectures": ["LlamaForCausalLM"], "model_type": "llama"}
QUANTIZED = "o/m has a quantization that vllm 0.33.0 and sglang 0.5.23 cannot read: "


@pytest.mark.parametrize(
    ("config", "said", "hint"),
    [
        ({**LLAMA, "quantization_config": {"quant_method": "exl3"}}, f"{QUANTIZED}exl3", "files of this model in FP8"),
        ({**LLAMA, "text_config": {"quantization_config": {"quant_method": "HQQ"}}}, f"{QUANTIZED}hqq", "--image REF"),
        ({**LLAMA, "quantization": {"bits": 4, "group_size": 64}}, f"{QUANTIZED}one without a name", "files of this"),
        ({"architectures": ["DFlashDraftModel"]}, "o/m only drafts for another model", '"model": "o/m"'),
        ({"architectures": ["LlamaForCausalLMEagle3"]}, "o/m only drafts for another model", "--speculative-config"),
        ({"architectures": ["Qwen3NextForCausalLMMTP"]}, "o/m only drafts for another model", "run OWNER/MODEL"),
        (
            {"_class_name": "QwenImageTransformer2DModel"},
            "o/m is one part of a pipeline of diffusers",
            "diffusers runs",
        ),
        (
            {"architectures": ["WhisperForConditionalGeneration"], "is_encoder_decoder": True, "model_type": "whisper"},
            r"o/m has an encoder beside its decoder \(whisper\)",
            "by vllm: ./build.py run FILE --memory GIB",
        ),
        ({"architectures": ["ViTForImageClassification"]}, "has the architecture ViT", "--image REF"),
        ({"architectures": ["Gemma4AssistantForCausalLM"]}, "o/m only drafts for another model", "run OWNER/MODEL"),
        ({"architectures": ["LingDSparkModel"]}, "o/m only drafts for another model", "run OWNER/MODEL"),
        (
            {**LLAMA, "quantization_config": {"quant_method": "x\nhint: y" + "z" * 10_000_000}},
            f"{QUANTIZED}x" + r"\\nhint: yz{71}\n",
            "files of this model in FP8",
        ),
        ({"architectures": ["NewForCausalLM"]}, "has the architecture New", "--model-impl transformers"),
    ],
)
def test_what_no_engine_serves_is_refused_with_what_works(config: dict[str, Any], said: str, hint: str) -> None:
    with pytest.raises(UsageError, match=said) as caught:
        engine_for("o/m", Fields(config), None)
    assert hint in (caught.value.hint or "")
    assert ("transformers" in (caught.value.hint or "")) == ("New" in said)


@pytest.mark.parametrize(
    ("section", "method"),
    [
        ({}, ""),
        ({"quantization_config": {"quant_method": "compressed_tensors"}}, "compressed-tensors"),
        ({"quantization_config": {"quant_algo": "NVFP4"}}, "modelopt"),
        (
            {"quantization_config": {"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "FP8"}}},
            "modelopt",
        ),
        ({"quantization_config": {"bits": 4, "group_size": 64}}, None),
    ],
)
def test_the_method_of_a_quantization(section: dict[str, Any], method: str | None) -> None:
    assert quantization_of(Fields({**LLAMA, **section})) == method
    if method is not None:
        assert engine_for("o/m", Fields({**LLAMA, **section}), None)[0].engine == "vllm"


def test_a_quantization_that_one_engine_reads_chooses_it() -> None:
    fields = Fields({**LLAMA, "quantization_config": {"quant_method": "bitsandbytes"}})
    served, why = engine_for("o/m", fields, None)
    assert (served.engine, why.why) == (
        "sglang",
        "its registry has LlamaForCausalLM; only sglang reads its quantization bitsandbytes",
    )
    with pytest.raises(UsageError, match="vllm has no quantization bitsandbytes"):
        engine_for("o/m", fields, "vllm")


def test_weights_that_were_read_need_no_known_quantization() -> None:
    config = {**known_config("Qwen/Qwen3-0.6B"), "quantization_config": {"quant_method": "bitsandbytes"}}
    with pytest.raises(UsageError, match="'bitsandbytes' is not known"):
        model_of(config, "o/m", "its config")
    read = with_sizes(config, [("model.layers.0.mlp.up_proj.weight", 1 << 20)], "o/m", "headers")
    plain = with_sizes(known_config("Qwen/Qwen3-0.6B"), [("model.layers.0.mlp.up_proj.weight", 1 << 20)], "o/m", "h")
    assert (read.total, read.scheme and read.scheme.width) == (1 << 20, 2)
    assert read.layers == plain.layers


@pytest.mark.parametrize("engine", ENGINES)
def test_the_step_of_a_model_that_pools_is_counted_whole(engine: str) -> None:
    files = replace(files_of("Qwen/Qwen3-0.6B", max_position_embeddings=131072), pools=True)
    found = choose(files, MACHINE, CONTAINERS, engine=engine)
    assert found.launch.batched == found.launch.length == 131072
    step = next(item for item in found.found.tightest.items if item.name == "activations")
    writes = choose(replace(files, pools=False), MACHINE, CONTAINERS, engine=engine)
    short = next(item for item in writes.found.tightest.items if item.name == "activations")
    assert step.size - short.size > 15 * (1024 * (131072 - 8192)), "131,072 tokens of 1,024 numbers"


def test_a_whole_step_that_does_not_fit_gives_a_shorter_text_or_an_error() -> None:
    """What else runs on the node leaves room for short steps alone, then for none."""
    files = replace(files_of("Qwen/Qwen3-0.6B", max_position_embeddings=131072), pools=True)
    some, less, little = (replace(MACHINE, services=MACHINE.total - (gib << 30)) for gib in (26, 20, 12))
    choice = choose(files, some, CONTAINERS, engine="sglang", nodes=1)
    assert choice.found.fits
    assert 16384 <= (choice.launch.length or 0) < 131072
    assert choice.launch.batched == choice.launch.length
    with pytest.raises(UsageError, match="does not fit on 1 node:"):  # 65,536 tokens do in the cache, not in a step
        choose(files, less, CONTAINERS, engine="sglang", nodes=1, purpose="agents")
    for engine in ENGINES:
        with pytest.raises(UsageError, match="does not fit on 1 node:"):
            choose(files, little, CONTAINERS, engine=engine, nodes=1)


def experts(layers: int, heads: int, **quantization: object) -> ModelFiles:
    """Qwen3-MoE with larger layers, whose experts 16 nodes divide into 160 rows: FP8 in blocks makes them 256."""
    config: dict[str, Any] = {
        **known_config("nvidia/Qwen3-30B-A3B-FP4"),
        **{"num_hidden_layers": layers, "num_experts": 512, "num_attention_heads": heads, "num_key_value_heads": 8},
        **{"hidden_size": 6144, "moe_intermediate_size": 2560, "quantization_config": quantization},
    }
    return ModelFiles(name="o/m", fields=Fields(config), sizes=model_of(config, "o/m", "its config"), template=HERMES)


@pytest.mark.parametrize(
    ("layers", "nodes", "name", "heads"),
    [
        (36, None, "FP8 in blocks", 64),
        (40, None, "FP8 by channels", 64),
        (66, None, "NVFP4", 64),
        (3, 1, "FP8 in blocks", 64),
        (20, None, "FP8 in blocks", 24),  # 24 heads do not divide by 16
    ],
)
def test_a_format_that_a_hint_names_fits(layers: int, nodes: int | None, name: str, heads: int) -> None:
    """It was said in bits for each weight, by what was left beside all but the cache: 9.2 bits, where FP8 failed."""
    with pytest.raises(UsageError, match="does not fit on ") as caught:
        choose(experts(layers, heads), MACHINE, CONTAINERS, nodes=nodes)
    assert f"choose files in {name}: " in str(caught.value.hint)
    found = choose(experts(layers, heads, ignore=["lm_head"], **SMALLER[name]), MACHINE, CONTAINERS, nodes=nodes)
    assert f"{found.files.sizes.total / GIB:.1f} GiB in all, which fit on {found.launch.nodes} node" in str(
        caught.value.hint
    )


@pytest.mark.parametrize(("nodes", "count"), [(1, "1 node"), (None, "16 nodes")])
def test_a_model_that_no_format_makes_small_enough_gets_what_it_takes(nodes: int | None, count: str) -> None:
    with pytest.raises(UsageError) as caught:
        choose(experts(130, 64, quant_algo="FP8_PB_WO"), MACHINE, CONTAINERS, nodes=nodes)
    found = re.search(rf"choose a smaller model: on {count} this one takes (\d+)", str(caught.value.hint))
    assert found, caught.value.hint
    assert int(found[1]) > 121


def test_more_nodes_are_named_only_when_the_model_runs_on_them() -> None:
    with pytest.raises(UsageError, match="does not fit on 1 node: its weights") as caught:
        choose(experts(8, 24), MACHINE, CONTAINERS, nodes=1)
    named = re.match(r"it fits on (\d+) nodes; or choose ", str(caught.value.hint))
    assert named, caught.value.hint
    assert choose(experts(8, 24), MACHINE, CONTAINERS).launch.nodes == int(named[1])


def test_what_no_engine_has_is_said() -> None:
    with pytest.raises(UsageError, match=r"neither vllm .* nor sglang .* has the architecture NobodyForCausalLM"):
        choose(files_of("Qwen/Qwen3-0.6B", architectures=["NobodyForCausalLM"]), MACHINE, CONTAINERS)
    with pytest.raises(UsageError, match="names no architecture"):
        choose(files_of("Qwen/Qwen3-0.6B", architectures=[]), MACHINE, CONTAINERS)
    only = sorted(served_by("sglang").generates - served_by("vllm").generates)[0]
    assert choose(files_of("Qwen/Qwen3-0.6B", architectures=[only]), MACHINE, CONTAINERS).engine == "sglang"
    with pytest.raises(UsageError, match=f"vllm has no architecture {only}"):
        choose(files_of("Qwen/Qwen3-0.6B", architectures=[only]), MACHINE, CONTAINERS, engine="vllm")


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("Qwen/Qwen3-8B", "qwen3-8b"),
        ("/models/My Model_v1.5/", "my-model-v1.5"),
        ("o/_", "model"),
    ],
)
def test_a_recipe_is_named_after_its_model(model: str, name: str) -> None:
    assert recipe_name(model) == name


def test_a_folder_with_an_odd_name_and_a_lying_config_stay_one_value() -> None:
    files = files_of("Qwen/Qwen3-0.6B", architectures=["Qwen3ForCausalLM"])
    odd = ModelFiles(name='/m/a: "b" #c', fields=files.fields, sizes=files.sizes, template=HERMES)
    assert yaml.safe_load(recipe_text(choose(odd, MACHINE, CONTAINERS)))["model"] == '/m/a: "b" #c'
    with pytest.raises(UsageError, match="has the architecture"):
        choose(files_of("Qwen/Qwen3-0.6B", architectures=["A\ncommand: evil"]), MACHINE, CONTAINERS)


def test_containers_are_those_of_our_recipes() -> None:
    purpose: Purpose = "chat"
    assert {engine: _container(engine) for engine in ENGINES} == CONTAINERS
    assert (ROOT / "recipes/choose").is_dir()
    assert purpose in PURPOSES


@pytest.mark.parametrize(
    ("config", "engine", "message"),
    [
        ({"model_type": "mistral"}, None, r"\(model type 'mistral'\) names no architecture"),
        ({}, None, "names no architecture"),
        ({"model_type": "strange", "architectures": ["StrangeForCausalLM"]}, None, "has the architecture Strange"),
        ({"architectures": ["FalconForCausalLM"]}, "sglang", "sglang has no architecture FalconForCausalLM"),
        ({"model_type": "llama", "architectures": ["LlamaForCausalLM"]}, None, "num_hidden_layers is None"),
    ],
)
def test_a_folder_is_asked_for_its_architecture_before_its_sizes(
    config: dict[str, object], engine: str | None, message: str, tmp_path: Path
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(UsageError, match=message):
        choose_for(cast("Host", None), str(tmp_path), ChoiceRequest(engine=engine))  # a folder needs no host


def test_a_table_that_one_node_can_leave_in_a_file_saves_the_others() -> None:
    name = "RadixArk/Qwen3.8-Flash-Next-NVFP4"
    alone, split, ours = chosen(name), chosen(name, engine="sglang", nodes=2), chosen(name, engine="vllm")
    assert (alone.engine, alone.launch.nodes, alone.launch.table_in_file) == ("sglang", 1, True)
    assert alone.options[:2] == ("--ple-offload-backend", "file")
    assert "it needs 1 node, and vLLM 2" in alone.reasons[0].why
    assert (split.launch.table_in_file, split.options[0]) == (False, "--no-ple-offload-embedding")
    assert (ours.engine, ours.launch.nodes) == ("vllm", 2)


OWN_TYPE = {"model_type": "nobodys", "auto_map": {"AutoConfig": "configuration_nobodys.NobodysConfig"}}


def with_config(**changed: object) -> ModelFiles:
    """A known model whose config says something else, of the same sizes."""
    files = files_of("Qwen/Qwen3-0.6B")
    return replace(files, fields=Fields({**files.fields.config, **changed}))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("files", "parts"),
    [
        (with_config(), ""),
        (with_config(auto_map={"AutoConfig": "configuration_qwen3.Qwen3Config"}), ""),
        (with_config(**OWN_TYPE), "config"),
        (replace(with_config(), own_tokenizer=True), "tokenizer"),
        (replace(with_config(**OWN_TYPE), own_tokenizer=True), "config and tokenizer"),
    ],
)
def test_code_of_the_model_runs_only_where_the_engine_has_no_class(engine: str, files: ModelFiles, parts: str) -> None:
    choice = choose(files, MACHINE, CONTAINERS, engine=engine)
    assert ("--trust-remote-code" in recipe_text(choice)) == bool(parts)
    shown = [line for line in lines(choice) if line.startswith("code")]
    assert [f"no class for its {parts}," in line for line in shown] == [True] * bool(parts)


def test_a_type_that_nothing_reads_is_said() -> None:
    choice = choose(with_config(model_type="nobodys"), MACHINE, CONTAINERS)
    assert "--trust-remote-code" not in recipe_text(choice)
    [line] = [line for line in lines(choice) if line.startswith("config")]
    assert "nobodys: vllm 0.33.0 has no class for this model_type, and the files bring none" in line


def test_the_reason_of_a_context_names_what_limits_it() -> None:
    for purpose, why in (("batch", "as long as this use needs; the model's own limit is 40960"), ("chat", "the model")):
        found = {reason.what: reason.why for reason in chosen("Qwen/Qwen3-0.6B", purpose=purpose).reasons}
        assert found["max_model_len"].startswith(why)
