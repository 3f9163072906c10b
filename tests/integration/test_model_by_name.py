"""A model by its name on a hub: a recipe is chosen without a weight, and a server starts from it."""

import json
import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import yaml

from gb10.containers.connection import Engine, client
from gb10.core.proc import CommandFailedError
from tests.integration.hub_server import TOKEN, FakeHub, Repository, fake_hub
from tests.integration.nodes import build_py
from tests.integration.services import CPU, IMAGE, ran
from tests.integration.test_recipe_memory import MODEL, fill
from tests.integration.test_run import _nothing_left as _nothing_left  # noqa: PLC0414 - fixtures, these four
from tests.integration.test_run import engine as engine  # noqa: PLC0414
from tests.integration.test_run import image as image  # noqa: PLC0414
from tests.integration.test_run import store as store  # noqa: PLC0414

pytestmark = pytest.mark.integration
NOBODYS = b'{"model_type": "nobody", "architectures": ["NobodyForCausalLM"], "hidden_size": 8, "num_hidden_layers": 1}'
DRAFT = b'{"architectures": ["DFlashDraftModel"], "model_type": "qwen3"}'
UNREAD = b'{"architectures": ["LlamaForCausalLM"], "quantization_config": {"quant_method": "exl3"}}'


@pytest.fixture
def hub() -> Iterator[FakeHub]:
    with fake_hub() as found:
        found.repositories[MODEL] = Repository(private=False)
        fill(found)
        config = json.loads(found.read(MODEL, "config.json"))
        config |= {"architectures": ["Qwen3MoeForCausalLM"], "max_position_embeddings": 32768}
        found.put(MODEL, {"config.json": json.dumps(config).encode()})
        found.put(MODEL, {"tokenizer_config.json": json.dumps({"chat_template": "<tool_call> <think>"}).encode()})
        yield found


def asked(hub: FakeHub, *arguments: str, token: str = TOKEN) -> str:
    """What the tool prints, in a process of its own: the Hub's client reads its settings once."""
    return build_py(*arguments, env={**os.environ, "HF_ENDPOINT": hub.url, "HF_TOKEN": token, "NO_COLOR": "1"})


def test_a_recipe_is_chosen_without_reading_a_weight(hub: FakeHub, tmp_path: Path) -> None:
    text = asked(hub, "recipe", "new", MODEL)
    read = yaml.safe_load(text)
    head = hub.repositories[MODEL].sha()
    assert (read["model"], read["model_revision"]) == (MODEL, head)
    assert "--tool-call-parser hermes" in read["command"]
    assert not [line for line in hub.asked("GET", "model.safetensors") if "bytes=0-100000" not in line]
    assert asked(hub, "recipe", "new", f"{MODEL}@{head}") == text
    assert yaml.safe_load(asked(hub, "recipe", "new", f"{MODEL}@main"))["model_revision"] == head
    path = tmp_path / "tiny.yaml"
    path.write_text(text, encoding="utf-8")
    assert "fits" in asked(hub, "recipe", "memory", str(path), "--fetch", "--json")


def test_a_model_by_its_name_is_planned_and_started_only_when_somebody_agrees(hub: FakeHub) -> None:
    with pytest.raises(CommandFailedError) as caught:
        asked(hub, "run", MODEL, *CPU, "--image", IMAGE)
    assert caught.value.returncode == 2
    assert f"./build.py run {MODEL} --yes starts it" in caught.value.tail
    page = f"https://huggingface.co/{MODEL}"
    for word in (MODEL, f"{MODEL}/", page, f"{page}/", f"{page}/tree/main"):
        call = asked(hub, "run", word, "--image", IMAGE, "--dry-run")
        assert f"--revision {hub.repositories[MODEL].sha()}" in call


def test_a_folder_is_served(hub: FakeHub, engine: Engine, tmp_path: Path) -> None:
    """From a folder of this machine to an endpoint that answers, the folder read-only in the container."""
    folder = tmp_path / "tiny"
    folder.mkdir()
    for name in ("config.json", "model.safetensors", "tokenizer_config.json"):
        (folder / name).write_bytes(hub.read(MODEL, name))
    printed = ran(
        "run", str(folder), *CPU, "--image", IMAGE, "--yes", "--detach", "--memory", "1", "--set", "port=18123"
    )
    assert printed.splitlines()[0].endswith(":18123")
    with closing(client(engine)) as sdk:
        code, output = sdk.containers.get("gb10-tiny-0").exec_run(["ls", str(folder)])
    assert (code, output) == (0, b"config.json\nmodel.safetensors\ntokenizer_config.json\n")
    ran("stop", "tiny")


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"config.json": None}, "has no config.json"),
        ({"config.json": None, "model.safetensors": None, "a-Q4_K_M.gguf": b"x"}, "is no whole GGUF file"),
        ({"config.json": None, "a-Q4_K_M.gguf": b"x", "a-F16.gguf": b"x"}, "has 2 kinds of GGUF files"),
        ({"model.safetensors": None}, "has no weights in safetensors files"),
        (
            {"config.json": None, "adapter_config.json": b'{"base_model_name_or_path": "o/base", "r": 8}'},
            "is an adapter of o/base, not a model",
        ),
        ({"config.json": None, "model_index.json": b'{"_class_name": "FluxPipeline"}'}, "of diffusers (FluxPipeline)"),
        ({"config.json": None, "params.json": b"{}"}, "in Mistral's form"),
        ({"config.json": None, "0_Transformer/config.json": b"{}"}, "has no config.json of its own"),
        ({"config.json": DRAFT}, "only drafts for another model"),
        ({"config.json": UNREAD}, "has a quantization that vllm 0.33.0 and sglang 0.5.23 cannot read: exl3"),
        ({"tokenizer_config.json": b"{"}, "is not JSON"),
        ({"config.json": NOBODYS}, "has the architecture NobodyForCausalLM"),
    ],
)
def test_a_repository_that_is_no_model_is_one_error(hub: FakeHub, change: dict[str, bytes | None], error: str) -> None:
    hub.put(MODEL, change)
    with pytest.raises(CommandFailedError) as caught:
        asked(hub, "recipe", "new", MODEL)
    said = [line for line in caught.value.tail.splitlines() if line.startswith(("error:", "hint:"))]
    assert (len(said), error in said[0]) == (2, True), caught.value.tail


def test_a_gated_model_without_a_token_and_one_that_is_nowhere(hub: FakeHub) -> None:
    hub.repositories[MODEL].gated = True
    for model in (MODEL, "Org/Nowhere"):
        with pytest.raises(CommandFailedError) as caught:
            asked(hub, "recipe", "new", model, token="")
        assert caught.value.returncode == 5, caught.value.tail
        assert "hint:" in caught.value.tail
