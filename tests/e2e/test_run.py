"""The real vLLM on one machine and over two, each a network namespace with a Docker of its own behind sshd."""

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gb10.containers.docker_containers import run_inside
from gb10.core.proc import capture
from gb10.core.store import Store
from tests.e2e import vllm_cpu
from tests.e2e.word_model import TEXT
from tests.hang import until
from tests.integration.machines import Pair
from tests.integration.nodes import remove_containers
from tests.integration.services import containers, foreground, pid_in, ran

pytestmark = pytest.mark.e2e
CPU = ("--no-gpus", "--memory", "6", "--keep-free", "0.5")
READY = "Ctrl-C stops it"


@pytest.fixture(scope="module")
def two(store: Store, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with vllm_cpu.two_machines(store, tmp_path_factory.mktemp("two")) as found:
        yield found


@pytest.fixture(autouse=True)
def _user(two: Pair, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("PATH", two.env["PATH"])
    yield
    for machine in two.machines:
        remove_containers(machine.engine)


def answer(endpoint: str) -> str:
    """What the model says; all that it was made to say, if each rank did its part."""
    body = json.dumps({"model": "words", "messages": [{"role": "user", "content": "Hello"}], "temperature": 0})
    text = capture(["curl", "--silent", f"{endpoint}/v1/chat/completions", "--json", body])
    return str(json.loads(text)["choices"][0]["message"]["content"])


def timed(what: str, *arguments: str) -> str:
    begin = time.monotonic()
    out = ran(*arguments)
    print(f"{what}: {time.monotonic() - begin:.1f} s")
    return out


def left(two: Pair) -> list[str]:
    return [name for machine in two.machines for name in containers(machine.engine)]


def ray_nodes(two: Pair) -> int:
    return run_inside(two.machines[0].engine, "gb10-ray-0", ["ray", "status"])[1].count(" node_")


def test_one_node(two: Pair, tmp_path: Path) -> None:
    run = ("run", str(vllm_cpu.recipe(tmp_path, nodes=1)), *CPU, "--nodes", two.machines[0].host, "--detach")
    endpoint = timed("one node, start to healthy", *run).splitlines()[0]
    assert answer(endpoint) == TEXT
    assert json.loads(timed("unchanged", *run, "--json"))["unchanged"] is True
    timed("stop", "stop", "words", "--nodes", two.machines[0].host)
    assert left(two) == []


def test_two_nodes_answer_together_and_end_together(two: Pair, tmp_path: Path) -> None:
    log, path = tmp_path / "log", str(vllm_cpu.recipe(tmp_path, nodes=2))
    nodes = ("--nodes", two.nodes)
    endpoint = timed("two nodes, start to healthy", "run", path, *CPU, *nodes, "--detach").splitlines()[0]
    assert answer(endpoint) == TEXT
    timed("unchanged, by ssh", "run", path, *CPU, *nodes, "--detach")
    timed("stop of two", "stop", "words", *nodes)
    assert left(two) == []
    with foreground("run", path, *CPU, *nodes, log=log) as alive:
        until(lambda: READY in log.read_text() or not alive(), "the service", seconds=900)
        os.kill(pid_in(two.machines[1].engine, "gb10-words-1", "VLLM::Worker"), signal.SIGKILL)
        begin = time.monotonic()
        until(lambda: not alive(), "the end", seconds=60)
        print(f"a rank killed, all ended: {time.monotonic() - begin:.1f} s")
    said = log.read_text()
    assert f"error: words: rank 1 on {two.machines[1].host} ended first: " in said
    print(said[said.index("error: ") :])
    assert left(two) == []


def test_a_killed_tool_and_a_cable_pulled_out(two: Pair, tmp_path: Path) -> None:
    log, path = tmp_path / "log", str(vllm_cpu.recipe(tmp_path, nodes=2))
    nodes = ("--nodes", two.nodes)
    with foreground("run", path, *CPU, *nodes, log=log) as alive:
        until(lambda: READY in log.read_text() or not alive(), "the service", seconds=900)
        capture(["pkill", "--signal", "KILL", "--full", f"run {path}"])
    assert len(left(two)) == 2
    timed("stop after a crash of the tool", "stop", "words", *nodes)
    assert left(two) == []
    with foreground("run", path, *CPU, *nodes, log=log) as alive:
        until(lambda: READY in log.read_text() or not alive(), "the service", seconds=900)
        two.machines[1].run("ip", "link", "set", "enP7s7", "down")
        begin = time.monotonic()
        until(lambda: not alive(), "the end", seconds=120)
        print(f"a cable pulled out, noticed and ended: {time.monotonic() - begin:.1f} s")
        two.machines[1].run("ip", "link", "set", "enP7s7", "up")
    assert f"rank 1 on {two.machines[1].host} ended first: its node does not answer: " in log.read_text()
    assert containers(two.machines[0].engine) == []


def test_ray_joins_the_nodes_before_the_server_starts(two: Pair, tmp_path: Path) -> None:
    log, path = tmp_path / "log", str(vllm_cpu.ray_recipe(tmp_path))
    with foreground("run", path, *CPU, "--nodes", two.nodes, log=log) as alive:
        until(lambda: READY in log.read_text() or not alive(), "the service", seconds=300)
        until(lambda: ray_nodes(two) == 2, "both nodes in ray's own report, which is some seconds old", seconds=30)
        os.kill(pid_in(two.machines[1].engine, "gb10-ray-1", "raylet"), signal.SIGKILL)
        begin = time.monotonic()
        until(lambda: not alive(), "the end", seconds=60)
        print(f"Ray killed on a node, all ended: {time.monotonic() - begin:.1f} s")
    assert f"rank 1 on {two.machines[1].host} ended first: " in log.read_text()
    assert left(two) == []
