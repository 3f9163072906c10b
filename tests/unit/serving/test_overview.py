"""What of a service was looked at, by the ranks that were found and the nodes that its labels name."""

import json
from collections.abc import Sequence

import pytest

from gb10.containers.connection import Endpoint, Engine
from gb10.containers.docker_containers import ContainerState
from gb10.core.reporter import Reporter
from gb10.errors import EngineError
from gb10.serving.run.existing import Found
from gb10.serving.run.notes import Notes
from gb10.serving.run.overview import Overview, not_looked_at
from gb10.serving.run.service import SERVICE, read_labels

ENGINE = Engine(kind="user", endpoint=Endpoint(host="x", origin="x"), version="1", api="1.45", containerd=False)


def found(host: str, rank: int, nodes: Sequence[str]) -> Found:
    labels = {SERVICE: "x", f"{SERVICE}.rank": str(rank), f"{SERVICE}.hosts": json.dumps(list(nodes))}
    state = ContainerState(id=f"{host}{rank}", name=f"gb10-x-{rank}", image="", status="running", labels=labels)
    return Found(host=host, state=state, labels=read_labels(labels))


def seen(hosts: Sequence[str], *own: Found, silent: Sequence[str] = (), named: bool = False) -> Overview:
    return Overview(
        fleet=dict.fromkeys(hosts, ENGINE),
        silent={host: EngineError("away") for host in silent},
        found=own,
        notes=Notes(),
        reporter=Reporter({}),
        named=named,
    )


@pytest.mark.parametrize(
    ("host", "rank", "nodes", "unseen", "line"),
    [
        ("localhost", 0, ["localhost", "me@two"], ("me@two",), "localhost,me@two"),
        ("localhost", 0, ["me@one", "me@two"], ("me@two",), "me@one,me@two"),
        ("localhost", 1, ["localhost", "me@two"], ("localhost",), "HEAD,me@two"),  # started on another machine
        ("localhost", 0, ["me@one"], (), ""),
        ("localhost", 0, ["localhost"], (), ""),
        ("localhost", 1, ["me@one", "localhost"], ("me@one",), "me@one,localhost"),
        ("localhost", 0, ["localhost", "a b; rm -rf ~"], ("a b; rm -rf ~",), "localhost,NODE"),
        ("localhost", -1, [], (), ""),
    ],
)
def test_the_nodes_that_only_labels_name(
    host: str, rank: int, nodes: Sequence[str], unseen: tuple[str, ...], line: str
) -> None:
    own = found(host, rank, nodes)
    overview = seen(["localhost"], own)
    assert overview.unseen([own]) == unseen
    error = not_looked_at("stop", {"x": [own]}, overview)
    assert (error.hint or "").splitlines()[1:] == [f"./build.py stop x --nodes {line}"] if error else not line
    assert seen(["localhost"], own, named=True).unseen([own]) == ()


def test_ranks_that_were_found_and_nodes_that_were_asked_are_seen() -> None:
    nodes = ["localhost", "me@two", "me@three"]
    own = [found("localhost", 0, nodes), found("me@two", 1, nodes)]
    assert seen(["localhost", "me@two"], *own).unseen(own) == ("me@three",)
    assert seen(["localhost", "me@two", "me@three"], *own).unseen(own) == ()
    overview = seen(["localhost", "me@two"], *own, silent=["me@three"])
    assert (overview.unseen(own), overview.lost(own)) == ((), ("me@three",))
    gone = found("me@two", 1, nodes)
    assert seen(["localhost", "me@two", "me@three"], gone).unseen([gone]) == ()
