"""GGUF models: their metadata, read of files that nobody vouches for, and the launch that is chosen for them."""

import io
import struct
from collections.abc import Mapping
from types import MappingProxyType

import pytest
import yaml

from gb10.errors import UsageError
from gb10.models.choose.choosing import ModelFiles, Purpose, lines
from gb10.models.choose.llama_cpp import choose_gguf
from gb10.models.choose.writing import recipe_name, recipe_text
from gb10.models.lint.fit import fit_of
from gb10.models.load.loading import load_model_recipe
from gb10.models.memory.engines.budget import Machine
from gb10.models.memory.figures import load_figures
from gb10.models.memory.gguf import gguf_model, kinds_of, missing_parts, quant_of, read_gguf
from gb10.models.memory.shapes.config_fields import Fields
from gb10.models.recipe_privileges import model_files
from gb10.models.render.rendered import RenderRequest

PLAIN: Mapping[str, object] = MappingProxyType({})
FILE = "/m/big-Q4_K_M.gguf"
MACHINE = Machine(figures=load_figures())
LLAMA: dict[str, object] = {
    "general.architecture": "llama",
    "general.languages": ["en", "de"],
    "llama.block_count": 32,
    "llama.context_length": 131072,
    "llama.embedding_length": 4096,
    "llama.attention.head_count": 32,
    "llama.attention.head_count_kv": 8,
    "tokenizer.ggml.tokens": [f"t{number}" for number in range(3000)],
    "tokenizer.ggml.scores": [0.5] * 3000,
    "tokenizer.chat_template": "{{ messages }}",
}


def text_of(text: str) -> bytes:
    return struct.pack("<Q", len(text.encode())) + text.encode()


def value_of(value: object) -> bytes:
    """A type and a value, as ggml's docs/gguf.md describes them."""
    if isinstance(value, bool):
        return struct.pack("<I?", 7, value)
    if isinstance(value, int):
        return struct.pack("<II", 4, value)
    if isinstance(value, float):
        return struct.pack("<If", 6, value)
    if isinstance(value, str):
        return struct.pack("<I", 8) + text_of(value)
    assert isinstance(value, list)
    parts = [value_of(one) for one in value]
    return struct.pack("<I", 9) + parts[0][:4] + struct.pack("<Q", len(parts)) + b"".join(one[4:] for one in parts)


def gguf(values: Mapping[str, object], *, version: int = 3, magic: bytes = b"GGUF") -> bytes:
    pairs = b"".join(text_of(name) + value_of(value) for name, value in values.items() if value is not None)
    return magic + struct.pack("<IQQ", version, 1, sum(value is not None for value in values.values())) + pairs


def files_of(
    changed: Mapping[str, object] = MappingProxyType({}), *, size: int = 4 << 30, name: str = FILE
) -> ModelFiles:
    header = read_gguf(io.BytesIO(gguf({**LLAMA, **changed})), name)
    sizes = gguf_model(header, name, size)
    return ModelFiles(name=name, fields=Fields({}), sizes=sizes, template=header.template, gguf=header)


