"""What is chosen for a model by its config and its chat template: the engine's own parser takes the command, lint finds
nothing, and by our own estimate it fits."""

import json
import lzma
import os
import re
import subprocess
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from gb10.core.files import Artifact
from gb10.errors import UsageError
from gb10.image.context import Context
from gb10.models.choose.choosing import ENGINES, PURPOSES, ModelFiles, choose
from gb10.models.choose.served_models import format_of, served_by
from gb10.models.choose.writing import recipe_text
from gb10.models.lint.fit import fit_of
from gb10.models.lint.linting import lint
from gb10.models.lint.rule import load_rules
from gb10.models.lint.served import words_of
from gb10.models.load.loading import load_model_recipe
from gb10.models.memory.engines.budget import Machine
from gb10.models.memory.figures import load_figures
from gb10.models.memory.memory_options import load_options
from gb10.models.memory.model import FOLDER, model_of
from gb10.models.memory.shapes.config_fields import Fields
from gb10.models.render.rendered import RenderRequest
from gb10.models.render.rendering import render_recipe
from gb10.sources.index.client import fetch_all
from tests.e2e.explained import files_of
from tests.e2e.vllm_cpu import PLATFORMS, site
from tests.integration.pinned import pinned
from tests.unit.models.test_memory import DATA, DEFAULTS

pytestmark = pytest.mark.e2e
HERE = Path(__file__).parent
CONTAINERS: dict[str, str] = {engine: f"gb10/{engine}:{served_by(engine).release}-cu130-sm121f" for engine in ENGINES}
PUBLISHED = Artifact(
    "llama_cpp_python-0.3.36.tar.gz",
    "832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e",
    76_589_250,
)
"""An archive of PyPI with the chat templates that the makers of 70 models published, as llama.cpp collects them."""
FOLDER_OF_TEMPLATES = "/models/templates/"
TEMPLATES = {
    "Qwen/Qwen2.5": "Qwen-Qwen2.5-7B-Instruct",
    "Qwen/Qwen3-0": "Qwen-Qwen3-0.6B",
    "Qwen/Qwen3-8": "Qwen-Qwen3-0.6B",
    "Qwen/Qwen3-235B": "Qwen-Qwen3-0.6B",
    "nvidia/Qwen3-30B": "Qwen-Qwen3-0.6B",
    "qwen3_5": "Qwen3.5-4B",
    "qwen4_exp": "Qwen3.5-4B",
    "deepseek-ai/DeepSeek-V4-Flash-0731": "deepseek-ai-DeepSeek-V4-Flash-0731",
    "deepseek_v4": "deepseek-ai-DeepSeek-V4",
    "deepseek_v32": "deepseek-ai-DeepSeek-V3.2",
    "gemma4": "google-gemma-4-31B-it",
    "gemma2": "google-gemma-2-2b-it",
    "glm4_moe": "GLM-4.7-Flash",
    "minimax_m3": "MiniMax-M3",
    "minimax_m2": "MiniMax-M2",
    "gpt_oss": "openai-gpt-oss-120b",
    "moonshotai/Kimi-K2": "moonshotai-Kimi-K2",
    "nvidia/Kimi-K2": "moonshotai-Kimi-K2",
    "moonshotai/Kimi-K3": "Kimi-K3",
    "mistralai/Devstral": "unsloth-mistral-Devstral-Small-2507",
    "nvidia/NVIDIA-Nemotron-3": "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16",
    "nemotron_h": "NVIDIA-Nemotron-Nano-v2",
    "step3p7": "StepFun3.5-Flash",
    "apertus": "Apertus-8B-Instruct",
    "bailing_hybrid": "inclusionai-ling-3.0-flash",
    "cohere2_moe": "Cohere2MoE",
    "cohere2": "CohereForAI-c4ai-command-r7b-12-2024-tool_use",
    "cohere": "CohereForAI-c4ai-command-r-plus-tool_use",
    "granitemoehybrid": "ibm-granite-granite-4.0",
    "granite": "ibm-granite-granite-3.3-2B-Instruct",
    "hy_v3": "tencent-Hy3",
    "laguna": "poolside-Laguna-S-2.1",
    "lfm2_moe": "LFM2.5-8B-A1B",
    "phi3": "microsoft-Phi-3.5-mini-instruct",
    "seed_oss": "ByteDance-Seed-OSS",
    "smollm3": "HuggingFaceTB-SmolLM3-3B",
}
"""By the start of a model's name or of its type, the first that fits: the model's own template, or its family's."""
UNPUBLISHED = {
    *(
        "afmoe",
        "arcee",
        "axk1",
        "deepseek_v2",
        "deepseek_v41",
        "ernie4_5",
        "ernie4_5_moe",
        "exaone4",
        "exaone_moe",
        "gemma",
        "glm4",
    ),
    *("glm4v", "glm4v_moe", "glm5_next", "glm_moe_dsa", "hyperclovax", "llama", "llama4", "mellum", "mimo"),
    *("mimo_v2_flash", "mixtral", "olmo", "olmo2", "olmo3", "olmoe", "qwen2_5_vl", "qwen2_vl", "qwen3_next"),
    *("deepseek_v3", "qwen3_vl", "qwen3_vl_moe", "stablelm", "starcoder2"),
}
"""Types of models whose template is not in that archive: their commands are those of a model without a template."""
PARSERS = {
    "bailing_hybrid": "ling3",
    "deepseek_v32": "deepseek_v32",
    "deepseek_v4": "deepseek_v4",
    "gemma4": "gemma4",
    "gemma4_unified": "gemma4",
    "glm4_moe": "glm47",
    "glm4_moe_lite": "glm47",
    "gpt_oss": "openai",
    "hy_v3": "hy_v3",
    "kimi_k2": "kimi_k2",
    "kimi_linear": "kimi_k3",
    "laguna": "poolside_v1",
    "lfm2_moe": "lfm2",
    "minimax_m2": "minimax_m2",
    "minimax_m3_vl": "minimax_m3",
    "mistral": "mistral",
    "qwen3": "hermes",
    "qwen3_5": "qwen3_coder",
    "seed_oss": "seed_oss",
    "step3p7": "step3p5",
}
"""The parser of tool calls that vLLM's authors made for a type of model, by the names in its registry."""
OPPOSITE = {"enable": "disable", "disable": "enable"}
"""vLLM 0.33 pairs its switches so (utils/argparse_utils.py): lint takes the one for the other."""
MOST_REFUSED = 30
"""Of all models of an engine: those that it has no architecture for, or that no number of nodes holds."""
OF_2026 = re.compile(
    r"DeepSeek-V4|GLM-5|Gemma-4|gemma-4|Hy3|Kimi-K(2\.[5-9]|3)|Laguna|LFM2\.5|Ling-3|MiMo-V2\.5|MiniMax-M(2\.[5-9]|3)"
    r"|Nemotron-3(\.5|-Super|-Ultra|-Nano-4B)|Qwen3\.[5-9]|Step-3\.7"
)
"""Names of models that their makers published in 2026; further files of them count as well."""
WANTED_OF_2026 = {"vllm": 66, "sglang": 65}
"""SGLang has fewer: it refuses the others by name, or no number of nodes holds them with it."""
POOLED = ("Qwen/Qwen3-Embedding", "Qwen/Qwen3-Reranker")
"""Models with the modules of sentence-transformers: no chat template counts for them."""


