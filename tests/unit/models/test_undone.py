"""What a recipe asks of a launcher and `run` does not do: the same list by `run`, its dry run and `recipe show`."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from gb10.cli import main
from gb10.models.load.loading import load_model_recipe
from gb10.models.recipe_privileges import undone_by_run

PLAIN = {"model": "org/m", "container": "vllm/vllm-openai:v0.33.0", "command": "vllm serve org/m --port 1"}


def undone(keys: Mapping[str, object], command: str | None = None) -> list[str]:
    text = yaml.safe_dump({**PLAIN, **keys}, sort_keys=False)
    return [one.text for one in undone_by_run(load_model_recipe(text, "x.yaml"), command)]


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        ({"executor_config": {"network": "bridge"}}, "its containers run with network: bridge; a service has the"),
        ({"executor_config": {"entrypoint": "/run.sh"}}, "its containers run with entrypoint: /run.sh; the first"),
        ({"executor_config": {"shm_size": "32g"}}, "shm_size 32g; its containers have the node's own shared memory"),
        (
            {"executor_config": {"memory_limit": "64g"}},
            "memory_limit 64g; the limit is what the model is known to take",
        ),
        ({"executor_config": {"restart_policy": "always"}}, "restart_policy always; --restart"),
        ({"executor_config": {"auto_remove": True}}, "auto_remove True; a container that ended stays"),
        ({"executor_config": {"gpus": "device=0"}}, "gpus device=0; its containers see all GPUs"),
        ({"executor": "k8s"}, "executor k8s; it starts containers by Docker"),
        ({"runtime_config": {"a": 1}}, "runtime_config {'a': 1}; it does not read this"),
        ({"pre_exec": ["ldconfig"]}, "pre_exec runs as root in each container: ldconfig"),
        ({"command": "vllm serve ~/models/m"}, "mount ~/models/m; write the absolute path"),
        ({"command": "vllm serve org/m --tokenizer=./t"}, "mount ./t; write the absolute path"),
        ({"model": "../m", "command": "vllm serve {model}"}, "mount ../m; write the absolute path"),
    ],
)
def test_what_run_does_not_do_is_found(keys: dict[str, object], text: str) -> None:
    (found,) = undone(keys)
    assert found.startswith(text)


def test_a_placeholder_is_judged_by_its_value() -> None:
    keys = {"command": "vllm serve {path}", "defaults": {"path": "~/m"}}
    assert undone(keys) == []
    assert undone(keys, "vllm serve ~/m")[0].startswith("mount ~/m;")


@pytest.mark.parametrize(
    "keys",
    [
        {},
        {"executor_config": {"ipc": "host", "network": "host", "gpus": "all", "privileged": False, "shm_size": ""}},
        {"executor_config": {"restart_policy": "no", "volumes": [], "labels": None}, "executor": "docker"},
        {"command": "vllm serve org/m --served-model-name /a --port 8000 -tp 2"},
        {"command": "vllm serve /var/cache/gb10/huggingface/m"},
        {"command": "vllm serve /models/m", "model": "/models/m"},
        {"executor_config": {"ipc": "private", "shm_size": "32g"}},
        {"executor_config": {"devices": ["/dev/fuse"], "volumes": ["/a:/a"], "cap_add": ["IPC_LOCK"]}},
        {"metadata": {"a": "b"}, "maintainer": "x", "benchmark": {"a": 1}},
    ],
)
def test_what_run_does_anyway_is_none_of_it(keys: dict[str, object]) -> None:
    assert undone(keys) == []


def test_a_dry_run_in_words_and_as_json_and_show_have_the_same_list(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mine.yaml"
    config = {"shm_size": "32g", "network": "bridge", "gpus": "device=0"}
    keys = {**PLAIN, "recipe_version": "2", "runtime": "vllm", "pre_exec": ["ldconfig"], "executor_config": config}
    path.write_text(yaml.safe_dump(keys), encoding="utf-8")
    assert main(("run", str(path), "--dry-run")) == 0
    said = capsys.readouterr().err
    assert main(("run", str(path), "--dry-run", "--json")) == 0
    out, again = capsys.readouterr()
    listed = json.loads(out)["undone"]
    assert len(listed) == 4
    for text in listed:
        assert f": not done: {text}" in said or f": otherwise here: {text}" in said
        assert text in again
    assert main(("recipe", "show", str(path), "--json")) == 0
    assert json.loads(capsys.readouterr().out)["undone"] == listed
    assert main(("recipe", "show", str(path))) == 0
    shown = capsys.readouterr().out
    assert [
        line.partition("not done by run")[2].strip() for line in shown.splitlines() if "not done by run" in line
    ] == listed


@pytest.mark.parametrize(
    ("keys", "format_", "own"),
    [
        ({"recipe_version": "1"}, "v1", None),
        ({"recipe_version": "2"}, "v2", None),
        ({"recipe_version": "2", "gb10": {"engine": "vllm", "notes": ["slow"]}}, "gb10", ["slow"]),
    ],
)
def test_show_has_our_own_section_of_recipes_in_our_form(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], keys: dict[str, object], format_: str, own: list[str] | None
) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump({**PLAIN, **keys}), encoding="utf-8")
    assert main(("recipe", "show", str(path), "--json")) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["format"] == format_
    assert (document["gb10"] and document["gb10"]["notes"]) == own


def test_what_cannot_be_done_is_an_error_unless_it_is_ignored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mine.yaml"
    config = {"entrypoint": "/start.sh", "shm_size": "32g"}
    path.write_text(yaml.safe_dump({**PLAIN, "recipe_version": "2", "executor_config": config}), encoding="utf-8")
    for verb in (("run",), ("recipe", "render", "--as", "docker")):
        assert main((*verb, str(path))) == 2
        said = capsys.readouterr().err
        assert "mine asks for what gb10 cannot do" in said
        assert ": its containers run with entrypoint: /start.sh" in said
        assert "--ignore-unsupported" in said
    assert main(("recipe", "render", "--as", "docker", str(path), "--ignore-unsupported")) == 0
    assert ": not done: its containers run with entrypoint: /start.sh" in capsys.readouterr().err
