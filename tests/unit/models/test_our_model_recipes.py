"""Each recipe of recipes/models, with each of its variants: it loads and renders for its nodes."""

import json
import re
import shlex
from itertools import pairwise

import pytest
import yaml

from gb10.cli.models.recipe_show import lines, listed, own_lines
from gb10.containers.reference import registry_of
from gb10.image.request.recipe_mods import load_file
from gb10.models.load.model_recipe import ModelRecipe, own_section
from gb10.models.registries.recipe_file import RecipeFile, model_names, models_folder
from gb10.models.render.rendered import Peer, RenderRequest
from gb10.models.render.rendering import options_file, render_recipe
from gb10.models.render.sparkrun import TENSORRT_FILE, TENSORRT_PATH

RECIPES = {name: load_file(RecipeFile(models_folder() / f"{name}.yaml")) for name in model_names()}
CASES = [(name, variant) for name, recipe in RECIPES.items() for variant in (None, *own_section(recipe).variants)]
WANTED = {
    ("nvidia/Qwen3.5-397B-A17B-NVFP4", "sglang"),
    ("nvidia/GLM-4.7-NVFP4", "sglang"),
    ("zai-org/GLM-4.7-FP8", "sglang"),
    ("nvidia/Qwen3.5-122B-A10B-NVFP4", "vllm"),
    ("openai/gpt-oss-120b", "vllm"),
    ("ggml-org/gpt-oss-120b-GGUF", "llama-cpp"),
    *(("nvidia/Qwen3-30B-A3B-FP4", engine) for engine in ("vllm", "sglang", "trtllm")),
    *(("nvidia/Qwen3-Next-80B-A3B-Instruct-NVFP4", engine) for engine in ("vllm", "sglang", "trtllm")),
}
HOSTS = tuple(f"10.0.0.{number}" for number in range(1, 9))


def size(recipe: ModelRecipe, variant: str | None) -> int:
    """How many nodes one way to run a recipe needs."""
    alone = render_recipe(recipe, RenderRequest(variant=variant))
    return int(str(alone.parameters.get("tensor_parallel", 1)))


def serve_words(recipe: ModelRecipe, variant: str | None) -> list[str]:
    found = render_recipe(recipe, RenderRequest(variant=variant, nodes=HOSTS[: size(recipe, variant)]))
    assert found.ranks, found.issues
    return shlex.split(found.ranks[0].command.replace("\\\n", " "))


@pytest.mark.parametrize("peer", [None, "sparkrun"])
@pytest.mark.parametrize(("name", "variant"), CASES)
def test_it_renders_for_its_nodes(name: str, variant: str | None, peer: Peer | None) -> None:
    recipe = RECIPES[name]
    nodes = HOSTS[: size(recipe, variant)]
    found = render_recipe(recipe, RenderRequest(variant=variant, nodes=nodes, peer=peer))
    assert not [issue for issue in found.issues if issue.level != "note"]
    assert tuple(rank.host for rank in found.ranks) == nodes
    assert recipe.values["min_nodes"] <= len(nodes) <= recipe.values["max_nodes"]  # type: ignore[operator]


@pytest.mark.parametrize(("name", "variant"), CASES)
def test_its_command_is_whole(name: str, variant: str | None) -> None:
    words = serve_words(RECIPES[name], variant)
    assert not [word for word in words if re.fullmatch(r"\{\w+\}", word)]
    flags = [word for word in words if word.startswith("--")]
    assert sorted(flags) == sorted(set(flags))
    for flag, value in pairwise(words):
        if flag == "--speculative-config":
            assert isinstance(json.loads(value), dict)


@pytest.mark.parametrize("name", RECIPES)
def test_each_parameter_is_used_and_each_source_is_named(name: str) -> None:
    recipe, own = RECIPES[name], own_section(RECIPES[name])
    set_by = [value for one in own.variants.values() for _, value in one.overrides]
    used = set(re.findall(r"\{(\w+)\}", " ".join([recipe.command or "", *map(str, set_by)])))
    used |= set(TENSORRT_FILE) if own.engine == "trtllm" else set()
    assert set(recipe.defaults) <= used
    assert own.engine
    assert own.releases
    assert own.sources


@pytest.mark.parametrize(("name", "variant"), [case for case in CASES if case[1]])
def test_a_variant_changes_what_runs(name: str, variant: str) -> None:
    plain = render_recipe(RECIPES[name], RenderRequest()).script
    assert render_recipe(RECIPES[name], RenderRequest(variant=variant)).script != plain