def inside(program: str, *words: str, given: str = "", engine: Path | None = None) -> Any:  # noqa: ANN401 - JSON
    """What a program prints last, run by Python 3.11 with the packages of vLLM for the CPU, and an engine's files."""
    triton = pinned("triton", HERE / "triton.txt", python="3.11", platform=PLATFORMS)
    path = ":".join(map(str, filter(None, (engine, site(), triton))))
    ran = subprocess.run(
        ["python3.11", str(HERE / "inside" / program), *words],
        input=given,
        env={**os.environ, "PYTHONPATH": path, "VLLM_TARGET_DEVICE": "cpu"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    return json.loads(ran.stdout.splitlines()[-1])


def engine_files(ctx: Context, engine: str, folder: Path) -> Path:
    """A folder in which the engine's package can be imported."""
    (folder / engine).symlink_to(files_of(ctx, engine) / "site" / engine)
    return folder


@pytest.fixture(scope="module")
def configs() -> dict[str, dict[str, object]]:
    """Real configs of models, and the default ones of transformers; by their names.

    Ours are excerpts: where one has no architectures, it gets the class that transformers has for its type. Draft
    models are left out: nobody serves them alone.
    """
    classes = inside("architectures.py")
    found = {f"o/{kind}": {"dtype": "bfloat16", **one["config"]} for kind, one in DEFAULTS.items()}
    for path in sorted((*FOLDER.glob("*.json"), *(DATA / "configs").glob("*.json"))):
        document = json.loads(path.read_text(encoding="utf-8"))
        config = document.get("config")
        if config and "dflash_config" not in config:
            named = config.get("architectures") or [classes[config["model_type"]]]
            found[document["model"]] = {**config, "architectures": named}
    with lzma.open(HERE / "published-configs.jsonl.xz", "rt", encoding="utf-8") as lines:
        found |= {one["model"]: one["config"] for one in map(json.loads, lines)}
    return found


@pytest.fixture(scope="module")
def templates(ctx: Context) -> dict[str, str]:
    """The published templates by their names."""
    path = fetch_all([PUBLISHED], ctx.store, ctx.env)[PUBLISHED.sha256]
    with tarfile.open(path) as archive:
        files = [one for one in archive if FOLDER_OF_TEMPLATES in one.name and one.name.endswith(".jinja")]
        texts = {Path(one.name).stem: archive.extractfile(one) for one in files}
        return {name: stream.read().decode() for name, stream in texts.items() if stream}


def template_of(name: str, kind: str, templates: Mapping[str, str]) -> str:
    """The real template of a model or of its family; empty where none is published in the archive."""
    starts = (TEMPLATES[start] for start in TEMPLATES if name.startswith(start) or kind.startswith(start))
    return "" if kind in UNPUBLISHED or name.startswith(POOLED) else templates[next(starts)]


def commands(
    engine: str, configs: Mapping[str, dict[str, object]], templates: Mapping[str, str], refused: list[str]
) -> Iterator[tuple[str, list[str]]]:
    """Each model's name and the words behind its serve command, for each purpose. Lint is clean, and memory fits."""
    machine, rules = Machine(figures=load_figures()), load_rules()
    for name, config in configs.items():
        sizes, fields = model_of(config, name, "its config"), Fields(config)
        template = template_of(name, fields.kind, templates)
        pools = name.startswith(POOLED)
        files = ModelFiles(name=name, fields=fields, sizes=sizes, template=template, revision="a" * 40, pools=pools)
        for purpose in PURPOSES:
            try:
                choice = choose(files, machine, CONTAINERS, engine=engine, purpose=purpose)
            except UsageError as error:
                refused.append(f"{name}: {error.message}")
                break
            recipe = load_model_recipe(recipe_text(choice), "new.yaml")
            said = lint(recipe, rules, sizes=sizes).issues
            assert [one.text for one in said if one.level != "note"] == [], (name, purpose)
            fit = fit_of(recipe, RenderRequest(), sizes=sizes)
            assert fit.estimate is not None, (name, purpose)
            assert fit.estimate.fits, (name, purpose, fit.line)
            nodes = tuple(f"n{at}" for at in range(choice.launch.nodes))
            rendered = render_recipe(recipe, RenderRequest(nodes=nodes if len(nodes) > 1 else ()))
            words = words_of(rendered.serve or "", engine)
            yield name, words[next(at for at, word in enumerate(words) if word.startswith("-")) :]


@pytest.mark.parametrize("engine", ENGINES)
def test_the_engines_own_parser_takes_each_command(
    ctx: Context, tmp_path: Path, configs: dict[str, dict[str, object]], templates: dict[str, str], engine: str
) -> None:
    refused: list[str] = []
    found = list(commands(engine, configs, templates, refused))
    assert len(refused) <= MOST_REFUSED, refused
    new = {name for name, _ in found if OF_2026.search(name)}
    assert len(new) >= WANTED_OF_2026[engine], sorted(new)
    asked = [words for _, words in found]
    said = inside("parse_commands.py", engine, given=json.dumps(asked), engine=engine_files(ctx, engine, tmp_path))
    assert [(one, " ".join(words)) for one, words in zip(said, asked, strict=True) if one] == []


def test_the_types_of_configs_are_those_that_the_engine_reads_without_code_of_the_model(
    ctx: Context, tmp_path: Path, configs: dict[str, dict[str, object]]
) -> None:
    (tmp_path / "transformers").symlink_to(files_of(ctx, "vllm") / "site/transformers")  # that of the image
    said = inside("read_configs.py", "vllm", given=json.dumps(configs), engine=engine_files(ctx, "vllm", tmp_path))
    unknown = {name for name, text in said.items() if "does not recognize" in text or "contains custom code" in text}
    types = served_by("vllm").types
    assert unknown == {name for name, config in configs.items() if config["model_type"] not in types}
    assert 2 <= len(unknown) < 10


def test_a_real_template_chooses_the_parser_that_was_made_for_its_model(
    configs: dict[str, dict[str, object]], templates: dict[str, str]
) -> None:
    seen = set[str]()
    for name, config in configs.items():
        kind = Fields(config).kind
        template = template_of(name, kind, templates)
        if kind in PARSERS and template:
            found = format_of(template, kind, name)
            assert (name, found and found.tools) == (name, PARSERS[kind])
            seen.add(kind)
    assert seen == PARSERS.keys()


@pytest.mark.parametrize("engine", ENGINES)
def test_each_option_of_the_running_parser_has_a_class(ctx: Context, tmp_path: Path, engine: str) -> None:
    """Not of recipes/flags, which read the source: of the parser that a server makes."""
    options = inside("parse_commands.py", engine, "--options", engine=engine_files(ctx, engine, tmp_path))
    assert len(options) > 300
    classes = load_options()[engine].classes
    of_switches = {one.replace(f"--{verb}-", f"--{other}-", 1) for one in options for verb, other in OPPOSITE.items()}
    plain = [one for one in options if one in classes or not (one.startswith("--no-") or one in of_switches)]
    assert [one for one in plain if one not in classes] == []
