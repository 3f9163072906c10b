"""A model by a folder or a GGUF file of this machine: what is read of its files, and each file that is wrong."""

import json
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, cast

import pytest

from gb10.core.host import Host
from gb10.errors import UsageError
from gb10.image.request.chosen_recipe import choose_for
from gb10.image.request.model_sizes import local_gguf
from gb10.models.choose.choosing import Choice, ChoiceRequest
from tests.unit.models.test_gguf import LLAMA, gguf
from tests.unit.models.test_memory_files import FILES, read, write_file

TOKENIZER: Final = "tokenizer_config.json"
NOBODY: Final = cast("Host", None)
"""Files of this machine need no host."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A tiny Qwen3 with experts."""
    made = tmp_path / "tiny"
    made.mkdir()
    config, header = read(next(path for path in FILES if path.stem == "qwen3_moe"))
    config |= {"architectures": ["Qwen3MoeForCausalLM"], "max_position_embeddings": 32768}
    (made / "config.json").write_text(json.dumps(config), encoding="utf-8")
    write_file(made / "model.safetensors", header)
    return made


def chosen(model: Path, request: ChoiceRequest | None = None) -> Choice:
    return choose_for(NOBODY, str(model), request or ChoiceRequest())


def refused(model: Path, request: ChoiceRequest | None = None) -> str:
    """The error's text, with the folder of the test as HERE."""
    with pytest.raises(UsageError) as caught:
        chosen(model, request)
    return re.sub(r"/\S*?/test_[^/]*/", "HERE/", str(caught.value))


def test_a_plain_folder(folder: Path) -> None:
    made = chosen(folder)
    files = made.files
    assert (files.name, files.revision, files.template, files.has_weights, files.pools) == (
        str(folder),
        "",
        "",
        True,
        False,
    )
    assert (files.text_limit, files.gguf, files.architecture) == (None, None, "Qwen3MoeForCausalLM")
    assert (made.engine, made.container) == ("vllm", "gb10/vllm:0.33.0-cu130-sm121f")
    assert files.sizes.source == f"headers of 1 files in {folder}"
    sglang = chosen(folder, ChoiceRequest(engine="sglang", nodes=1))
    assert (sglang.engine, sglang.container) == ("sglang", "gb10/sglang:0.5.23-cu130-sm121f")
    (folder / "model.safetensors").unlink()
    assert not chosen(folder).files.has_weights


@pytest.mark.parametrize(
    ("tokenizer", "own", "template"),
    [
        ({"chat_template": "one"}, None, "one"),
        ({"chat_template": "one"}, "own", "own"),
        (None, "own", "own"),
        (None, "a\xff", "a\ufffd"),
        (None, "x" * ((1 << 20) + 1), "x" * (1 << 20)),
        ({"chat_template": "y" * ((1 << 20) + 1)}, None, "y" * (1 << 20)),
        ({"chat_template": [{"name": "default", "template": "d"}]}, None, "d"),
        ({"chat_template": [{"name": "default", "template": "d"}, {"name": "tool_use", "template": "t"}]}, None, "t"),
        ({"chat_template": ["text", {"name": "rag", "template": "r"}]}, None, ""),
        ({"chat_template": 3}, None, ""),
        ({}, None, ""),
        (["chat_template"], None, ""),
    ],
)
def test_the_chat_template(folder: Path, tokenizer: object, own: str | None, template: str) -> None:
    if tokenizer is not None:
        (folder / TOKENIZER).write_text(json.dumps(tokenizer), encoding="utf-8")
    if own is not None:
        (folder / "chat_template.jinja").write_text(own, encoding="latin-1")
    assert chosen(folder).files.template == template


@pytest.mark.parametrize(
    ("limit", "read"),
    [
        (512, 512),
        (1, 1),
        (0, None),
        (-1, None),
        (1 << 27, None),
        ((1 << 27) - 1, (1 << 27) - 1),
        (1e30, None),
        ("1", None),
    ],
)
def test_the_tokenizer_s_limit(folder: Path, limit: object, read: int | None) -> None:
    (folder / TOKENIZER).write_text(json.dumps({"model_max_length": limit}), encoding="utf-8")
    assert chosen(folder).files.text_limit == read


