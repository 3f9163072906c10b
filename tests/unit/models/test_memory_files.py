"""Weights from files: real headers of three libraries against the formula, and files that lie."""

import json
from pathlib import Path
from typing import Any

import pytest

from gb10.errors import UsageError
from gb10.image.request.model_sizes import local_model
from gb10.models.memory.launch import Launch
from gb10.models.memory.model import model_of
from gb10.models.memory.weights.scheme import NamePatterns
from gb10.models.memory.weights.weight import Ranks, stage_of

FILES = sorted((Path(__file__).parents[1] / "data/memory/files").glob("*.jsonl"))
CLOSE = 0.02
INDEX = "model.safetensors.index.json"


def read(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    config, header = path.read_text(encoding="utf-8").splitlines()
    return json.loads(config)["config"], json.loads(header)


def write_file(path: Path, header: object, *, lost: int = 0) -> int:
    """A safetensors file with this header, and a hole where its weights would be; returns the bytes of weights."""
    text = json.dumps(header).encode()
    size = max((entry["data_offsets"][1] for entry in header.values()), default=0) if isinstance(header, dict) else 0
    with path.open("wb") as stream:
        stream.write(len(text).to_bytes(8, "little") + text)
        stream.truncate(8 + len(text) + size - lost)
    return int(size)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The files of a tiny Qwen3 with experts, without an index."""
    config, header = read(next(path for path in FILES if path.stem == "qwen3_moe"))
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    write_file(tmp_path / "model.safetensors", header)
    return tmp_path


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_formula_agrees_with_real_headers(path: Path, tmp_path: Path) -> None:
    """In all, and on each rank: with two ranks a layer, and with two stages."""
    config, header = read(path)
    total = write_file(tmp_path / "model.safetensors", header)
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    there, computed = local_model(tmp_path, "tiny"), model_of(config, "tiny", "its config")
    assert there.total == total
    assert computed.total == pytest.approx(total, rel=CLOSE)
    for ranks in (Ranks(tensor=2), Ranks(stages=2)):
        launch = Launch(engine="vllm", ranks=ranks)
        for stage in range(ranks.stages):
            sizes = [sum(model.parts(launch, stage).values()) for model in (there, computed)]
            assert sizes[1] == pytest.approx(sizes[0], rel=CLOSE)


def test_two_ranks_hold_less_than_one_and_more_than_half(folder: Path) -> None:
    model = local_model(folder, "tiny")
    one, two = (sum(model.parts(Launch(engine="vllm", ranks=Ranks(tensor=n)), 0).values()) for n in (1, 2))
    assert one == model.total
    assert one / 2 < two < one * 0.51


def test_an_index_without_its_files_divides_its_total_by_the_config(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    index = {"metadata": {"total_size": 123_456_789}, "weight_map": {"lm_head.weight": "model-1.safetensors"}}
    (folder / INDEX).write_text(json.dumps(index), encoding="utf-8")
    for path in (folder, folder / INDEX):
        assert local_model(path, "tiny").total == pytest.approx(123_456_789, rel=1e-6)


def test_a_config_alone_is_enough_for_a_known_family(folder: Path) -> None:
    model = local_model(folder / "config.json", "tiny")
    assert model.total == pytest.approx(local_model(folder, "tiny").total, rel=CLOSE)


def refusal(path: Path) -> str:
    with pytest.raises(UsageError) as found:
        local_model(path, "tiny")
    assert found.value.hint or found.value.where
    return found.value.message


def test_an_index_that_disagrees_with_the_headers_is_an_error(folder: Path) -> None:
    names = read(next(path for path in FILES if path.stem == "qwen3_moe"))[1]
    places = dict.fromkeys(names, "model.safetensors")
    index = {"metadata": {"total_size": 1_000}, "weight_map": places}
    (folder / INDEX).write_text(json.dumps(index), encoding="utf-8")
    assert "says 1000 bytes" in refusal(folder)
    places["model.layers.9.mlp.gate.weight"] = "model.safetensors"
    (folder / INDEX).write_text(json.dumps(index), encoding="utf-8")
    assert "names 1 tensors that no file has" in refusal(folder)


def test_a_file_that_was_cut_is_an_error(folder: Path) -> None:
    header = read(next(path for path in FILES if path.stem == "qwen3_moe"))[1]
    write_file(folder / "model.safetensors", header, lost=1)
    assert "is not whole" in refusal(folder)


@pytest.mark.parametrize(
    "header",
    [
        {"a": {"dtype": "BF16", "shape": [2, 2], "data_offsets": [0, 9]}},
        {"a": {"dtype": "BF16", "shape": [2, -2], "data_offsets": [0, 8]}},
        {"a": {"dtype": "BF16", "shape": [1 << 60, 1 << 60], "data_offsets": [0, 8]}},
        {"a": {"dtype": "BF16", "shape": [True], "data_offsets": [0, 2]}},
        {"a": {"dtype": "Q9", "shape": [1], "data_offsets": [0, 2]}},
        {"a": {"dtype": ["BF16"], "shape": [1], "data_offsets": [8, 2]}},
        {"a": {"dtype": "BF16", "shape": "1", "data_offsets": [0, 2]}},
        {"a": {"dtype": "BF16", "shape": [1] * 100, "data_offsets": [0, 2]}},
        {"a": {"dtype": "BF16", "shape": [1], "data_offsets": {"0": 2}}},
    ],
)
def test_a_hostile_header_is_one_sentence(header: dict[str, Any], folder: Path) -> None:
    text = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + bytes(64))
    assert refusal(folder).count("\n") == 0


@pytest.mark.parametrize(
    "content", [b"", b"\x00" * 8, b"\xff" * 16, b"\x04" + bytes(7) + b"nope", b"\x02" + bytes(7) + b"[]"]
)
def test_what_is_no_safetensors_file_is_an_error(content: bytes, folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(content)
    refusal(folder)


@pytest.mark.parametrize(
    "index",
    [
        "[]",
        '{"weight_map": []}',
        '{"weight_map": {"a": 1}}',
        '{"weight_map": {"a": "../../etc/passwd"}}',
        '{"weight_map": ' + "[" * 100_000,
        '{"weight_map": {"a": "x"}, "metadata": {"total_size": ' + "9" * 5000 + "}}",
    ],
)
def test_a_hostile_index_is_one_sentence(index: str, folder: Path) -> None:
    (folder / INDEX).write_text(index, encoding="utf-8")
    refusal(folder)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"model_type": "mystery"}, "the tensors of model type 'mystery' are not known (tiny)"),
        ({"model_type": 3}, "the config's model_type is 3, not text"),
        ({"hidden_size": None}, "the config's hidden_size is None"),
        ({"hidden_size": 1 << 40}, "the config's hidden_size is"),
        ({"num_hidden_layers": 10**5000}, "the config's num_hidden_layers is int"),
        ({"num_hidden_layers": 1e9}, "the config's num_hidden_layers is 1000000000.0"),
        ({"num_experts": -1}, "the config's num_experts is -1"),
        ({"layer_types": ["full_attention", "magic"]}, "layer_types has an unknown kind 'magic'"),
        ({"layer_types": [[]] * 9}, "layer_types has an unknown kind"),
        ({"vocab_size": "many"}, "the config's vocab_size is 'many'"),
        ({"quantization_config": []}, "the config's quantization_config is list"),
        ({"quantization_config": {"quant_method": "dreams"}}, "the quantization 'dreams' is not known"),
        ({"quantization_config": {"quant_algo": "NVFP4", "ignore": [3]}}, "a module that is no name"),
        ({"quantization_config": {"quant_algo": "NVFP4", "ignore": ["re:(a+)+$"]}}, "may take too long"),
        ({"quantization_config": {"quant_algo": "NVFP4", "ignore": ["re:("]}}, "a wrong expression"),
        ({"text_config": "x"}, "the config's text_config is 'x'"),
    ],
)
def test_a_config_that_cannot_be_computed_is_one_sentence(changed: dict[str, Any], said: str, folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    with pytest.raises(UsageError) as found:
        model_of({**config, **changed}, "tiny", "its config")
    assert said in found.value.message
    assert "\n" not in found.value.message
    assert found.value.hint or found.value.where


def test_an_unknown_family_of_attention_alone_keeps_all_tokens_in_each_layer(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    plain = {name: value for name, value in config.items() if not name.startswith("linear_") and name != "layer_types"}
    (folder / "config.json").write_text(
        json.dumps({**plain, "model_type": "mystery", "sliding_window": 64}), encoding="utf-8"
    )
    model = local_model(folder, "tiny")
    assert {layer.mixer for layer in model.layers} == {"full"}
    assert "'mystery' is not known" in model.cache_source
    heads = plain["num_key_value_heads"] * plain["head_dim"]
    assert model.cache_on(Launch(engine="vllm"), 0).token == plain["num_hidden_layers"] * 2 * heads * 2


def test_the_decoder_of_an_omni_model_is_found_in_its_thinker(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    omni = {"model_type": "any_omni", "thinker_config": {"model_type": "any_thinker", "text_config": config}}
    (folder / "config.json").write_text(json.dumps(omni), encoding="utf-8")
    assert local_model(folder, "tiny").cache_on(Launch(engine="vllm"), 0).token > 0
    (folder / "config.json").write_text(json.dumps({"model_type": "internvl", "llm_config": config}), encoding="utf-8")
    assert local_model(folder, "tiny").cache_on(Launch(engine="vllm"), 0).token > 0


def test_a_folder_of_an_unknown_family_with_states_has_weights_but_no_cache(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(
        json.dumps({**config, "model_type": "mystery", "mamba_d_state": 128}), encoding="utf-8"
    )
    model = local_model(folder, "tiny")
    assert model.total > 0
    with pytest.raises(UsageError, match="so its KV cache is not"):
        model.cache_on(Launch(engine="vllm"), 0)


@pytest.mark.parametrize(
    ("pattern", "name", "matches"),
    [
        ("model.layers.3.self_attn*", "layers.3.self_attn.q_proj", True),
        ("model.layers.3.self_attn*", "layers.30.self_attn.q_proj", False),
        ("model.language_model.layers.*.linear_attn*", "layers.7.linear_attn.out_proj", True),
        ("mtp.layers.0*", "layers.0.self_attn.q_proj", False),
        ("mtp*", "mtp.layers.0.self_attn.q_proj", True),
        ("lm_head", "lm_head", True),
        ("re:.*self_attn.*", "layers.7.self_attn.o_proj", True),
        ("re:self_attn", "layers.7.self_attn.o_proj", False),
        ("gate", "layers.1.mlp.gate", True),
        ("layers.1", "layers.10.mlp.gate", False),
        ("model.layers.2.mlp.experts.17.up_proj", "layers.2.mlp.experts.*.up_proj", True),
    ],
)
def test_patterns_name_what_their_writers_mean(pattern: str, name: str, matches: bool) -> None:
    assert NamePatterns([pattern]).match(name) is matches


def test_an_expression_sees_the_names_of_a_decoder_inside_of_a_model() -> None:
    """Sehyo's Qwen3.5 leaves out its drafts as ``model.layers``; its decoder is ``model.language_model.layers``."""
    drafts, whole = r"re:model\.layers\.\d+\.", r"re:model\.language_model\.layers\.\d+\.mlp"
    name = "layers.3.mlp.experts.*.up_proj"
    assert [NamePatterns([one], nested=True).match(name) for one in (drafts, whole)] == [False, True]
    assert NamePatterns([drafts]).match(name)


def test_stages_get_layers_as_in_vllm() -> None:
    """62 layers over three stages: 20, 21, 21 (get_pp_indices puts what is left before the last)."""
    assert [sum(stage_of(layer, 62, 3) == stage for layer in range(62)) for stage in range(3)] == [21, 21, 20]
    assert [sum(stage_of(layer, 60, 4) == stage for layer in range(60)) for stage in range(4)] == [15] * 4