def test_the_wanted_models_are_there() -> None:
    assert {(recipe.model, own_section(recipe).engine) for recipe in RECIPES.values()} >= WANTED
    assert {own_section(recipe).status for recipe in RECIPES.values()} == {"published", "not measured"}


def test_figures_of_old_sglang_do_not_stand_for_the_new_one() -> None:
    old, new = (own_section(RECIPES[f"qwen3.5-397b-nvfp4-sglang{end}"]) for end in ("-0.5.10", ""))
    assert (old.status_of(None), old.status_of("mtp"), old.status_of("ep4-mtp")) == (
        "published",
        "published",
        "not measured",
    )
    assert new.measured
    assert {new.status_of(None), new.status_of("mtp")} == {"not measured"}


@pytest.mark.parametrize("name", RECIPES)
def test_nothing_is_not_measured_and_has_a_figure(name: str) -> None:
    """Of a recipe and each of its variants: where others have a figure, the words say whose it is."""
    own = own_section(RECIPES[name])
    said = list(own_lines(own))
    heads: dict[str | None, str] = {None: said[0].removeprefix("throughput").strip()}
    for variant in own.variants:
        at = next(at for at, line in enumerate(said) if line.split()[:2] == ["variant", variant])
        heads[variant] = said[at + 1].strip().partition("; sets ")[0]
    with_figures = {row.variant for row in own.measured if row.tokens_per_s is not None}
    assert [variant for variant, words in heads.items() if words == "not measured" and variant in with_figures] == []


def test_tensorrt_llm_gets_its_options_file() -> None:
    recipe = RECIPES["qwen3-next-80b-nvfp4-trtllm"]
    found = render_recipe(recipe, RenderRequest(overrides=(("cuda_graph_max_batch_size", "8"),)))
    container = found.containers[0]
    write, serve = container.command.split("\n", 1)
    words = shlex.split(write)
    assert yaml.safe_load(words[2]) == {
        "kv_cache_config": {"free_gpu_memory_fraction": 0.7, "dtype": "auto"},
        "cuda_graph_config": {"enable_padding": True, "max_batch_size": 8},
        "moe_config": {"backend": "TRITON"},
        "print_iter_log": False,
    }
    assert words[-2:] == [">", TENSORRT_PATH]
    assert serve.endswith(f"--extra_llm_api_options {TENSORRT_PATH}")
    assert container.environment["TRTLLM_MOE_BACKEND"] == "TRITON"
    assert "@sha256:" in container.image
    assert found.script is not None
    assert write in found.script


def test_no_options_file_without_options() -> None:
    assert options_file({"host": "0.0.0.0", "moe_backend": None}) == {}  # noqa: S104


def test_other_images_are_told_where_models_are_kept() -> None:
    told = [
        render_recipe(RECIPES[name], RenderRequest(nodes=HOSTS[:4])).containers[0].environment.get("HF_HOME")
        for name in ("glm-4.7-nvfp4-sglang-0.5.10", "glm-4.7-nvfp4-sglang")
    ]
    assert told == ["/var/cache/gb10/huggingface", None]


@pytest.mark.parametrize("name", RECIPES)
def test_an_image_of_others_has_its_registry_so_that_run_pulls_it(name: str) -> None:
    image = RECIPES[name].container or ""
    assert not image or image.startswith("gb10/") or registry_of(image)


def test_the_table_has_engine_nodes_and_status() -> None:
    head, *rows = listed(RECIPES)
    assert head.split() == ["name", "engine", "nodes", "throughput", "model"]
    assert len(rows) == len(RECIPES)
    row = next(row for row in rows if row.startswith("gpt-oss-120b "))
    assert row.split() == ["gpt-oss-120b", "vllm", ">=0.19", "1", "to", "2", "published", "openai/gpt-oss-120b"]


def test_show_prints_rows_with_their_sources() -> None:
    text = "\n".join(lines(RECIPES["glm-4.7-fp8-sglang-0.5.10"]))
    assert "16.77 tokens/s with 1 request on 4 nodes, sglang 0.5.4.post2, A: tuned MoE tiles; " in text
    assert "OutOfResources: shared memory, 147,456 bytes with 1 request on 4 nodes" in text
    assert "source: BTankut/dgx-spark-sglang-moe-configs README.md at 5d4f546" in text
    assert "not measured; sets gpu_memory_utilization=0.75" in text