@pytest.mark.parametrize(
    ("modules", "pools"),
    [
        (
            [{"type": "sentence_transformers.models.Transformer"}, {"type": "sentence_transformers.models.Pooling"}],
            True,
        ),
        ([{"type": "sentence_transformers.models.Transformer"}], False),
        ([{"kind": ".Pooling"}, ".Pooling"], False),
        ({"type": ".Pooling"}, False),
    ],
)
def test_the_modules_say_whether_it_pools(folder: Path, modules: object, pools: bool) -> None:
    (folder / "modules.json").write_text(json.dumps(modules), encoding="utf-8")
    assert chosen(folder).files.pools == pools


@pytest.mark.parametrize("name", [TOKENIZER, "modules.json"])
@pytest.mark.parametrize("text", ["{", "[" * 100_000])
def test_a_small_file_that_is_no_json(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(text, encoding="utf-8")
    assert refused(folder).splitlines()[0] == f"error: the {name} of HERE/tiny is not JSON"


def files(**contents: Mapping[str, object] | None) -> Callable[[Path], None]:
    """Writes GGUF files by their names; None is a pipe."""

    def write(folder: Path) -> None:
        for name, values in contents.items():
            path = folder / f"{name.replace('__', '-')}.gguf"
            if values is None:
                os.mkfifo(path)
            else:
                path.write_bytes(gguf(values))

    return write


def test_the_only_kind_of_a_folder_is_served_and_its_header_read(tmp_path: Path) -> None:
    files(**{"big-Q4_K_M": LLAMA})(tmp_path)
    path = tmp_path / "big-Q4_K_M.gguf"
    made = chosen(tmp_path)
    assert [one.launch for one in (chosen(path), chosen(path, ChoiceRequest(nodes=1)))] == [made.launch] * 2
    assert (made.files.name, made.files.template, made.container) == (str(path), "{{ messages }}", "")
    assert made.files.gguf is not None
    assert (made.files.gguf.longest, made.files.sizes.total) == (131072, path.stat().st_size)


def test_a_model_in_parts_is_as_large_as_all_of_them(tmp_path: Path) -> None:
    names = [f"big-Q4_K_M-0000{number}-of-00007.gguf" for number in range(1, 8)]
    for name in names:
        (tmp_path / name).write_bytes(gguf(LLAMA))
    first = tmp_path / names[0]
    assert local_gguf(first)[0].total == 7 * first.stat().st_size
    assert chosen(tmp_path).files.name == str(first)
    for name in names[1:]:
        (tmp_path / name).unlink()
    with pytest.raises(UsageError) as caught:
        local_gguf(first)
    assert caught.value.message == f"{first}: parts of its model are missing"
    assert (caught.value.where or "").splitlines() == names[1:6]


@pytest.mark.parametrize(
    ("write", "model", "asked", "said"),
    [
        (
            files(),
            "",
            {},
            "error: HERE has no config.json\nhint: name a model's folder, or OWNER/NAME of a model on the Hub",
        ),
        (
            files(),
            "a.gguf",
            {},
            "error: no file HERE/a.gguf\nhint: name a GGUF file of this machine, or OWNER/NAME:KIND of the Hub",
        ),
        (
            files(**{"a-F16": LLAMA, "a-Q8_0": LLAMA}),
            "",
            {},
            "error: HERE has 2 kinds of GGUF files, and one is served\n  a-F16.gguf\n  a-Q8_0.gguf\n"
            "hint: name it: ./build.py run HERE/a-F16.gguf --image REF",
        ),
        (files(a=LLAMA), "a.gguf", {"engine": "vllm"}, "error: HERE/a.gguf with vllm: {}"),
        (files(a=LLAMA), "a.gguf", {"nodes": 2}, "error: HERE/a.gguf with 2 nodes: {}"),
        (
            files(a=None),
            "a.gguf",
            {},
            "error: no file HERE/a.gguf\nhint: name a GGUF file of this machine, or OWNER/NAME:KIND of the Hub",
        ),
    ],
)
def test_a_gguf_file_that_cannot_be_served(
    tmp_path: Path, write: Callable[[Path], None], model: str, asked: dict[str, object], said: str
) -> None:
    write(tmp_path)
    wanted = said.format("llama.cpp serves GGUF files, on one node\nhint: leave it out")
    with pytest.raises(UsageError) as caught:
        chosen(tmp_path / model, ChoiceRequest(**asked))  # type: ignore[arg-type]
    assert str(caught.value).replace(str(tmp_path), "HERE") == wanted


def test_what_is_no_plain_file_is_not_waited_for(tmp_path: Path) -> None:
    files(a=None)(tmp_path)
    with pytest.raises(UsageError, match="is no plain file"):
        local_gguf(tmp_path / "a.gguf")
    with pytest.raises(UsageError, match=r"^error: cannot read .*/b\.gguf\n  No such file or directory$"):
        local_gguf(tmp_path / "b.gguf")


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (
            {"adapter_config.json": {"base_model_name_or_path": "o/base", "r": 24}},
            "error: HERE is an adapter of o/base, not a model\nhint: start that model with it: ./build.py run o/base "
            "-- --enable-lora --max-lora-rank 32 --lora-modules adapter=HERE",
        ),
        (
            {"adapter_config.json": {"base_model_name_or_path": "o/base; rm x", "r": 8}},
            "error: HERE is an adapter of OWNER/MODEL, not a model\nhint: start that model with it: ./build.py run "
            "OWNER/MODEL -- --enable-lora --max-lora-rank 8 --lora-modules adapter=HERE",
        ),
        (
            {"adapter_config.json": ["r"]},
            "error: HERE is an adapter of OWNER/MODEL, not a model\nhint: start that model with it: ./build.py run "
            "OWNER/MODEL -- --enable-lora --max-lora-rank 512 --lora-modules adapter=HERE",
        ),
        (
            {"adapter_config.json": {"base_model_name_or_path": "o/base", "r": 1}, "config.json": {}},
            "error: HERE is an adapter of o/base, not a model\nhint: start that model with it: ./build.py run o/base "
            "-- --enable-lora --max-lora-rank 1 --lora-modules adapter=HERE",
        ),
        (
            {"adapter_config.json": {"peft_type": "PREFIX\nTUNING"}},
            "error: HERE is an adapter of OWNER/MODEL, not a model; and of the kind 'PREFIX\\nTUNING': vLLM and "
            "SGLang load LoRA alone",
        ),
        (
            {"adapter_config.json": {"r": 1024}},
            "error: HERE is an adapter of OWNER/MODEL, not a model; and of a rank above 512, the largest that vLLM "
            "takes",
        ),
        (
            {"$(touch x)/config.json": {}},
            "error: HERE has no config.json of its own\n  one is in: $(touch x)\nhint: name the folder of the "
            "model, downloaded where it is on the Hub: ./build.py run /FOLDER/NAME",
        ),
        (
            {"model_index.json": {"_class_name": "FluxPipeline"}, "vae/config.json": {}},
            "error: HERE is a pipeline of diffusers (FluxPipeline), which makes no text\nhint: diffusers runs it, or "
            "SGLang's server for pictures (sglang[diffusion]); our images have neither",
        ),
        (
            {"params.json": {"dim": 4096}},
            "error: HERE has its config in Mistral's form (params.json) alone, which gb10 does not read\nhint: take a "
            "repository of the model with config.json; or write a recipe with vllm serve MODEL --tokenizer-mode "
            "mistral --config-format mistral --load-format mistral",
        ),
        (
            {"modules.json": [], "0_Transformer/config.json": {}},
            "error: HERE has no config.json of its own\n  one is in: 0_Transformer\nhint: name the folder of the "
            "model, downloaded where it is on the Hub: ./build.py run /FOLDER/0_Transformer",
        ),
    ],
)
def test_a_folder_without_a_config_is_named_for_what_it_is(tmp_path: Path, names: dict[str, object], said: str) -> None:
    for name, content in names.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        chosen(tmp_path)
    assert str(caught.value).replace(str(tmp_path), "HERE") == said


@pytest.mark.parametrize(
    ("tokenizer", "fast", "own"),
    [
        (None, False, False),
        ({}, False, False),
        ({"auto_map": {"AutoTokenizer": ["tokenization_x.XTokenizer", None]}}, False, True),
        ({"auto_map": ["tokenization_x.XTokenizer", None]}, False, True),
        ({"auto_map": {"AutoProcessor": "p.P"}}, False, False),
        ({"auto_map": {"AutoTokenizer": ["tokenization_x.XTokenizer", None]}}, True, False),
    ],
)
def test_whether_only_code_makes_the_tokenizer(folder: Path, tokenizer: object, fast: bool, own: bool) -> None:
    if tokenizer is not None:
        (folder / TOKENIZER).write_text(json.dumps(tokenizer), encoding="utf-8")
    if fast:
        (folder / "tokenizer.json").write_text("{}", encoding="utf-8")
    assert chosen(folder).files.own_tokenizer is own
