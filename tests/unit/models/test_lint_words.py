"""What a finding about an engine's words advises, at which level, and where a long list in it ends."""

import pytest
import yaml

from gb10.models.issue import Issue
from gb10.models.lint.engine_words import words_for
from gb10.models.lint.linting import lint
from gb10.models.lint.rule import LONGEST, LONGEST_LIST, Finding, _cut, _filled, load_rules
from gb10.models.lint.word_checks import OTHER_HARDWARE, REFUSED_EMPTY
from gb10.models.load.loading import load_model_recipe


def issues(code: str, **keys: object) -> list[Issue]:
    recipe = {
        "recipe_version": "2",
        "model": "Qwen/Qwen3-0.6B",
        "container": "vllm/vllm-openai:v0.33.0",
        "command": "vllm serve {model}",
        **keys,
    }
    found = lint(load_model_recipe(yaml.safe_dump(recipe), "x.yaml"), load_rules()).issues
    return [one for one in found if one.code == code]


def test_an_optimization_level_may_stand_at_its_letter() -> None:
    assert not issues("unknown-option", command="vllm serve {model} -O3 -O=2")
    assert issues("unknown-option", command="vllm serve {model} --O3")


def test_a_value_that_is_the_end_of_known_ones_is_told_them() -> None:
    (found,) = issues("wrong-choice", command="vllm serve {model} --quantization fp4")
    assert found.fix.startswith("write modelopt_fp4 or mxfp4")


def test_a_command_that_cannot_be_rendered_is_read_with_its_defaults() -> None:
    draft = '{"method":"mtp","num_speculative_tokens":3}'
    keys = {"max_nodes": 1, "defaults": {"tensor_parallel": 4, "draft": draft}}
    nested = """--compilation-config '{"pass_config": {"fuse_act_quant": true}}'"""
    keys["command"] = "vllm serve {model} -tp {tensor_parallel} --speculative-config '{draft}' " + nested
    assert not issues("broken-json", **keys)
    assert not issues("too-few-nodes", **keys)
    assert len([*issues("too-many-nodes", **keys), *issues("parallel-sizes", **keys)]) == 1


@pytest.mark.parametrize("value", ["B12X_MLA_SPARSE", "ROCM_ATTENTION", "XPU_MLA", "CPU_ATTENTION", "FLASH_ATTENTION"])
def test_no_fix_advises_a_value_of_other_hardware(value: str) -> None:
    (found,) = issues("wrong-choice", command=f"vllm serve {{model}} --attention-backend {value}")
    advised = found.fix.partition(" (")[0].lower().replace("_", " ").replace(",", " ").split()
    assert advised[0] in ("write", "it")
    assert not OTHER_HARDWARE & set(advised)


@pytest.mark.parametrize(
    ("command", "container", "wrong"),
    [
        ("vllm serve {model} --attention-backend flashinfer", "vllm/vllm-openai:v0.33.0", False),
        ("vllm serve {model} --kv-cache-dtype fp8", "vllm/vllm-openai:v0.33.0", False),
        ("vllm serve {model} --kv-cache-dtype FP8", "vllm/vllm-openai:v0.33.0", True),
        ("sglang serve --model-path {model} --attention-backend flashinfer", "lmsysorg/sglang:v0.5.23", False),
        ("sglang serve --model-path {model} --attention-backend FLASHINFER", "lmsysorg/sglang:v0.5.23", True),
    ],
)
def test_a_choice_is_compared_as_its_engine_does(command: str, container: str, wrong: bool) -> None:
    assert len(issues("wrong-choice", command=command, container=container)) == wrong


@pytest.mark.parametrize("release", ["0.33.0", "0.13.0", "0.34.0"])
def test_an_empty_variable_is_an_error_only_for_a_release_that_was_read(release: str) -> None:
    known = words_for("vllm", release)
    assert known
    name = next(name for name in known.words.variables if name not in REFUSED_EMPTY)
    (found,) = issues("empty-variable", env={name: ""}, container=f"vllm/vllm-openai:v{release}")
    assert found.level == ("error" if known.exact else "warning")
    assert known.exact is (release == "0.33.0")
    assert known.title in found.text


@pytest.mark.parametrize(
    ("name", "value", "wrong"),
    [
        ("LOCAL_RANK", "1", False),
        ("LOCAL_RANK", "1.5", True),
        ("LOCAL_RANK", " 1 ", False),
        ("VLLM_LOG_STATS_INTERVAL", "1.5", False),
        ("VLLM_LOG_STATS_INTERVAL", "soon", True),
        ("VLLM_LOG_STATS_INTERVAL", "$SOON", False),
        ("VLLM_LOG_STATS_INTERVAL", "{soon}", False),
    ],
)
def test_a_variable_holds_what_its_reader_takes(name: str, value: str, wrong: bool) -> None:
    found = issues("wrong-variable", env={name: value})
    assert [value in one.text for one in found] == [True] * wrong


def test_what_no_release_decides_stays_an_error_beside_another_release() -> None:
    (found,) = issues("empty-variable", env={"FLASHINFER_CUDA_ARCH_LIST": ""}, container="vllm/vllm-openai:v0.13.0")
    assert found.level == "error"


def filled(value: str) -> str:
    return _filled("{value}", Finding(line=1, value=value))


@pytest.mark.parametrize("count", [2, 20, 40, 400])
def test_a_list_ends_between_two_values_and_says_how_many_follow(count: int) -> None:
    names = [f"value-{number}" for number in range(count)]
    text = filled(f"it takes one of {', '.join(names)}")
    listed, _, more = text.removeprefix("it takes one of ").partition(" and ")
    shown = listed.split(", ")
    assert shown == names[: len(shown)]
    assert more == (f"{count - len(shown)} more" if count > len(shown) else "")
    assert len(text) <= LONGEST_LIST + len(" and 400 more")


def test_a_long_text_that_is_no_list_is_marked_as_cut() -> None:
    assert filled("x" * 500) == f"{'x' * LONGEST}…"
    assert filled("x" * LONGEST) == "x" * LONGEST
    assert filled('{"a": 1, ' * 60).endswith("…")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("x" * 120, "x" * 120),
        ("x" * 121, "x" * 120 + "…"),
        (f"{'x' * 118}, yz", f"{'x' * 118}, …"),
        (", ".join(["abcd"] * 40), ", ".join(["abcd"] * 40)),
        (", ".join(["abcd"] * 60), ", ".join(["abcd"] * 40) + " and 20 more"),
        ("{" + ", ".join(["abcd"] * 60), ("{" + ", ".join(["abcd"] * 60))[:120] + "…"),
    ],
)
def test_a_long_value_is_cut_where_it_can_be(text: str, told: str) -> None:
    assert _cut(text) == told
