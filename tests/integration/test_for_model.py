"""A model's kernels by its name: the config comes from a hub, asked by its own client."""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gb10.core.proc import CommandFailedError, capture
from gb10.image.plan.catalog import ROOT
from tests.integration.hub_server import TOKEN, FakeHub, Repository, fake_hub

pytestmark = pytest.mark.integration
MODEL = "Org/Model-8B"
KERNELS = "aot for-org-model-8b for 12.1f"
CONFIG = {"torch_dtype": "bfloat16", "hidden_size": 4096, "num_attention_heads": 32, "sliding_window": 512}


@pytest.fixture
def hub() -> Iterator[FakeHub]:
    with fake_hub() as found:
        found.repositories[MODEL] = Repository()
        yield found


def one_index(url: str, store: Path) -> dict[str, str]:
    """Settings with which only this index can have a file."""
    return {
        "GB10_CACHE_DIR": str(store),
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_INDEX_URL": url,
        "PIP_EXTRA_INDEX_URL": "",
        "PIP_FIND_LINKS": "",
    }


@pytest.fixture
def no_engine(tmp_path: Path) -> dict[str, str]:
    """Settings with which no index has the engine: the config alone decides."""
    (tmp_path / "index").mkdir()
    return one_index((tmp_path / "index").as_uri(), tmp_path / "store")


def planned(hub: FakeHub, *arguments: str, **settings: str) -> dict[str, str]:
    """What the wheels of the plan are, by name."""
    env = {**os.environ, "HF_ENDPOINT": hub.url, "HF_TOKEN": TOKEN, "NO_COLOR": "1", **settings}
    argv = [sys.executable, "-m", "gb10", "plan", "--json", "--engine", "sglang", *arguments]
    steps = json.loads(capture(argv, cwd=ROOT, env=env))["steps"]
    return {step["name"]: step["about"] for step in steps if step["kind"] == "wheel"}


@pytest.mark.long
def test_the_engine_chooses_for_a_model_of_the_hub(hub: FakeHub) -> None:
    hub.put(MODEL, {"config.json": json.dumps(CONFIG).encode()})
    assert planned(hub, "--for-model", MODEL)["flashinfer-jit-cache"] == KERNELS


@pytest.mark.slow
def test_a_commit_is_taken_and_a_quantization_of_its_own_counts(hub: FakeHub, no_engine: dict[str, str]) -> None:
    hub.put(
        MODEL,
        {
            "config.json": json.dumps(CONFIG).encode(),
            "hf_quant_config.json": b'{"quantization": {"quant_algo": "NVFP4"}}',
        },
    )
    commit = hub.repositories[MODEL].sha()
    hub.put(MODEL, {"config.json": b"{}"})
    assert planned(hub, "--for-model", f"{MODEL}@{commit}", **no_engine)["flashinfer-jit-cache"] == KERNELS
    with pytest.raises(CommandFailedError, match="exited with 2"):
        planned(hub, "--for-model", MODEL, **no_engine)


def test_a_folder_without_a_config_is_no_model_of_the_hub(hub: FakeHub, tmp_path: Path) -> None:
    with pytest.raises(CommandFailedError) as caught:
        planned(hub, "--for-model", str(tmp_path))
    assert "has no config.json" in caught.value.tail
    assert not hub.log


def test_a_model_without_a_config_is_told(hub: FakeHub) -> None:
    with pytest.raises(CommandFailedError) as caught:
        planned(hub, "--for-model", MODEL)
    assert caught.value.returncode == 5
    assert "Org/Model-8B has no config.json" in caught.value.tail


def test_an_index_without_the_engine_leaves_the_choice_to_the_config(hub: FakeHub, no_engine: dict[str, str]) -> None:
    hub.put(MODEL, {"config.json": json.dumps(CONFIG).encode()})
    assert planned(hub, "--for-model", MODEL, **no_engine)["flashinfer-jit-cache"] == KERNELS


@pytest.mark.slow
def test_an_index_that_does_not_answer_is_an_error(hub: FakeHub, tmp_path: Path) -> None:
    """The same command would choose other kernels when it answers again."""
    hub.put(MODEL, {"config.json": json.dumps(CONFIG).encode()})
    with pytest.raises(CommandFailedError) as caught:
        planned(hub, "--for-model", MODEL, **one_index("http://127.0.0.1:9/simple", tmp_path / "store"))
    assert caught.value.returncode == 5