def test_the_metadata_gives_the_cache_and_the_limit() -> None:
    files = files_of()
    assert files.gguf is not None
    assert (files.gguf.longest, files.template, files.sizes.total) == (131072, "{{ messages }}", 4 << 30)
    assert files.sizes.cache is not None
    assert files.sizes.cache.token == 32 * 8 * (128 + 128) * 2  # layers, key heads, key and value, FP16
    wide = files_of({"llama.attention.key_length": 192, "llama.attention.value_length": 64})
    assert wide.sizes.cache and wide.sizes.cache.token == 32 * 8 * (192 + 64) * 2
    mixed = files_of({"llama.attention.head_count_kv": [0, 8] * 16})
    assert mixed.sizes.cache and mixed.sizes.cache.token == 16 * 8 * 256 * 2
    heads = files_of({"llama.attention.head_count": [0, 32] * 16})
    assert heads.sizes.cache and heads.sizes.cache.token == 32 * 8 * 256 * 2
    alike = files_of({"llama.attention.head_count": [32, 16] * 16, "llama.attention.head_count_kv": None})
    assert alike.sizes.cache and alike.sizes.cache.token == 16 * (32 + 16) * 256 * 2


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b"", "is cut"),
        (gguf(LLAMA)[:-5], "is cut"),
        (gguf(LLAMA, magic=b"GGML"), "is no GGUF file"),
        (gguf(LLAMA, version=1), "is no GGUF file"),
        (b"GGUF" + struct.pack("<IQQ", 3, 1, 1 << 60), "says that it has"),
        (b"GGUF" + struct.pack("<IQQQ", 3, 1, 1, 1 << 50), "says that it has"),
        (b"GGUF" + struct.pack("<IQQ", 3, 1, 1) + text_of("a") + struct.pack("<I", 77), "type that GGUF has not"),
        (
            b"GGUF" + struct.pack("<IQQ", 3, 1, 1) + text_of("a") + struct.pack("<IIQ", 9, 9, 2),
            "type that GGUF has not",
        ),
        (
            b"GGUF" + struct.pack("<IQQ", 3, 1, 1) + text_of("a") + struct.pack("<IIQ", 9, 12, 1 << 40),
            "says that it has",
        ),
    ],
)
def test_what_is_no_gguf_file_is_one_error(content: bytes, error: str) -> None:
    with pytest.raises(UsageError, match=error):
        read_gguf(io.BytesIO(content), "a.gguf")


def test_every_cut_of_a_file_is_an_error_and_nothing_else() -> None:
    whole = gguf({**LLAMA, "tokenizer.ggml.tokens": ["a"], "tokenizer.ggml.scores": [0.5]})
    for end in range(len(whole)):
        with pytest.raises(UsageError):
            read_gguf(io.BytesIO(whole[:end]), "a.gguf")


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"general.architecture": "clip"}, "is the encoder of pictures"),
        ({"general.architecture": None}, "names no architecture"),
        ({"llama.block_count": None}, "says no usable llama.block_count"),
        ({"llama.block_count": "x"}, "says no usable llama.block_count"),
        ({"llama.embedding_length": True}, "says no usable llama.embedding_length"),
    ],
)
def test_a_model_that_is_not_described_is_one_error(changed: dict[str, object], error: str) -> None:
    with pytest.raises(UsageError, match=error):
        files_of(changed)


@pytest.mark.parametrize("purpose", ["chat", "agents", "batch"])
def test_the_launch_fits_and_each_choice_has_its_reason(purpose: Purpose) -> None:
    files = files_of()
    assert files.gguf is not None
    choice = choose_gguf(files, files.gguf, MACHINE, purpose=purpose)
    text = recipe_text(choice)
    recipe = load_model_recipe(text, "new.yaml")
    assert [issue.text for issue in recipe.issues] == []
    read = yaml.safe_load(text)
    assert (read["runtime"], "container" in read) == ("llama-cpp", False)
    assert read["defaults"]["ctx_size"] == read["defaults"]["max_num_seqs"] * min(
        131072, {"chat": 131072, "agents": 262144, "batch": 32768}[purpose]
    )
    assert read["env"] == {"LLAMA_ARG_NO_MMAP": "1", "LLAMA_ARG_LOAD_MODE": "none"}
    fit = fit_of(recipe, RenderRequest(), sizes=files.sizes)
    assert fit.estimate is not None and fit.estimate.fits
    assert fit.estimate.launch.length == read["defaults"]["ctx_size"]
    assert {"engine", "ctx_size", "max_num_seqs", "n_gpu_layers", "mmap", "jinja"} <= {
        one.what for one in choice.reasons
    }
    assert "llama-cpp, the image of --image" in lines(choice)[1]


