"""``recipe memory``: what nobody looked at is a row and exit 13, as are sizes that are not known."""

import json
from pathlib import Path

import pytest

from gb10.cli import main

CONFIG = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "hidden_size": 1024,
    "intermediate_size": 3072,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 151936,
    "tie_word_embeddings": True,
    "torch_dtype": "bfloat16",
}
IMAGE = "vllm/vllm-openai:v0.33.0"
RECIPE = """model: {model}
container: {image}
command: |
  vllm serve {{model}} --max-model-len 4096 {more}
"""


def asked(
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    *words: str,
    model: str = "org/m",
    more: str = "",
    image: str = IMAGE,
) -> tuple[int, str, str]:
    (folder / "config.json").write_text(json.dumps(CONFIG), encoding="utf-8")
    (folder / "x.yaml").write_text(RECIPE.format(model=model, more=more, image=image), encoding="utf-8")
    code = main(["recipe", "memory", str(folder / "x.yaml"), *words])
    return code, *capsys.readouterr()


def test_a_model_whose_sizes_are_known_has_no_row(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = asked(tmp_path, capsys, "--weights", str(tmp_path / "config.json"), "--json")
    assert (code, json.loads(out)["unchecked"]) == (0, [])


def test_a_format_that_only_the_name_says_is_a_row(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--weights", str(tmp_path / "config.json"))
    code, out, err = asked(tmp_path, capsys, *words, model="org/m-NVFP4")
    assert code == 13
    assert "not checked: weights: the name says NVFP4" in out
    assert "not checked, and nothing wrong was found in the rest" in err
    assert "not checked: weights" not in err
    assert asked(tmp_path, capsys, *words, "--allow-unchecked", model="org/m-NVFP4")[0] == 0


def test_a_draft_model_of_unknown_size_is_a_row(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    drafts = """--speculative-config '{"method": "eagle3", "model": "org/draft", "num_speculative_tokens": 2}'"""
    code, out, _ = asked(tmp_path, capsys, "--weights", str(tmp_path / "config.json"), "--json", more=drafts)
    (row,) = json.loads(out)["unchecked"]
    assert (code, row["what"], "org/draft" in row["reason"]) == (13, "draft", True)


@pytest.mark.parametrize(
    ("image", "code"), [("somebody/vllm:fast", 13), ("vllm/vllm-openai:v0.19.2rc1", 0), ("vllm/vllm-openai", 0)]
)
def test_an_image_that_names_no_release_is_a_row(
    image: str, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--weights", str(tmp_path / "config.json"), "--json")
    found, out, _ = asked(tmp_path, capsys, *words, image=image)
    rows = json.loads(out)["unchecked"]
    assert (found, [f"{image} names no release: counted as 0.33.0" in row["reason"] for row in rows]) == (
        code,
        [True] * bool(code),
    )


def test_sizes_that_are_not_known_were_not_looked_at(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = asked(tmp_path, capsys)
    assert (code, "--fetch" in err) == (13, True)


def test_what_does_not_fit_wins(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--weights", str(tmp_path / "config.json"), "--services", "120")
    assert asked(tmp_path, capsys, *words, model="org/m-NVFP4")[0] == 2
