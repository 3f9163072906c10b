"""What ``recipe lint`` did not look at is a row with its reason, never 0 errors; what it did look at is no row."""

from pathlib import Path

import pytest
import yaml

from gb10.image.request.recipe_mods import linted
from gb10.models.lint.lint_parts import PARTS, Linted
from gb10.models.lint.linting import lint
from gb10.models.lint.rule import load_rules
from gb10.models.load.loading import load_model_recipe
from gb10.models.registries.recipe_file import RecipeFile

KNOWN = "Qwen/Qwen3-0.6B"
VLLM = "vllm serve {model} --gpu-memory-utilization 0.8 --max-model-len 4096"
SGLANG = "python3 -m sglang.launch_server --model-path {model} --mem-fraction-static 0.7"
WORDS = "options, values, variables"


def result(**keys: object) -> Linted:
    recipe = {
        "recipe_version": "2",
        "model": KNOWN,
        "container": "vllm/vllm-openai:v0.33.0",
        "command": VLLM,
        **keys,
    }
    text = yaml.safe_dump({key: value for key, value in recipe.items() if value is not None})
    return lint(load_model_recipe(text, "x.yaml"), load_rules())


def test_a_recipe_of_which_all_was_looked_at_has_no_row() -> None:
    assert result().unchecked == ()
    assert result(container="lmsysorg/sglang:v0.5.23", command=SGLANG, runtime="sglang").unchecked == ()


LEFT = {
    "TensorRT-LLM": (
        {"container": "nvcr.io/nvidia/tensorrt-llm/release:1.3.0rc20", "command": "trtllm-serve {model} --backend x"},
        {f"{WORDS}, rules": "TensorRT-LLM", "memory": "TensorRT-LLM"},
    ),
    "llama.cpp": (
        {"container": "ghcr.io/ggml-org/llama.cpp:server", "command": "llama-server -m x.gguf", "runtime": "llama-cpp"},
        {f"{WORDS}, rules": "llama.cpp", "memory": "llama.cpp"},
    ),
    "a program that nobody knows": (
        {"container": "somebody/atlas:1", "command": "/opt/atlas-serve --model {model}", "runtime": "atlas"},
        {f"{WORDS}, rules": "Atlas", "memory": "Atlas"},
    ),
    "an image by digest": (
        {"container": f"vllm/vllm-openai@sha256:{'a' * 64}"},
        {f"{WORDS}, rules": "names no release"},
    ),
    "a fork": ({"container": "ghcr.io/somebody/vllm-fork:canary"}, {f"{WORDS}, rules": "ghcr.io/somebody"}),
    "a release of which no wheel was read": ({"container": "vllm/vllm-openai:v0.34.0"}, {WORDS: "nearest, 0.33.0"}),
    "an older release": ({"container": "vllm/vllm-openai:v0.10.1"}, {WORDS: "vllm 0.10.1 was read"}),
    "options that hold memory": (
        {"command": f"{VLLM} --enable-lora --num-gpu-blocks-override 9"},
        {"memory": "--enable-lora, --num-gpu-blocks-override not counted"},
    ),
    "a model whose sizes are not known": ({"model": "org/m"}, {"memory": "org/m"}),
    "a size that is no number": (
        {"command": f"{VLLM} --max-num-seqs many"},
        {"memory": "--max-num-seqs"},
    ),
    "options in a file": (
        {"command": f"{VLLM} --config /etc/vllm.yaml"},
        {"options": "/etc/vllm.yaml", "memory": "--config not counted"},
    ),
    "a value that the shell fills in": (
        {"command": f"{VLLM} --attention-backend $BACKEND"},
        {"values": "--attention-backend"},
    ),
    "two servers": ({"command": f"{VLLM} & {VLLM} --port 8001"}, {"options": "2 servers"}),
}


@pytest.mark.parametrize("kind", LEFT)
def test_what_was_left_out_is_a_row_with_its_reason(kind: str) -> None:
    keys, wanted = LEFT[kind]
    found = {row.what: row.reason for row in result(**keys).unchecked}
    assert set(found) == set(wanted)
    assert all(text in found[what] for what, text in wanted.items())


@pytest.mark.parametrize("kind", LEFT)
def test_each_row_is_in_the_words_of_the_help(kind: str) -> None:
    for row in result(**LEFT[kind][0]).unchecked:
        assert set(row.what.split(", ")) <= set(PARTS)
        assert not row.reason.endswith(".")


def test_a_release_that_is_named_brings_the_words_back() -> None:
    recipe = load_model_recipe(yaml.safe_dump({"model": KNOWN, "container": "x/y:z", "command": VLLM}), "x.yaml")
    assert [row.what for row in lint(recipe, load_rules(), release="0.33.0").unchecked] == []


def test_a_variant_has_rows_of_its_own() -> None:
    variants = {"eager": {"what": "another backend", "set": {"backend": "$B"}}}
    found = result(
        command=f"{VLLM} --attention-backend {{backend}}",
        defaults={"backend": "FLASHINFER"},
        gb10={"engine": "vllm", "variants": variants},
    )
    assert [row.what for row in found.unchecked] == ["values"]


def test_a_file_that_is_no_recipe_has_an_error_and_no_rows() -> None:
    found = lint(load_model_recipe("- 1\n- 2\n", "x.yaml"), load_rules())
    assert found.issues
    assert found.unchecked == ()


def test_mods_of_others_and_mods_that_are_nowhere_are_rows(tmp_path: Path) -> None:
    folder = tmp_path / "recipes"
    folder.mkdir()
    path = folder / "x.yaml"
    recipe = {"model": KNOWN, "container": "vllm/vllm-openai:v0.33.0", "command": VLLM, "mods": ["mods/theirs"]}
    path.write_text(yaml.safe_dump(recipe), encoding="utf-8")
    (nowhere,) = linted(RecipeFile(path), load_rules()).unchecked
    assert (nowhere.what, "theirs: the folder is not beside" in nowhere.reason) == ("mods", True)
    (tmp_path / "mods/theirs").mkdir(parents=True)
    (tmp_path / "mods/theirs/run.sh").write_text("true\n", encoding="utf-8")
    (theirs,) = linted(RecipeFile(path), load_rules()).unchecked
    assert "somebody else's" in theirs.reason


SHELLS = ["bash -c", "/bin/sh -lc", "bash -lc"]


@pytest.mark.parametrize("shell", SHELLS)
def test_a_command_in_quotation_marks_is_read(shell: str) -> None:
    found = result(command=f"{shell} '{VLLM} --no-such-option 1'")
    assert "unknown-option" in {one.code for one in found.issues}


def test_a_size_that_only_the_shell_knows_is_a_row_and_no_error() -> None:
    found = result(command="vllm serve {model} --gpu-memory-utilization 0.8 --max-model-len '$MAX_LEN'")
    assert not [one for one in found.issues if one.code == "wrong-number"]
    assert ("memory", True) in [
        (row.what, "known only where the file is used" in row.reason) for row in found.unchecked
    ]
    wrong = result(command="vllm serve {model} --gpu-memory-utilization 0.8 --max-model-len MAX_LEN")
    assert [one for one in wrong.issues if one.code == "wrong-number"]
