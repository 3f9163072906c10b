"""What a word after ``run`` means, and that a model without a recipe is started only when somebody agrees."""

import json
from pathlib import Path

import pytest

from gb10.cli import main
from gb10.models.memory.model import known_config


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model's folder without weights: its config and a chat template."""
    folder = tmp_path / "models/small"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(known_config("Qwen/Qwen3-0.6B")), encoding="utf-8")
    (folder / "chat_template.jinja").write_text("<tool_call> <think>", encoding="utf-8")
    return folder


def test_a_folder_is_shown_and_not_started_without_an_answer(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(("run", str(model), "--yes")) == 2
    assert "has a config and no weights" in capsys.readouterr().err
    header = json.dumps({"w": {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]}}).encode()
    (model / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(4))
    assert main(("run", str(model))) == 2
    said = capsys.readouterr().err
    for part in (
        f"{model}: a model's folder, without a recipe",
        "engine    vllm 0.33.0, gb10/vllm:0.33.0-cu130-sm121f",
        "context   40960 tokens, 8 requests at once",
        f"./build.py run {model} --yes starts it",
        f"./build.py recipe new {model} writes the recipe",
    ):
        assert part in said, part


def test_a_dry_run_of_a_folder_mounts_it_and_says_why_each_value(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(("run", str(model), "--dry-run", "--json")) == 0
    out, said = capsys.readouterr()
    document = json.loads(out)
    assert {"engine", "max_model_len", "parsers"} <= {reason["what"] for reason in document["chosen"]}
    assert all(reason["why"] for reason in document["chosen"])
    assert f"read at start: whether localhost has {model}" in said
    assert main(("run", str(model), "--dry-run")) == 0
    call = capsys.readouterr().out
    assert f"--mount type=bind,source={model},target={model},readonly" in call
    assert "--tool-call-parser hermes" in call
    assert "gb10-small-0" in call
    assert " --memory " in call, "its sizes are known, so its container has a limit"


def test_recipe_new_writes_a_file_once_that_runs_the_same(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "small.yaml"
    assert main(("recipe", "new", str(model), "--out", str(out))) == 0
    assert capsys.readouterr().out == f"{out}\n"
    assert main(("recipe", "new", str(model), "--out", str(out))) == 2
    assert "is there already" in capsys.readouterr().err
    assert main(("run", str(out), "--dry-run")) == 0
    of_file = capsys.readouterr().out
    assert main(("run", str(model), "--dry-run")) == 0
    chosen = capsys.readouterr().out
    limit = next(word for word in of_file.split("--") if word.startswith("memory "))
    assert f"--{limit}" in chosen, "a recipe that was written has the same protection"
    server = "python3 -m" if "sglang" in chosen else "vllm serve"
    assert chosen[chosen.index(server) :] == of_file[of_file.index(server) :]
    assert main(("recipe", "new", str(model), "--json", "--for", "batch", "--engine", "sglang")) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["name"] == "small"
    assert "runtime: sglang" in document["text"]
    assert main(("recipe", "lint", str(out))) == 0, "the sizes of a folder are read"


def test_a_model_of_one_of_our_recipes_is_served_by_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(("run", "Qwen/Qwen3-0.6B", "--dry-run", "--no-gpus")) == 0
    call, said = capsys.readouterr()
    assert "Qwen/Qwen3-0.6B: the recipe qwen3-0.6b serves it" in said
    assert "gb10-qwen3-0.6b-0" in call


@pytest.mark.parametrize(
    ("files", "error"),
    [
        ({}, "has no config.json"),
        ({"a-Q4_K_M.gguf": b"", "a-Q8_0.gguf": b""}, "has 2 kinds of GGUF files, and one is served"),
        ({"config.json": b"{"}, "is not JSON"),
        ({"config.json": b'{"architectures": ["Qwen3ForCausalLM"]}'}, "the tensors of model type '' are not known"),
    ],
)
def test_a_folder_that_is_no_model_is_one_error(
    files: dict[str, bytes], error: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    assert main(("run", str(tmp_path))) == 2
    assert error in capsys.readouterr().err


def test_a_folder_with_the_name_of_a_recipe_hides_it_from_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "qwen3-0.6b").mkdir()
    monkeypatch.chdir(tmp_path)
    assert main(("run", "qwen3-0.6b", "--dry-run", "--no-gpus")) == 0
    assert "gb10-qwen3-0.6b-0" in capsys.readouterr().out


def test_a_word_that_is_nothing_is_named_as_before(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(("run", "qwen3-0.6")) == 2
    assert "did you mean qwen3-0.6b" in capsys.readouterr().err
    assert main(("run", "x" * 5000)) == 2
    assert main(("run", "qwen3-0.6b", "--for", "games", "--dry-run")) == 2
    assert "known: chat, agents, batch" in capsys.readouterr().err


def test_a_dry_run_says_what_its_start_would_be_refused_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(
        "model: org/m\ncontainer: vllm/vllm-openai:v0.33.0\ncommand: vllm serve org/m\npre_exec: [ldconfig]\n",
        encoding="utf-8",
    )
    assert main(("run", str(path), "--dry-run")) == 0
    said = capsys.readouterr().err
    assert "the start is refused: mine asks for what gb10 cannot do" in said
    assert "--ignore-unsupported" in said
    assert main(("run", str(path), "--dry-run", "--ignore-unsupported")) == 0
    assert "refused" not in capsys.readouterr().err


def test_a_dry_run_of_a_recipe_of_others_lists_both_kinds_of_refusal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("XDG_CONFIG_HOME", "GB10_CACHE_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name))
    folder = tmp_path / "theirs"
    folder.mkdir()
    (folder / "one.yaml").write_text(
        "model: org/m\ncontainer: vllm/vllm-openai:v0.33.0\ncommand: vllm serve org/m\npre_exec: [ldconfig]\n"
        "executor_config: {privileged: true}\n",
        encoding="utf-8",
    )
    assert main(("recipe", "add", str(folder), "--name", "them")) == 0
    assert main(("run", "@them/one", "--dry-run", "--trust")) == 0
    said = capsys.readouterr().err
    assert "the start is refused: one asks for what gb10 cannot do" in said
    assert "privileged=true: --allow privileged=true" in said


def test_a_model_whose_name_says_few_bits_and_whose_config_does_not_has_a_note(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    named = model.rename(tmp_path / "models/small-nvfp4")
    assert main(("recipe", "new", str(named))) == 0
    text = " ".join(capsys.readouterr().out.replace("#", " ").split())
    assert "the name says nvfp4, and the config has no quantization" in text


@pytest.mark.parametrize("part", ["", "/", "/config.json", "/model.safetensors", "/model.safetensors.index.json"])
def test_a_model_is_its_folder_or_a_file_in_it(part: str, model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if part.endswith("safetensors"):
        header = json.dumps({"w": {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]}}).encode()
        (model / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(4))
    elif part.endswith("index.json"):
        index = {"metadata": {"total_size": 4}, "weight_map": {"w": "model.safetensors"}}
        (model / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
    assert main(("run", f"{model}{part}", "--dry-run")) == 0
    call, said = capsys.readouterr()
    assert f"vllm serve {model} " in call
    for line in ("context   40960 tokens", "start     0:0"):
        assert line in said, "a dry run shows the plan, too"


@pytest.mark.parametrize("name", ["my models", "a'b", "x$(id)", "semi;colon", "brace{d}"])
def test_a_path_that_a_command_would_split_is_refused(
    name: str, model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    moved = model.rename(tmp_path / name)
    (tmp_path / "link").symlink_to(moved)
    for word in (moved, tmp_path / "link"):
        assert main(("run", str(word), "--dry-run")) == 2
        assert "cannot stand in an engine's command" in capsys.readouterr().err


def test_letters_of_every_language_are_read(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    moved = model.rename(tmp_path / "modèle-模型+1")
    assert main(("run", str(moved), "--dry-run")) == 0
    assert f"source={moved},target={moved},readonly" in capsys.readouterr().out


@pytest.mark.parametrize("verb", [("run",), ("recipe", "render"), ("recipe", "memory")])
def test_a_second_recipe_is_no_argument_of_the_engine(
    verb: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main((*verb, "qwen3-0.6b", "qwen3-embedding-8b")) == 2
    assert "'qwen3-embedding-8b' is no option of the engine, and one recipe is taken" in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["show", "render", "memory", "pull"])
def test_a_verb_that_wants_a_recipe_says_how_a_model_gets_one(
    verb: str, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for word in (str(model), "Org/Model"):
        assert main(("recipe", verb, word)) == 2
        assert "recipe new writes a recipe" in capsys.readouterr().err


def test_a_gguf_file_with_blanks_is_refused_by_its_folder_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "my model (1).gguf").write_bytes(b"GGUF")
    for word in (tmp_path, tmp_path / "my model (1).gguf"):
        assert main(("run", str(word), "--image", "x", "--dry-run")) == 2
        assert "it has ' ()'" in capsys.readouterr().err


def test_a_value_that_no_engine_takes_is_said_where_the_limit_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(("run", "qwen3-0.6b", "--set", "gpu_memory_utilization=1.5", "--dry-run")) == 0
    said = capsys.readouterr().err
    assert (
        "'1.5' is not a number above 0, up to 1, and the engine may refuse it, so its containers have no limit" in said
    )
    assert "sizes of its model are not known" not in said
