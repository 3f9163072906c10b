"""``recipe memory`` of a model on a hub: its config and the headers of its files are read, and no weight."""

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
MODEL = "Org/Tiny"
HEADERS = ROOT / "tests/unit/data/memory/files/qwen3_moe.jsonl"
RECIPE = f"""
model: {MODEL}
container: gb10/vllm:0.33.0-cu130-sm121f
command: vllm serve {{model}} --gpu-memory-utilization 0.8 --max-model-len 4096
"""


@pytest.fixture
def hub() -> Iterator[FakeHub]:
    with fake_hub() as found:
        found.repositories[MODEL] = Repository()
        yield found


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.yaml"
    path.write_text(RECIPE, encoding="utf-8")
    return path


def fill(hub: FakeHub) -> int:
    """The repository of a real header over weights of zeros; returns their bytes."""
    config, header = HEADERS.read_text(encoding="utf-8").splitlines()
    size = max(entry["data_offsets"][1] for entry in json.loads(header).values())
    weights = len(header.encode()).to_bytes(8, "little") + header.encode() + bytes(size)
    hub.put(MODEL, {"config.json": json.dumps(json.loads(config)["config"]).encode(), "model.safetensors": weights})
    return int(size)


def said(hub: FakeHub, *arguments: str, **env: str) -> str:
    given = {**os.environ, "HF_ENDPOINT": hub.url, "HF_TOKEN": TOKEN, "NO_COLOR": "1", **env}
    return capture([sys.executable, "-m", "gb10", "recipe", "memory", *arguments], cwd=ROOT, env=given)


def test_the_sizes_of_a_model_of_the_hub_come_from_its_headers(hub: FakeHub, recipe: Path) -> None:
    size = fill(hub)
    found = json.loads(said(hub, str(recipe), "--fetch", "--json"))
    weights = next(item for item in found["stages"][0]["items"] if item["name"] == "weights")
    assert (found["fits"], weights["bytes"], weights["known"]) == (True, size, "computed")
    assert weights["source"].startswith(f"headers of 1 files of {MODEL}@")
    assert not [line for line in hub.asked("GET", "model.safetensors") if "bytes=0-100000" not in line]


def test_without_the_option_nothing_is_asked(hub: FakeHub, recipe: Path) -> None:
    with pytest.raises(CommandFailedError) as caught:
        said(hub, str(recipe))
    assert f"the sizes of {MODEL} are not known here" in caught.value.tail
    assert "--fetch" in caught.value.tail
    assert not hub.log


@pytest.mark.parametrize(
    ("env", "words"),
    [
        ({"HF_TOKEN": "hf_wrong"}, ("no such repository, or it is private", "HF_TOKEN")),
        ({"HF_HUB_OFFLINE": "1"}, ("HF_HUB_OFFLINE is set", "unset it")),
    ],
)
def test_a_gated_model_and_no_network_are_one_sentence(
    hub: FakeHub, recipe: Path, env: dict[str, str], words: tuple[str, str]
) -> None:
    fill(hub)
    with pytest.raises(CommandFailedError) as caught:
        said(hub, str(recipe), "--fetch", **env)
    assert all(word in caught.value.tail for word in words)


def test_a_repository_without_weights_is_one_sentence(hub: FakeHub, recipe: Path) -> None:
    hub.put(MODEL, {"config.json": b'{"model_type": "qwen3"}'})
    with pytest.raises(CommandFailedError) as caught:
        said(hub, str(recipe), "--fetch")
    assert "it has no weights in safetensors files" in caught.value.tail


@pytest.mark.parametrize("where", ["hub", "folder", "nowhere"])
def test_a_draft_model_counts_with_its_own_files_and_cache(hub: FakeHub, tmp_path: Path, where: str) -> None:
    size = fill(hub)
    config, header = HEADERS.read_text(encoding="utf-8").splitlines()
    name = "Org/Draft" if where == "hub" else "Org/None" if where == "nowhere" else str(tmp_path / "draft")
    if where == "hub":
        hub.repositories["Org/Draft"] = hub.repositories[MODEL]
    (tmp_path / "draft").mkdir()
    (tmp_path / "draft/config.json").write_text(json.dumps(json.loads(config)["config"]), encoding="utf-8")
    head = len(header.encode()).to_bytes(8, "little") + header.encode()
    (tmp_path / "draft/model.safetensors").write_bytes(head + bytes(size))
    recipe = tmp_path / "drafted.yaml"
    options = {"method": "draft_model", "model": name, "num_speculative_tokens": 3}
    drafts = " ".join(f"--speculative-config.{key} {value}" for key, value in options.items())
    recipe.write_text(f"{RECIPE.strip()} {drafts}\n", encoding="utf-8")
    alone = tmp_path / "alone.yaml"
    alone.write_text(RECIPE, encoding="utf-8")
    found, bare = (json.loads(said(hub, str(one), "--fetch", "--json", "--allow-unchecked")) for one in (recipe, alone))
    draft = next(item for item in found["stages"][0]["items"] if item["name"] == "draft model")
    unknown = [row for row in found["unchecked"] if row["what"] == "draft"]
    if where == "nowhere":
        assert (draft["known"], len(unknown)) == ("assumed", 1)
        return
    assert (draft["bytes"], draft["known"], unknown) == (size, "computed", [])
    each = [one["stages"][0]["cache"]["bytes"] / one["stages"][0]["cache"]["tokens"] for one in (found, bare)]
    assert each[0] == pytest.approx(2 * each[1], rel=0.01)
