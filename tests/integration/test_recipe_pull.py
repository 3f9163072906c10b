"""``recipe pull`` from a Hub of our own: resumed, checked by hash, locked, offline when whole."""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random

import huggingface_hub.constants
import pytest

from gb10.cli import main
from gb10.core.installation import ROOT
from gb10.core.proc import capture
from gb10.serving.weights import downloading
from gb10.serving.weights.hub_cache import PART, ModelFolder
from gb10.sources import hub as hub_room
from tests.hang import until
from tests.integration.hub_server import TOKEN, FakeHub, Repository, blob_name, fake_hub

pytestmark = pytest.mark.integration
DRIVES = (
    "gb10.serving.weights.model_lock",
    "gb10.serving.weights.weights_pull",
)  # through others: see tests/mutations.py

REPO, DRAFT = "org/model", "org/draft"
LARGE = {name: Random(name).randbytes(3 << 20) for name in ("model-1.safetensors", "model-2.safetensors")}  # noqa: S311
SMALL = {"config.json": b'{"model_type": "x"}', "tokenizer.json": b"{}" * 5000, "empty.txt": b""}
OTHERS = {"model.bin": b"x" * 5000, "original/model.safetensors": b"y" * 5000, "picture.png": b"z" * 5000}
RECIPE = f"""\
model: {REPO}
container: gb10/vllm:0.33.0-cu130-sm121f
command: |
  vllm serve {REPO} --gpu-memory-utilization 0.8
"""
WITH_DRAFT = f"""--speculative-config '{{"model": "{DRAFT}", "num_speculative_tokens": 3}}'"""


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FakeHub]:
    """A Hub that asks for no token, with one model; caches, settings and data of a user who has none."""
    with fake_hub() as found:
        found.repositories[REPO] = Repository(private=False)
        found.put(REPO, {**LARGE, **SMALL, **OTHERS})
        for name in ("HF_TOKEN", "HF_HUB_CACHE", "HF_HUB_OFFLINE", "XDG_CACHE_HOME"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setattr(huggingface_hub.constants, "HF_TOKEN_PATH", str(tmp_path / "no-token"))
        places = {"HF_HOME": "hf", "XDG_DATA_HOME": "data", "XDG_CONFIG_HOME": "config", "GB10_CACHE_DIR": "store"}
        for name, folder in places.items():
            monkeypatch.setenv(name, str(tmp_path / folder))
        monkeypatch.setenv("HF_ENDPOINT", found.url)
        monkeypatch.setattr(downloading, "PAUSE", 0.01)
        (tmp_path / "mine.yaml").write_text(RECIPE, encoding="utf-8")
        yield found


@pytest.fixture
def folder(tmp_path: Path) -> ModelFolder:
    return ModelFolder(tmp_path / "hf/hub", REPO)


@pytest.fixture
def recipe(tmp_path: Path) -> str:
    return str(tmp_path / "mine.yaml")


def pulled(capsys: pytest.CaptureFixture[str], recipe: str, *words: str) -> dict[str, object]:
    assert main(["recipe", "pull", recipe, "--json", *words]) == 0
    found: dict[str, object] = json.loads(capsys.readouterr().out)
    return found


def refused(capsys: pytest.CaptureFixture[str], recipe: str, *words: str, code: int = 5) -> str:
    assert main(["recipe", "pull", recipe, *words]) == code
    return capsys.readouterr().err


def test_weights_come_once_are_right_and_locked(
    hub: FakeHub, folder: ModelFolder, recipe: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = pulled(capsys, recipe)
    commit = hub.repositories[REPO].sha()
    snapshot = folder.snapshot(commit)
    assert found["models"] == [
        {
            "repo": REPO,
            "revision": commit,
            "path": str(snapshot),
            "files": 5,
            "bytes": sum(map(len, (*LARGE.values(), *SMALL.values()))),
        }
    ]
    for name, content in {**LARGE, **SMALL}.items():
        assert (snapshot / name).read_bytes() == content
        assert (snapshot / name).is_symlink()
    assert not [path for path in snapshot.rglob("*") if path.name in ("model.bin", "picture.png")]
    assert (folder.path / "refs/main").read_text(encoding="ascii") == commit
    assert not list(folder.path.rglob(f"*{PART}"))
    hub.log.clear()
    assert pulled(capsys, recipe)["downloaded"] == 0
    assert hub.log == []


def test_the_hubs_own_client_reads_what_was_pulled(
    hub: FakeHub, recipe: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pulled(capsys, recipe)
    commit = hub.repositories[REPO].sha()
    hub.log.clear()
    script = f"from huggingface_hub import snapshot_download as f; print(f('{REPO}', revision='{commit}'))"
    env = {**os.environ, "HF_HUB_OFFLINE": "1"}
    assert capture([sys.executable, "-c", script], env=env).strip().endswith(commit)
    assert hub.log == []


def test_a_connection_that_breaks_is_resumed_where_it_broke(
    hub: FakeHub, recipe: str, capsys: pytest.CaptureFixture[str]
) -> None:
    hub.drop_after = 1 << 20
    pulled(capsys, recipe)
    (resumed,) = [line for line in hub.asked("GET", "/storage/") if "bytes=" in line]
    assert "bytes=1048576-" in resumed


def test_a_run_that_was_killed_is_resumed_by_the_next(
    hub: FakeHub, folder: ModelFolder, recipe: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    content = LARGE["model-1.safetensors"]
    part = folder.part(hashlib.sha256(content).hexdigest())
    part.parent.mkdir(parents=True)
    part.write_bytes(content[: 2 << 20])
    assert pulled(capsys, recipe)["downloaded"] == sum(map(len, (*LARGE.values(), *SMALL.values()))) - (2 << 20)
    assert len(hub.asked("GET", "/storage/", "bytes=2097152-")) == 1


def test_a_run_that_is_killed_for_real_loses_nothing(
    hub: FakeHub, folder: ModelFolder, recipe: str, capsys: pytest.CaptureFixture[str]
) -> None:
    hub.stall_after = 1 << 20
    parts = [folder.part(hashlib.sha256(content).hexdigest()) for content in LARGE.values()]
    argv = [sys.executable, "-m", "gb10", "recipe", "pull", recipe]
    with subprocess.Popen(argv, cwd=ROOT, stderr=subprocess.DEVNULL) as child:
        until(lambda: all(part.exists() and part.stat().st_size >= 1 << 20 for part in parts), "the download")
        child.kill()
    hub.stall_after = None
    hub.log.clear()
    rest = pulled(capsys, recipe)["downloaded"]
    assert isinstance(rest, int)
    assert 2 * (2 << 20) <= rest <= 2 * (2 << 20) + sum(map(len, SMALL.values()))
    assert len(hub.asked("GET", "/storage/", "bytes=1048576-")) == 2


def test_a_model_that_drafts_is_pulled_too(
    hub: FakeHub, tmp_path: Path, folder: ModelFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    hub.repositories[DRAFT] = Repository(private=False)
    hub.put(DRAFT, {"draft.safetensors": b"d" * 1000, "config.json": b"{}"})
    other = tmp_path / "with-draft.yaml"
    other.write_text(RECIPE.replace("0.8\n", f"0.8 {WITH_DRAFT}\n"), encoding="utf-8")
    found = pulled(capsys, str(other))
    assert [model["repo"] for model in found["models"]] == [REPO, DRAFT]  # type: ignore[attr-defined]
    assert (ModelFolder(folder.cache, DRAFT).path / "refs/main").exists()


def test_a_damaged_file_is_fetched_again_and_twice_is_an_error(
    hub: FakeHub, folder: ModelFolder, recipe: str, capsys: pytest.CaptureFixture[str]
) -> None:
    name = hashlib.sha256(LARGE["model-2.safetensors"]).hexdigest()
    hub.damaged[name] = 2
    said = refused(capsys, recipe)
    assert "model-2.safetensors of org/model is not the file that the Hub lists" in said
    assert not folder.blob(name).exists()
    hub.damaged[name] = 1
    assert main(["recipe", "pull", recipe]) == 0
    assert "model-2.safetensors came damaged: fetching it again" in capsys.readouterr().err
    assert folder.blob(name).read_bytes() == LARGE["model-2.safetensors"]


def test_what_is_damaged_on_this_disk_is_found_and_fetched_again(
    hub: FakeHub, folder: ModelFolder, recipe: str, capsys: pytest.CaptureFixture[str]
) -> None:
    pulled(capsys, recipe)
    small, large = (
        folder.blob(blob_name(SMALL["config.json"])),
        folder.blob(hashlib.sha256(LARGE["model-1.safetensors"]).hexdigest()),
    )
    small.write_bytes(b"?" * len(SMALL["config.json"]))
    large.write_bytes(b"?" * (3 << 20))
    assert main(["recipe", "pull", recipe]) == 0
    assert "2 files are damaged here: fetching them again" in capsys.readouterr().err
    assert small.read_bytes() == SMALL["config.json"]
    assert large.read_bytes() == LARGE["model-1.safetensors"]


def test_offline_works_when_all_is_there_and_else_says_what_is_missing(
    hub: FakeHub, folder: ModelFolder, recipe: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pulled(capsys, recipe)
    monkeypatch.setattr(hub_room, "is_offline_mode", lambda: True)
    assert pulled(capsys, recipe, "--verify")["downloaded"] == 0
    folder.blob(blob_name(SMALL["config.json"])).unlink()
    said = refused(capsys, recipe)
    assert "HF_HUB_OFFLINE is set" in said
    assert "1 of 5 files of org/model are still missing" in said


def test_the_commit_stays_until_an_update(
    hub: FakeHub, folder: ModelFolder, recipe: str, capsys: pytest.CaptureFixture[str]
) -> None:
    first = hub.repositories[REPO].sha()
    pulled(capsys, recipe)
    hub.put(REPO, {"config.json": b'{"model_type": "y"}'})
    second = hub.repositories[REPO].sha()
    assert [model["revision"] for model in pulled(capsys, recipe)["models"]] == [first]  # type: ignore[attr-defined]
    assert main(["recipe", "pull", recipe, "--update"]) == 0
    assert f"main means {first[:12]} in this cache" in capsys.readouterr().err
    assert (folder.snapshot(second) / "config.json").read_bytes() == b'{"model_type": "y"}'
    assert (folder.snapshot(second) / "model-1.safetensors").resolve() == (
        folder.snapshot(first) / "model-1.safetensors"
    ).resolve()
    assert [model["revision"] for model in pulled(capsys, recipe, "--revision", first)["models"]] == [first]  # type: ignore[attr-defined]


def test_every_file_is_taken_on_request(
    hub: FakeHub, folder: ModelFolder, recipe: str, capsys: pytest.CaptureFixture[str]
) -> None:
    pulled(capsys, recipe, "--all")
    assert (folder.snapshot(hub.repositories[REPO].sha()) / "original/model.safetensors").exists()


def test_a_gated_model_needs_a_token_in_one_sentence(
    hub: FakeHub, recipe: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.repositories[REPO].gated = True
    said = refused(capsys, recipe)
    assert "error: org/model cannot be read: it is gated: its owner asks you to accept terms" in said
    assert "HF_TOKEN" in said
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    pulled(capsys, recipe)
    assert not [line for line in hub.log if TOKEN in line]


@pytest.mark.parametrize(
    ("change", "words", "text"),
    [
        ("missing", (), "org/model cannot be read: the Hub has no such repository, or it is private"),
        ("", ("--revision", "nope"), "the Hub has no such revision of it"),
        ("empty", (), "has no file that an engine reads"),
        ("down", (), "the Hub cannot be reached"),
    ],
)
def test_what_cannot_be_pulled_is_one_sentence(
    change: str, words: tuple[str, ...], text: str, hub: FakeHub, request: pytest.FixtureRequest
) -> None:
    capsys, monkeypatch = (request.getfixturevalue(name) for name in ("capsys", "monkeypatch"))
    recipe = request.getfixturevalue("recipe")
    if change == "missing":
        del hub.repositories[REPO]
    if change == "empty":
        hub.repositories[REPO] = Repository(commits=[{}], private=False)
    if change == "down":
        monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    assert text in refused(capsys, recipe, *words)


def test_a_recipe_of_a_path_has_nothing_to_pull(
    hub: FakeHub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "path.yaml"
    other.write_text(RECIPE.replace(REPO, "/models/m"), encoding="utf-8")
    assert "serves '/models/m'" in refused(capsys, str(other), code=2)


def test_a_full_disk_is_said_before_anything_comes(
    hub: FakeHub, recipe: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(downloading, "RESERVE", 1 << 60)
    assert "are missing, and the disk of" in refused(capsys, recipe, code=2)
    assert not hub.asked("GET", "/storage/")


@pytest.mark.parametrize("name", ["../../evil", "/etc/passwd", "a/../b", "odd\nname"])
def test_a_hub_that_lists_odd_names_is_refused(
    name: str, hub: FakeHub, recipe: str, capsys: pytest.CaptureFixture[str]
) -> None:
    hub.put(REPO, {name: b"x"})
    assert "it lists a file with an odd name" in refused(capsys, recipe)


def test_two_runs_at_once_wait_for_each_other(hub: FakeHub, recipe: str) -> None:
    argv = [sys.executable, "-m", "gb10", "recipe", "pull", recipe]
    runs = [subprocess.Popen(argv, cwd=ROOT, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) for _ in range(2)]
    assert [run.wait() for run in runs] == [0, 0]
    assert len(hub.asked("GET", "/storage/")) == 2
