"""Two machines in network namespaces: what `cluster check` finds there, and what `run` makes of it."""

import json
import os
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from gb10.engine.connection import client
from gb10.host.proc import capture
from gb10.host.store import open_store
from tests.cluster_trees import pair
from tests.integration.machines import Pair, machines
from tests.integration.services import CPU, containers, failed, load, ran, recipe, stand_in_image

pytestmark = pytest.mark.integration


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
        with closing(client(machine.engine)) as sdk:
            for left in sdk.containers.list(all=True):
                left.remove(force=True)


def test_what_the_kernel_has_is_what_the_check_says(two: Pair) -> None:
    with two.listening():
        found = json.loads(ran("cluster", "check", "--nodes", two.nodes, "--json"))
    assert [node["host"] for node in found["nodes"]] == [machine.host for machine in two.machines]
    assert (found["fabric"], found["failed"]) == ("lan", [])
    for machine, node in zip(two.machines, found["nodes"], strict=True):
        assert node["docker"] == machine.engine.version
        assert node["memory"]["total"] == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        assert abs(node["clock_ahead_s"]) < 5
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
