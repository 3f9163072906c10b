"""What of a service was looked at, by the ranks that were found and the nodes that its labels name."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from gb10.containers.connection import Endpoint, Engine
from gb10.containers.docker_containers import ContainerState
from gb10.core.reporter import Reporter
from gb10.errors import EmptySelectionError, EngineError
from gb10.serving.run.existing import Found
from gb10.serving.run.notes import Note, Notes
from gb10.serving.run.overview import Overview, not_looked_at, why
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


class Told(Reporter):
    """A reporter that keeps what it says."""

    def __init__(self) -> None:
        super().__init__({})
        self.said: list[str] = []

    def say(self, text: str) -> None:
        self.said.append(text)


def noted(tmp_path: Path, service: str, *nodes: str) -> Note:
    path = tmp_path / f"{service}.json"
    path.write_text("{}", encoding="utf-8")
    status = path.stat()
    return Note(service=service, nodes=nodes, path=path, stamp=(status.st_ino, status.st_mtime_ns))


def test_notes_go_with_services_that_are_on_none_of_their_nodes(tmp_path: Path) -> None:
    own = found("me@two", 0, ["me@two"])
    cases = {
        "here": (("x",), None, (), False),  # it runs
        "ended": (("x",), None, (own,), True),
        "gone": (("y",), None, (), True),
        "another": (("y",), "x", (), False),
        "asked": (("y",), "y", (), True),
    }
    for (service,), of, ended, removed in cases.values():
        note = noted(tmp_path, service, "me@two")
        overview = replace(seen(["localhost", "me@two"], own), notes=Notes(notes=(note,)))
        overview.clear_notes(of=of, ended=ended)
        assert note.path.exists() is not removed
    far = noted(tmp_path, "y", "me@two", "me@three")
    overview = replace(seen(["me@two"], own), notes=Notes(notes=(far,)))
    overview.clear_notes(of=None)
    assert far.path.exists()  # a node of it was not asked


def test_a_service_that_is_wanted_is_there_or_an_error_says_what_is(tmp_path: Path) -> None:
    own = found("localhost", 0, ["localhost"])
    assert seen(["localhost"], own).require("x") == (own,)
    note = noted(tmp_path, "z", "localhost")
    overview = replace(seen(["localhost"], own), notes=Notes(notes=(note,)))
    with pytest.raises(EmptySelectionError, match="no service 'z' on localhost") as gone:
        overview.require("z")
    assert gone.value.where == "services there: x"
    assert not note.path.exists()
    note = noted(tmp_path, "z", "localhost")
    overview = replace(seen(["localhost"], silent=["me@two"]), notes=Notes(notes=(note,)))
    with pytest.raises(EngineError, match="other nodes do not answer") as caught:
        overview.require("z")
    assert caught.value.where == "services there: none\nme@two: away"
    assert note.path.exists()


def test_a_note_that_cannot_be_removed_is_told(tmp_path: Path) -> None:
    folder = tmp_path / "folder"  # unlink refuses it, whoever asks
    folder.mkdir()
    status = folder.stat()
    note = Note(service="y", nodes=("localhost",), path=folder, stamp=(status.st_ino, status.st_mtime_ns))
    told = Told()
    replace(seen(["localhost"]), notes=Notes(notes=(note,)), reporter=told).clear_notes(of=None)
    assert [line.partition(":")[0] for line in told.said] == [f"{folder} cannot be removed"]


def test_an_error_is_one_line() -> None:
    assert why(EngineError("away", where="a\nb")) == "away: a b"
    assert why(EngineError("away")) == "away"
    assert len(why(EngineError("x " * 400))) == 300


def test_what_is_not_looked_at_is_told_for_each_service() -> None:
    one = found("localhost", 0, ["localhost", "me@two"])
    overview = seen(["localhost"], one)
    single = not_looked_at("stop", {"x": [one]}, overview)
    both = not_looked_at("stop", {"x": [one], "y": [one]}, overview)
    assert single is not None
    assert both is not None
    assert "that only the labels of a service name" in single.message
    assert "that only the labels of services name" in both.message
    assert both.where == "x: me@two\ny: me@two"
    assert not_looked_at("stop", {}, overview) is None
    assert overview.services == {"x": (one,)}
