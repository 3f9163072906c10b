"""``recipe render A B --as llama-swap``: its file by llama-swap's own keys, and what its commands do."""

import os
import shlex
import subprocess
from pathlib import Path
from typing import Annotated, Literal

import pytest
import yaml
from pydantic import AnyHttpUrl, BaseModel, ConfigDict, Field

from gb10.cli import main
from gb10.errors import UsageError
from gb10.models.load.loading import load_model_recipe
from gb10.serving.deploy.llama_swap import llama_swap_files
from gb10.serving.run.service import ContainerSettings
from tests.deployments import deployment, recipe_text

GIB = 1 << 30


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Served(Strict):
    """Of config-schema.json, as of November 2026: the keys that are written, their types and bounds."""

    name: Annotated[str, Field(max_length=128)]
    cmd: Annotated[str, Field(min_length=1)]
    cmdStop: str
    proxy: Annotated[AnyHttpUrl, Field(strict=False)]
    checkEndpoint: Annotated[str, Field(pattern="^/.*$|^none$")]
    aliases: list[Annotated[str, Field(min_length=1)]]


class Group(Strict):
    swap: bool
    members: list[str]


class Config(Strict):
    healthCheckTimeout: Annotated[int, Field(ge=15)]
    unloadTimeout: Annotated[int, Field(ge=0)]
    globalTTL: Annotated[int, Field(ge=0)]
    macros: dict[Literal["folder"], Annotated[str, Field(max_length=1024)]]
    models: dict[str, Served]
    groups: dict[str, Group]


def made(folder: Path, *words: str) -> Config:
    assert main(["recipe", "render", *words, "--as", "llama-swap", "--out", str(folder)]) == 0
    return Config.model_validate(yaml.safe_load((folder / "llama-swap.yaml").read_text(encoding="utf-8")))


def test_each_model_has_a_port_a_script_and_its_names(tmp_path: Path) -> None:
    config = made(tmp_path, "qwen3-0.6b", "gpt-oss-120b")
    assert list(config.models) == config.groups["gb10"].members == ["Qwen/Qwen3-0.6B", "openai/gpt-oss-120b"]
    assert config.groups["gb10"].swap
    ports = [one.proxy.port for one in config.models.values()]
    assert len(set(ports)) == 2
    for one, port in zip(config.models.values(), ports, strict=True):
        script = (tmp_path / f"gb10-{one.aliases[0]}-0.sh").read_text(encoding="utf-8")
        assert f"--port {port}" in script


def test_the_commands_start_follow_and_stop_the_container(tmp_path: Path) -> None:
    """As llama-swap runs them: macros put in, then words as a shell splits them."""
    config = made(tmp_path, "qwen3-0.6b")
    [one] = config.models.values()
    calls, program = tmp_path / "calls", tmp_path / "bin/docker"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\necho "$1 $2 $3" >> {calls}\n[ "$1 $2" != "rm x" ]\n', encoding="utf-8")
    program.chmod(0o755)
    env = {"PATH": f"{program.parent}:{os.environ['PATH']}", "HOME": "/"}
    for command in (one.cmd, one.cmdStop):
        words = shlex.split(command.replace("${folder}", config.macros["folder"]))
        assert not any("${" in word for word in words)
        subprocess.run(words, cwd=tmp_path, env=env, check=True)
    name = "gb10-qwen3-0.6b-0"
    rm, run, logs, stop, last = calls.read_text(encoding="utf-8").splitlines()
    assert (rm, logs, last) == (f"rm {name} ", f"logs --follow {name}", f"rm {name} ")
    assert run.startswith("run --detach ")
    assert stop.startswith("stop --time")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["qwen3-0.6b", "gpt-oss-120b", "--together"], "all models use"),
        (["qwen3-0.6b", "--nodes", "a,b"], "leave --nodes out"),
        (["qwen3-0.6b", "deepseek-v4-flash"], "node"),
        (["qwen3-0.6b", "gpt-oss-120b", "--restart"], "leave --restart out"),
        (["qwen3-0.6b", "no-such-recipe"], "no-such-recipe"),
    ],
)
def test_what_cannot_be_is_one_sentence(
    words: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["recipe", "render", *words, "--as", "llama-swap", "--out", str(tmp_path / "out")]) == UsageError.code
    assert says in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_models_together_fit_or_are_refused_with_the_sum() -> None:
    own = {"tensor_parallel": 1, "text": "a"}
    both = []
    for name, port in (("one", 8000), ("two", 8001)):
        text = recipe_text(model=f"a/{name}", defaults={"port": port, **own})
        recipe = load_model_recipe(text, f"{name}.yaml")
        both.append(deployment("llama-swap", recipe=recipe, options=ContainerSettings(memory=50 * GIB)))
    assert "swap: false" in llama_swap_files(both, 121 * GIB, together=True)[0].text
    with pytest.raises(UsageError, match=r"has 100\.0 GiB, 92\.0 GiB beside its system; all models use 100\.0 GiB"):
        llama_swap_files(both, 100 * GIB, together=True)
    with pytest.raises(UsageError, match="name of a service one"):
        llama_swap_files([both[0], both[0]], 121 * GIB, together=False)
