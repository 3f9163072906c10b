"""Files of other forms become recipes: vLLM's official ones and profiles of Ansible, both made up here."""

import shlex
from pathlib import Path

import pytest

from gb10.cli.models.recipe_import import image_of
from gb10.errors import UsageError
from gb10.models.importing.import_result import ImportChoices, ImportResult, recipe_text
from gb10.models.importing.importing import engine_of_form, import_recipe
from gb10.models.load.loading import load_model_recipe
from gb10.models.load.own_section import own_section
from gb10.models.render.rendered import RenderRequest
from gb10.models.render.rendering import render_recipe

DATA = Path(__file__).parent / "data/import"
OFFICIAL = (DATA / "official.yaml").read_text(encoding="utf-8")
PROFILE = (DATA / "profile.yaml").read_text(encoding="utf-8")


def imported(text: str, variant: str | None = None, nodes: int | None = None, *features: str) -> ImportResult:
    return import_recipe(
        text, "x.yaml", ImportChoices(variant=variant, nodes=nodes, features=features, image="gb10/vllm:1")
    )


def words_of(found: ImportResult) -> list[str]:
    return shlex.split(str(found.values["command"]).replace("\\\n", " "))


def test_the_largest_variant_that_fits_is_taken_with_its_arguments_in_the_projects_order() -> None:
    found = imported(OFFICIAL)
    assert (found.values["model"], found.values["max_nodes"]) == ("org/Made-Up-80B-FP8", 1)
    assert words_of(found)[7:] == [
        *("--tensor-parallel-size", "{tensor_parallel}", "--gpu-memory-utilization", "{gpu_memory_utilization}"),
        *("--trust-remote-code", "--block-size", "128", "--kv-cache-dtype", "fp8"),
        *("--attention-backend", "FLASHINFER", "--enable-auto-tool-choice", "--tool-call-parser", "hermes"),
    ]
    assert found.values["env"] == {"VLLM_LOGGING_LEVEL": "INFO", "B": "2"}


def test_a_variant_has_its_own_hardware_and_a_feature_its_mode() -> None:
    found = imported(OFFICIAL, "nvfp4", None, "spec_decoding")
    words = words_of(found)
    assert words.count("--block-size") == 1
    assert words[words.index("--block-size") + 1] == "64"
    assert words[words.index("--moe-backend") + 1] == "b12x"
    assert words[words.index("--speculative-config") + 1] == '{"method":"mtp","num_speculative_tokens":1}'
    assert found.values["env"] == {"VLLM_LOGGING_LEVEL": "INFO", "A": "1", "B": "2"}
    assert "NCCL_SOCKET_IFNAME" in " ".join(found.said)


def test_several_nodes_take_their_strategy_whose_hardware_replaces_the_recipes() -> None:
    found = imported(OFFICIAL, None, 2)
    words = words_of(found)
    assert (found.values["model"], found.values["min_nodes"]) == ("org/Made-Up-80B", 2)
    assert words[words.index("--max-num-seqs") + 1] == "32"
    assert "--attention-backend" not in words
    assert "--async-scheduling" in words


@pytest.mark.parametrize(("text", "nodes"), [(OFFICIAL, None), (OFFICIAL, 2), (PROFILE, None)])
def test_what_is_imported_is_a_recipe_of_ours_that_renders(text: str, nodes: int | None) -> None:
    found = imported(text, None, nodes)
    recipe = load_model_recipe(recipe_text(found, "theirs.yaml"), "x.yaml")
    assert recipe.issues == ()
    assert recipe.format == "gb10"
    assert "theirs.yaml" in recipe_text(found, "theirs.yaml")
    assert own_section(recipe).sources
    hosts = tuple(f"spark{number}" for number in range(nodes or (4 if text == PROFILE else 1)))
    rendered = render_recipe(recipe, RenderRequest(nodes=hosts))
    assert rendered.script
    assert [issue for issue in rendered.issues if issue.level != "note"] == []


def test_a_profile_of_ansible_is_a_server_of_sglang() -> None:
    found = imported(PROFILE)
    words = words_of(found)
    assert words[:3] == ["python3", "-m", "sglang.launch_server"]
    assert words[words.index("--tp-size") + 1] == "{tensor_parallel}"
    assert words[words.index("--speculative-algorithm") + 1] == "NEXTN"
    assert {"--trust-remote-code", "--moe-runner-backend"} <= set(words)
    assert not {"--disable-cuda-graph", "--mm-attention-backend"} & set(words)
    assert found.values["env"] == {"SGLANG_ENABLE_SPEC_V2": "1", "SGLANG_ENABLE_JIT_DEEPGEMM": "0"}
    assert "nccl_transport" in found.said[0]


@pytest.mark.parametrize(
    ("text", "variant", "nodes", "features", "reason"),
    [
        (OFFICIAL, "int4", None, (), "no variant 'int4'"),
        (OFFICIAL, None, None, ("speed",), "no feature 'speed'"),
        (OFFICIAL.replace("170", "9000").replace("90", "9000").replace("50", "9000"), None, None, (), "fits up to 8"),
        (PROFILE, None, 2, (), "for 4 nodes"),
        (PROFILE, "org/other", None, (), "1 models"),
        ("model: a/b\ncommand: vllm serve a/b\n", None, None, (), "a model recipe already"),
        ("a: 1\n", None, None, (), "none of the forms"),
        ("a: [", None, None, (), "not YAML"),
    ],
)
def test_what_becomes_no_recipe_has_one_reason(
    text: str, variant: str | None, nodes: int | None, features: tuple[str, ...], reason: str
) -> None:
    with pytest.raises(UsageError, match=reason):
        imported(text, variant, nodes, *features)


def test_the_image_is_ours_of_the_locked_release() -> None:
    assert engine_of_form(OFFICIAL, "x") == "vllm"
    assert image_of("vllm").startswith("gb10/vllm:0.")
    assert image_of("sglang").endswith("-cu130-sm121f")