def test_a_large_model_gets_fewer_requests_or_a_shorter_context_or_is_refused() -> None:
    half = files_of(size=80 << 30)
    assert half.gguf is not None
    found = choose_gguf(half, half.gguf, MACHINE).launch
    assert (found.length or 0) < 4 * 131072
    assert found.length and found.length // (found.requests or 1) >= 16384
    far = files_of(size=200 << 30)
    assert far.gguf is not None
    with pytest.raises(UsageError, match=r"does not fit on one node: its weights take 200\.0 GiB"):
        choose_gguf(far, far.gguf, MACHINE)


@pytest.mark.parametrize(("pooling", "option"), [(1, "--embeddings"), (3, "--embeddings"), (4, "--reranking")])
def test_a_model_that_pools_is_served_so(pooling: int, option: str) -> None:
    files = files_of({"llama.pooling_type": pooling})
    assert files.gguf is not None
    command = recipe_text(choose_gguf(files, files.gguf, MACHINE)).partition("command: |")[2]
    assert option in command
    assert "--jinja" not in command


@pytest.mark.parametrize(("pooling", "batch"), [(0, 2048), (1, 32768), (2, 32768), (3, 2048), (4, 32768)])
def test_a_text_that_cannot_be_divided_is_one_step(pooling: int, batch: int) -> None:
    files = files_of({"llama.pooling_type": pooling, "llama.context_length": 32768})
    assert files.gguf is not None
    choice = choose_gguf(files, files.gguf, MACHINE)
    text = recipe_text(choice)
    assert (choice.launch.batched, yaml.safe_load(text)["defaults"]["ubatch_size"]) == (batch, batch)
    assert ("--batch-size {ubatch_size} --ubatch-size {ubatch_size}" in text) is (batch > 2048)
    fit = fit_of(load_model_recipe(text, "new.yaml"), RenderRequest(), sizes=files.sizes)
    assert fit.estimate is not None
    assert (fit.estimate.launch.batched, fit.estimate.tightest.serving) == (batch, choice.found.tightest.serving)


def test_files_are_told_apart_by_the_model_that_they_are() -> None:
    parts = [f"big-Q4_K_M-0000{number}-of-00003.gguf" for number in (1, 2, 3)]
    kinds = kinds_of(
        [*reversed(parts), "big-Q8_0.gguf", "mmproj-F16.gguf", "big-mmproj-F16.gguf", "README.md", "sub/a-F16.gguf"]
    )
    assert kinds == {
        parts[0]: tuple(parts),
        "big-Q8_0.gguf": ("big-Q8_0.gguf",),
        "sub/a-F16.gguf": ("sub/a-F16.gguf",),
    }
    assert missing_parts(parts[0], parts[:2]) == [parts[2]]
    assert missing_parts("big-Q8_0.gguf", ()) == []
    large = [f"big-0000{number}-of-00002.GGUF" for number in (1, 2)]
    assert missing_parts(large[0], large) == []
    assert [*map(quant_of, [parts[0], "big-q8_0.gguf", "a.UD-Q2_K_XL.gguf", "gpt-mxfp4.gguf", "a.gguf"])] == [
        "Q4_K_M",
        "Q8_0",
        "UD-Q2_K_XL",
        "MXFP4",
        "",
    ]
    assert recipe_name(f"/m/{parts[0]}") == "big-q4-k-m"


def test_of_a_model_that_was_split_the_folder_is_mounted() -> None:
    (mount,) = model_files("llama-server -m /m/x/a-00001-of-00002.gguf", "/m/x/a-00001-of-00002.gguf")
    assert (mount.source, mount.read_only) == ("/m/x", True)
    (mount,) = model_files("llama-server -m /m/x/a.gguf", "/m/x/a.gguf")
    assert mount.source == "/m/x/a.gguf"


def test_a_model_of_the_hub_is_downloaded_by_the_server_into_the_volume() -> None:
    files = files_of(name="org/big-GGUF:Q4_K_M")
    assert files.gguf is not None
    text = recipe_text(choose_gguf(files, files.gguf, MACHINE))
    assert "llama-server -hf {model} --alias" in text
    assert yaml.safe_load(text)["env"]["LLAMA_CACHE"] == "/var/cache/gb10/llama.cpp"
