"""Two machines in network namespaces: what `cluster check` finds there, and what `run` makes of it."""

import json
import os
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from gb10.containers.connection import client
from gb10.core.proc import capture
from gb10.core.store import open_store
from tests.cluster_trees import pair
from tests.hang import PATIENCE, until
from tests.integration.machines import Pair, machines
from tests.integration.nodes import kill, remove_containers
from tests.integration.services import CPU, IMAGE, containers, failed, foreground, load, ran, recipe, stand_in_image

pytestmark = [pytest.mark.integration, pytest.mark.slow]


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    store = open_store(os.environ)
    image = stand_in_image(store, tmp_path_factory.mktemp("image"))
    with machines(store, tmp_path_factory.mktemp("machines")) as found:
        for machine in found.machines:
            load(machine.engine, image)
        yield found


@pytest.fixture(autouse=True)
def _user(two: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A user whose ssh gets in; no container is left."""
    monkeypatch.setenv("PATH", two.env["PATH"])
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    yield
    for machine in two.machines:
        remove_containers(machine.engine)


def test_what_the_kernel_has_is_what_the_check_says(two: Pair) -> None:
    with two.listening():
        found = json.loads(ran("cluster", "check", "--nodes", two.nodes, "--json"))
    assert [node["host"] for node in found["nodes"]] == [machine.host for machine in two.machines]
    assert (found["fabric"], found["failed"]) == ("lan", [])
    for machine, node in zip(two.machines, found["nodes"], strict=True):
        assert node["docker"] == machine.engine.version
        assert node["memory"]["total"] == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        assert abs(node["clock_ahead_s"]) < PATIENCE  # it is one clock
        shown = json.loads(machine.run("ip", "-json", "address", "show", node["variables"]["GLOO_SOCKET_IFNAME"]))
        assert node["variables"]["VLLM_HOST_IP"] in [one["local"] for one in shown[0]["addr_info"]]


def test_a_cluster_from_init_to_stop(two: Pair, tmp_path: Path) -> None:
    path = str(recipe(tmp_path, "pair", nodes=2, host="0.0.0.0"))  # noqa: S104 - in a namespace
    with two.listening(*(replace(spark, rdma=False) for spark in pair())):  # here nobody may lock memory without limit
        file = ran("cluster", "init", "home", "--nodes", two.nodes).strip()
        assert file == str(tmp_path / "config/gb10/clusters/home.toml")
        checked = ran("cluster", "check", "home")
        assert "2 nodes: 2 nodes on one network of RoCE" in checked
        assert "  NCCL_IB_HCA==rocep1s0f0,roceP2p1s0f0\n" in checked
        endpoint, curl = ran("run", path, *CPU, "--nodes", "@home", "--detach").splitlines()
        assert endpoint.startswith(f"http://{two.machines[0].address}:")
        assert "You wrote: Hello" in capture(["bash", "-c", curl])
        assert json.loads(ran("run", path, *CPU, "--nodes", "@home", "--detach", "--json"))["unchanged"] is True
        for machine in two.machines:
            with closing(client(machine.engine)) as sdk:
                (found,) = sdk.containers.list()
                env = dict(word.split("=", 1) for word in found.attrs["Config"]["Env"])
            assert env["VLLM_HOST_IP"] == f"10.0.0.{machine.number}"
            assert env["NCCL_IB_HCA"] == "=rocep1s0f0,roceP2p1s0f0"
        assert len(ran("stop", "pair", "--nodes", "@home").splitlines()) == 2


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"driver": "570.86.10"}, "the nodes have different NVIDIA drivers"),
        ({"machine": "x86_64"}, "the nodes have different processors"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_starts(
    two: Pair, tmp_path: Path, change: dict[str, object], said: str
) -> None:
    one, other = pair()
    path = str(recipe(tmp_path, "pair", nodes=2))
    with two.listening(one, replace(other, **change)):  # type: ignore[arg-type]
        code, words = failed("run", path, *CPU, "--nodes", two.nodes)
    assert (code, said in words) == (12, True), words
    assert [containers(machine.engine) for machine in two.machines] == [[], []]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A recipe for both."""
    return recipe(tmp_path, "pair", nodes=2, host="0.0.0.0")  # noqa: S104 - in a namespace


def nothing_runs(two: Pair) -> bool:
    return [containers(machine.engine) for machine in two.machines] == [[], []]


def test_a_node_that_ssh_does_not_reach_is_named(two: Pair, path: Path) -> None:
    code, words = failed("run", str(path), *CPU, "--nodes", two.nodes)
    assert (code, words.count("Connection refused")) == (7, 2), words
    assert f"error: 2 nodes cannot be reached\n  {two.machines[0].host} cannot be reached: ssh: connect" in words
    with two.listening():
        code, words = failed("run", str(path), *CPU, "--nodes", f"{two.machines[0].host},root@127.0.0.1:1")
    assert (code, "error: root@127.0.0.1:1 cannot be reached\n" in words) == (7, True), words


def test_a_clock_that_is_wrong_is_said(two: Pair, path: Path) -> None:
    one, other = (replace(spark, rdma=False) for spark in pair())
    with two.listening(one, replace(other, clock="1795558766.5")), two.machines[0].listening_on(9000):
        code, words = failed("run", str(path), *CPU, "--nodes", two.nodes, "--set", "port=9000")
    assert (code, f"warning: the clock of {two.machines[1].host} is " in words) == (2, True), words


def test_an_image_that_one_node_lacks_is_said(two: Pair, path: Path) -> None:
    with closing(client(two.machines[0].engine)) as sdk:
        sdk.images.get(IMAGE).tag("gb10/only-here", "1")
    with two.listening():
        code, words = failed("run", str(path), *CPU, "--nodes", two.nodes, "--image", "gb10/only-here:1")
    assert code == 2
    assert f"error: the image is not on 1 node\n  {two.machines[1].host}: no image gb10/only-here:1" in words
    assert nothing_runs(two)


def test_a_port_of_the_head_that_is_taken_is_said(two: Pair, path: Path) -> None:
    with two.listening(), two.machines[0].listening_on(9000):
        code, words = failed("run", str(path), *CPU, "--nodes", two.nodes, "--set", "port=9000")
    assert (code, f"error: port 9000 of {two.machines[0].address} is taken\n" in words) == (2, True), words
    assert nothing_runs(two)


def test_a_full_disk_ends_what_was_started(two: Pair, path: Path) -> None:
    with two.listening():
        two.resize(two.used)
        try:
            code, words = failed("run", str(path), *CPU, "--nodes", two.nodes)
        finally:
            two.resize("4g")
    assert (code, f"error: the container cannot be made on {two.machines[1].host}\n" in words) == (12, True), words
    assert "no space left on device" in words
    assert "hint: make room there" in words
    assert nothing_runs(two)


def test_when_an_engine_dies_all_ranks_end_and_the_next_run_begins_anew(two: Pair, path: Path, tmp_path: Path) -> None:
    log, (one, other) = tmp_path / "log", two.machines
    with two.listening():
        with foreground("run", str(path), *CPU, "--nodes", two.nodes, log=log) as alive:
            until(lambda: "Ctrl-C stops it" in log.read_text() or not alive(), "the service")
            kill(other.engine)
            until(lambda: not alive(), "the end")
        said = log.read_text()
        assert f"error: pair: rank 1 on {other.host} ended first: its node does not answer: " in said
        assert "hint: end what is left: ./build.py stop pair" in said
        assert containers(one.engine) == []
        other.wake()
        ran("run", str(path), *CPU, "--nodes", two.nodes, "--detach")
        with closing(client(one.engine)) as sdk:
            sdk.containers.get("gb10-pair-0").kill()
        until(lambda: nothing_runs(two), "the end by the watch beside")
        ran("run", str(path), *CPU, "--nodes", two.nodes, "--detach")
        capture(["pkill", "--signal", "KILL", "--full", "status pair --watch"])
        with closing(client(one.engine)) as sdk:
            sdk.containers.get("gb10-pair-0").kill()
        again = json.loads(ran("run", str(path), *CPU, "--nodes", two.nodes, "--detach", "--json"))
        assert again["unchanged"] is False
        ran("stop", "pair", "--nodes", two.nodes)
    assert nothing_runs(two)
