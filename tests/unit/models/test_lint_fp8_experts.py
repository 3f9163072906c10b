"""SGLang's default tiles for FP8 experts: lint by sizes, by a config at hand, by name; and doctor on how it ends."""

import json
from pathlib import Path

import pytest

from gb10.cli import main
from gb10.models.lint.linting import lint
from gb10.models.lint.rule import load_rules
from gb10.models.load.loading import load_model_recipe
from gb10.serving.doctor.rule_files import load_doctor_rules

CODE = "fp8-moe-shared-memory"
LINE = (
    "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: {}, Hardware limit: 101376. "
    "Reducing block sizes or `num_stages` may help."
)


def recipe(model: str, options: str = "", container: str = "lmsysorg/sglang:v0.5.10") -> str:
    command = f"sglang serve --model-path {{model}} --tp-size 4 --mem-fraction-static 0.6 {options}"
    return json.dumps({"model": model, "container": container, "command": command})


def level(text: str) -> str | None:
    found = lint(load_model_recipe(text, "x.yaml"), load_rules()).issues
    return next((one.level for one in found if one.code == CODE), None)


@pytest.mark.parametrize(
    ("model", "options", "wanted"),
    [
        ("zai-org/GLM-4.7-FP8", "--speculative-algorithm EAGLE", "error"),  # scales per channel, by its config
        ("zai-org/GLM-4.7-FP8", "--moe-runner-backend triton", "error"),
        ("zai-org/GLM-4.7-FP8", "--moe-runner-backend auto", "error"),
        ("zai-org/GLM-4.7-FP8", "--moe-runner-backend cutlass", None),
        ("RedHatAI/gemma-4-26B-A4B-it-FP8-dynamic", "", "error"),
        ("nm-testing/Mixtral-8x7B-Instruct-v0.1-FP8-Dynamic", "", "error"),
        ("nvidia/GLM-4.7-NVFP4", "", None),
        ("Qwen/Qwen3.8-27B-FP8", "", None),  # no experts
        ("org/GLM-4.6-FP8", "", "warning"),  # by name alone
        ("org/DeepSeek-V3-FP8", "", "warning"),
        ("org/Qwen3-30B-A3B", "--quantization fp8", "warning"),
        ("Qwen/Qwen3-30B-A3B-FP8", "", None),  # its vendor's FP8 is in blocks
        ("org/Llama-3.1-70B-FP8", "", None),
        ("org/GLM-4.6-AWQ", "", None),
    ],
)
def test_the_model_decides_and_not_a_word_of_its_name(model: str, options: str, wanted: str | None) -> None:
    assert level(recipe(model, options)) == wanted


@pytest.mark.parametrize(
    ("container", "wanted"),
    [
        ("lmsysorg/sglang:v0.4.9", "error"),
        ("scitrera/dgx-spark-sglang:0.5.4.post2", "error"),
        ("lmsysorg/sglang:v0.5.13", "error"),
        ("lmsysorg/sglang:v0.5.14", None),
        ("gb10/sglang:0.5.10-cu130-sm121f", None),
    ],
)
def test_releases_without_the_fix_and_images_without_our_patch(container: str, wanted: str | None) -> None:
    assert level(recipe("zai-org/GLM-4.7-FP8", container=container)) == wanted


@pytest.mark.parametrize("more", [{"mods": ["mods/moe-configs"]}, {"env": {"SGLANG_MOE_CONFIG_DIR": "/tiles"}}])
def test_tiles_that_a_recipe_brings_are_no_default(more: dict[str, object]) -> None:
    assert level(json.dumps({**json.loads(recipe("zai-org/GLM-4.7-FP8")), **more})) is None


@pytest.mark.parametrize(("block", "wanted"), [(None, "error"), ([128, 128], None)])
def test_a_config_at_hand_decides(
    block: list[int] | None, wanted: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    quantized = {"quant_method": "fp8", **({"weight_block_size": block} if block else {})}
    config = {
        "model_type": "qwen3_moe",
        "hidden_size": 2048,
        "num_hidden_layers": 4,
        "num_attention_heads": 16,
        "vocab_size": 32000,
        "num_experts": 32,
        "moe_intermediate_size": 768,
        "quantization_config": quantized,
    }
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    path = tmp_path / "x.yaml"
    path.write_text(recipe("org/mine"), encoding="utf-8")
    main(["recipe", "lint", str(path), "--weights", str(tmp_path / "config.json"), "--json"])
    (found,) = json.loads(capsys.readouterr().out)["recipes"]
    assert next((one["level"] for one in found["issues"] if one["code"] == CODE), None) == wanted


@pytest.mark.parametrize(
    ("before", "needed", "wanted"),
    [
        ("", 147456, {"shared-memory-too-small"}),
        ("[2026-04-13 10:00:00] server_args=ServerArgs(model_path='m')\n", 147456, {"shared-memory-too-small"}),
        ("INFO [api_server.py:1262] vLLM API server version 0.33.0\n", 147456, {"tile-too-large"}),
        ("", 196608, {"tile-too-large"}),
        ("[2026-04-13 10:00:00] server_args=ServerArgs(model_path='m')\n", 131072, {"tile-too-large"}),
    ],
)
def test_doctor_says_one_thing_of_one_line(
    before: str, needed: int, wanted: set[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "server.log"
    path.write_text(f"{before}{LINE.format(needed)}\n", encoding="utf-8")
    main(["doctor", "--log", str(path), "--json"])
    found = json.loads(capsys.readouterr().out)
    assert {one["code"] for one in found["findings"] if one["level"] == "error"} == wanted


def test_a_rule_is_silent_for_a_rule_that_exists() -> None:
    rules = {rule.code: rule for rule in load_doctor_rules()}
    assert {rule.unless for rule in rules.values() if rule.unless} <= rules.keys()
