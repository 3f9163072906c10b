"""Publishing and pulling without an engine: tags, references, and what an engine tells of a transfer."""

import pytest

from gb10.engine.node import SSH, _argv
from gb10.engine.reference import split_digest
from gb10.engine.transfer import Moves
from gb10.errors import PublishError, UsageError
from gb10.pipeline.publishing import own_tags

KEY = "0.33.0-cu130-sm121f-0123456789ab"


def test_only_the_tags_that_image_gave_and_the_one_with_the_key_first() -> None:
    tags = [
        "gb10/vllm:mine",
        "gb10/vllm:0.33.0-cu130-sm121f",
        f"gb10/vllm:{KEY}",
        f"other/vllm:{KEY}",
        "gb10/vllm:0.33",
    ]
    assert own_tags("gb10/vllm:mine", tags) == [KEY, "0.33.0-cu130-sm121f"]
    assert own_tags("gb10/vllm:mine", ["gb10/vllm:mine"]) == []


def test_a_reference_by_digest() -> None:
    digest = f"sha256:{'0' * 64}"
    assert split_digest(f"h:5000/a/b@{digest}") == ("h:5000/a/b", digest)
    assert split_digest("h:5000/a/b:tag") == ("h:5000/a/b:tag", None)
    with pytest.raises(UsageError, match="is no digest"):
        split_digest("a@sha256:12")


def test_bytes_are_those_that_travelled() -> None:
    moves = Moves()
    for event in (
        {"status": "Downloading", "id": "a", "progressDetail": {"current": 5, "total": 10}},
        {"status": "Already exists", "id": "b", "progressDetail": {}},
        {"status": "Download complete", "id": "a", "progressDetail": {}},
        {"status": "Extracting", "id": "a", "progressDetail": {"current": 90, "total": 99}},
        {"status": "Pull complete", "id": "a", "progressDetail": {}},
        {"aux": {"Tag": "t", "Digest": "sha256:1", "Size": 3}},
    ):
        moves.note(event)
    assert (moves.bytes, moves.moved, moves.there, moves.digest) == (10, {"a"}, {"b"}, "sha256:1")


def test_what_the_engine_tells_of_a_failure_is_the_error() -> None:
    with pytest.raises(PublishError, match="no space left on device"):
        Moves().note({"error": "x", "errorDetail": {"message": "write /layer: no space left on device"}})


@pytest.mark.parametrize(
    ("host", "tail"),
    [
        ("me@spark-1", ["-L", "/s:/var/run/docker.sock", "me@spark-1"]),
        ("spark-1", ["-L", "/s:/var/run/docker.sock", "spark-1"]),
        ("ssh://me@spark-1:2222", ["-p", "2222", "-L", "/s:/var/run/docker.sock", "me@spark-1"]),
        ("me@spark-1/run/user/1000/docker.sock", ["-L", "/s:/run/user/1000/docker.sock", "me@spark-1"]),
    ],
)
def test_how_a_node_is_written(host: str, tail: list[str]) -> None:
    found = SSH.fullmatch(host)
    assert found
    assert _argv(found, "/s")[-len(tail) :] == tail


@pytest.mark.parametrize("host", ["-oProxyCommand=x", "me@-x", "a b", ""])
def test_a_name_cannot_become_an_option_of_ssh(host: str) -> None:
    assert SSH.fullmatch(host) is None
