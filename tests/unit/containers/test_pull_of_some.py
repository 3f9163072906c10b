"""A pull to several machines of which one failed: the others are reported, and the hint names the port."""

from dataclasses import replace

import pytest

from gb10.cli import main
from gb10.cli.ship.pull import document
from gb10.containers.registry.transfer import Remote
from gb10.core.ssh import ssh_host
from gb10.errors import EngineError, PublishError
from gb10.image.publish.pulling import Pull, Pulled

REMOTE = Remote(digest="sha256:aa", platforms=("linux/arm64",))
GOOD = Pulled(host="spark-1", id="sha256:bb", layers="cc", there=3, moved=1, bytes=10, seconds=1.0)
AWAY = EngineError("spark-2 cannot be reached", where="no route", hint="look at the cable")


def test_the_document_holds_the_machines_that_have_it_and_those_that_failed() -> None:
    made = document("r.example/a:b", Pull(remote=REMOTE, nodes=(GOOD,), failed={"spark-2": AWAY}))
    assert [node["host"] for node in made["nodes"]] == ["spark-1"]  # type: ignore[attr-defined]
    assert made["failed"] == [
        {
            "host": "spark-2",
            "kind": "engine",
            "message": "spark-2 cannot be reached",
            "where": "no route",
            "hint": "look at the cable",
        }
    ]


def test_the_error_names_the_machine_that_failed() -> None:
    with pytest.raises(PublishError) as caught:
        Pull(remote=REMOTE, nodes=(GOOD,), failed={"spark-2": AWAY}).require_all()
    assert caught.value.message == "1 of 2 nodes do not have the image"
    assert caught.value.where == "spark-2: spark-2 cannot be reached (no route)"
    Pull(remote=REMOTE, nodes=(GOOD,), failed={}).require_all()


def test_nodes_are_compared_by_layers_and_not_by_ids() -> None:
    """containerd's image store names an image by its manifest, the classic one by its config."""
    other = replace(GOOD, host="spark-2", id="sha256:dd")
    Pull(remote=REMOTE, nodes=(GOOD, other), failed={}).require_all()
    with pytest.raises(PublishError, match="do not have the same image") as caught:
        Pull(remote=REMOTE, nodes=(GOOD, replace(other, layers="ee")), failed={}).require_all()
    assert "spark-2: sha256:dd, layers ee" in (caught.value.where or "")


@pytest.mark.parametrize(
    ("host", "words"),
    [("me@spark", "me@spark"), ("ssh://me@spark:2222", "-p 2222 me@spark"), ("spark:22", "-p 22 spark")],
)
def test_the_hint_of_ssh_keeps_the_port(host: str, words: str) -> None:
    found = ssh_host(host)
    assert found
    assert found.words == words


def test_k3s_needs_a_head(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pull", "r.example/a:b", "--k3s"]) == 2
    assert "--k3s needs --via-head" in capsys.readouterr().err
