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
        ({"executor_config": {"devices": ["/dev/fuse"]}}, "its containers run with devices: ['/dev/fuse']"),
        ({"executor_config": {"cap_add": ["IPC_LOCK"]}}, "its containers run with cap_add: ['IPC_LOCK']"),
        ({"executor_config": {"volumes": ["/data:/data"]}}, "mounts a path of the host: /data:/data"),
        ({"executor_config": {"ipc": "private"}}, "its containers run with ipc: private"),
        ({"executor_config": {"shm_size": "32g"}}, "shm_size 32g; its containers have the node's own shared memory"),
        ({"executor_config": {"ulimit": ["memlock=-1"]}}, "ulimit ['memlock=-1']; its containers have Docker's limits"),
        (
            {"executor_config": {"memory_limit": "64g"}},
            "memory_limit 64g; the limit is what the model is known to take",
        ),
        ({"executor_config": {"restart_policy": "always"}}, "restart_policy always; --restart"),
        ({"executor_config": {"auto_remove": True}}, "auto_remove True; a container that ended stays"),
        ({"executor_config": {"gpus": "device=0"}}, "gpus device=0; its containers see all GPUs"),
        ({"executor_config": {"labels": {"a": "b"}}}, "labels {'a': 'b'}; the labels are those"),
        ({"executor": "k8s"}, "executor k8s; it starts containers by Docker"),
        ({"runtime_config": {"a": 1}}, "runtime_config {'a': 1}; it does not read this"),
        ({"pre_exec": ["ldconfig"]}, "pre_exec runs as root in each container: ldconfig"),
        ({"model": "/models/m"}, "mount /models/m; nothing of the host is mounted there, so the image must hold it"),
        ({"command": "vllm serve ~/models/m"}, "mount ~/models/m; nothing of the host"),
        ({"command": "vllm serve org/m --tokenizer=./t"}, "mount ./t; nothing"),
        ({"command": "vllm serve org/m \\\n --chat-template /t/x.jinja"}, "mount /t/x.jinja; nothing"),
        ({"command": "vllm serve org/m --lora-modules a=/l/a"}, "mount /l/a; nothing"),
        ({"command": """vllm serve org/m --speculative-config '{"model": "/d", "x": 1}'"""}, "mount /d; nothing"),
        ({"command": "python3 -m sglang.launch_server --model-path /m"}, "mount /m; nothing"),
        ({"command": "llama-server -m /m.gguf"}, "mount /m.gguf; nothing"),
    ],
)
def test_what_run_does_not_do_is_found(keys: dict[str, object], text: str) -> None:
    (found,) = undone(keys)
    assert found.startswith(text)


def test_a_placeholder_is_judged_by_its_value() -> None:
    keys = {"command": "vllm serve {path}", "defaults": {"path": "/models/m"}}
    assert undone(keys) == []
    assert undone(keys, "vllm serve /models/m")[0].startswith("mount /models/m;")


@pytest.mark.parametrize(
    "keys",
    [
        {},
        {"executor_config": {"ipc": "host", "network": "host", "gpus": "all", "privileged": False, "shm_size": ""}},
        {"executor_config": {"restart_policy": "no", "volumes": [], "labels": None}, "executor": "docker"},
        {"command": "vllm serve org/m --served-model-name /a --port 8000 -tp 2"},
        {"command": "vllm serve /var/cache/gb10/huggingface/m"},
        {"metadata": {"a": "b"}, "maintainer": "x", "benchmark": {"a": 1}},
    ],
)
def test_what_run_does_anyway_is_none_of_it(keys: dict[str, object]) -> None:
    assert undone(keys) == []


def test_a_dry_run_in_words_and_as_json_and_show_have_the_same_list(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mine.yaml"
    config = {"shm_size": "32g", "devices": ["/dev/fuse"], "cap_add": ["IPC_LOCK"], "volumes": ["/a:/a"]}
    keys = {**PLAIN, "recipe_version": "2", "runtime": "vllm", "model": "/models/m", "executor_config": config}
    path.write_text(yaml.safe_dump({**keys, "command": "vllm serve {model} --port 1"}), encoding="utf-8")
    assert main(("run", str(path), "--dry-run")) == 0
    said = capsys.readouterr().err
    assert main(("run", str(path), "--dry-run", "--json")) == 0
    out, again = capsys.readouterr()
    listed = json.loads(out)["undone"]
    assert len(listed) == 5
    for text in listed:
        assert f": run does not do this: {text}" in said
        assert f": run does not do this: {text}" in again
    assert main(("recipe", "show", str(path), "--json")) == 0
    assert json.loads(capsys.readouterr().out)["undone"] == listed
    assert main(("recipe", "show", str(path))) == 0
    shown = capsys.readouterr().out
    assert [
        line.partition("not done by run")[2].strip() for line in shown.splitlines() if "not done by run" in line
    ] == listed
    assert main(("recipe", "render", str(path), "--as", "docker")) == 0
    said = capsys.readouterr().err
    assert all(f": no form does this: {text}" in said for text in listed)
