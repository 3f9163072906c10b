"""Publishing and pulling without an engine: tags, references, and what an engine tells of a transfer."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gb10.containers.connection import Endpoint, Engine
from gb10.containers.docker_answers import EventAnswer
from gb10.containers.node import _argv, reached
from gb10.containers.reference import split_digest
from gb10.containers.registry import skopeo
from gb10.containers.registry.saving import Layout
from gb10.containers.registry.skopeo import Access, Skopeo
from gb10.containers.registry.transfer import Moves, hint_of, registry_error
from gb10.core.ssh import ssh_host
from gb10.errors import EngineError, PublishError, UsageError
from gb10.image.context import Context, open_context
from gb10.image.publish import pulling
from gb10.image.publish.publishing import names_in, own_tags
from gb10.image.publish.retries import PAUSES, patiently

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


def test_a_target_without_a_tag_gets_both() -> None:
    tags = ["gb10/vllm:0.33.0-cu130-sm121f", f"gb10/vllm:{KEY}"]
    both = (f"h:5000/a:{KEY}", "h:5000/a:0.33.0-cu130-sm121f")
    assert names_in(["h:5000/a", "o.example/b:mine"], tags[1], tags) == (*both, "o.example/b:mine")
    with pytest.raises(UsageError, match="none of its own"):
        names_in(["h:5000/a"], "gb10/vllm:mine", ["gb10/vllm:mine"])


def test_by_a_name_of_the_users_an_image_goes_out_under_its_own_tags() -> None:
    tags = ["mine:1", f"gb10/vllm:{KEY}", f"gb10/other:{KEY}"]
    assert names_in(["h:5000/a"], "mine:1", tags) == (f"h:5000/a:{KEY}",)


@pytest.mark.parametrize("target", ["127.0.0.1", "127.0.0.1:5000", "localhost", "localhost:5000", "spark-1:5000"])
def test_a_registry_without_a_repository_is_refused(target: str) -> None:
    with pytest.raises(UsageError, match="names a registry and no repository") as caught:
        names_in([target], "gb10/vllm:mine", [f"gb10/vllm:{KEY}"])
    assert (caught.value.hint or "").startswith(f"write {target}/NAME")


@pytest.mark.parametrize(
    ("reason", "hint"),
    [
        ("denied: requested access to the resource is denied", "docker login"),
        ("no basic auth credentials", "docker login"),
        ("Get https://h:1/v2/: dial tcp: lookup h: no such host", "name, port and network"),
        ("dial tcp 127.0.0.1:1: connect: connection refused", "name, port and network"),
        ("http: server gave HTTP response to HTTPS client", "insecure-registries"),
        ("tls: failed to verify certificate: x509: unknown authority", "certs.d"),
        ("manifest unknown", "the name and the tag"),
        ("Failed to resolve 'h' ([Errno -2] Name or service not known)", "name, port and network"),
        ("received unexpected HTTP status: 503 Service Unavailable", ""),
    ],
)
def test_a_hint_is_about_what_failed(reason: str, hint: str) -> None:
    assert hint in (hint_of(reason) or "")
    assert bool(hint) == bool(hint_of(reason))


@pytest.mark.parametrize(
    ("reference", "reason", "message"),
    [
        ("h.example/a:1", "dial tcp: lookup h.example: no such host", "cannot reach the registry h.example"),
        ("me/a:1", "lookup x: Temporary failure in name resolution", "cannot reach the registry docker.io"),
        ("h/a:1", "HTTPSConnectionPool: (Caused by NameResolutionError(x))", "cannot reach the registry docker.io"),
        ("h.example/a:1", "Failed to resolve 'h.example'", "cannot reach the registry h.example"),
        ("h.example/a:1", "[Errno -2] Name or service not known", "cannot reach the registry h.example"),
        (
            "h.example/a:1",
            'failed to resolve reference "h.example/a:1": not found',
            "the registry refused h.example/a:1",
        ),
        ("h:5000/a:1", "connect: connection refused", "cannot reach the registry h:5000"),
        ("h.example/a:1", "denied: requested access is denied", "the registry refused h.example/a:1"),
    ],
)
def test_a_registry_that_cannot_be_reached_did_not_refuse(reference: str, reason: str, message: str) -> None:
    assert registry_error(reference, reason).message == message


def test_a_pull_by_a_local_name_says_where_that_name_leads(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_: object, reference: str) -> None:
        raise registry_error(reference, "manifest unknown")

    monkeypatch.setattr(pulling, "resolve", missing)
    engine = Engine(kind="user", endpoint=Endpoint(host="x", origin="x"), version="1", api="1", containerd=False)
    with pytest.raises(PublishError) as local:
        pulling._found(engine, "gb10/vllm:a")
    assert "publish it first, then pull REGISTRY/gb10/vllm:a" in (local.value.hint or "")
    with pytest.raises(PublishError) as full:
        pulling._found(engine, "h.example/gb10/vllm:a")
    assert "publish it first" not in (full.value.hint or "")


def test_progress_counts_layers_since_their_sizes_come_late() -> None:
    notes: list[str] = []
    Moves(on_move=lambda *shown: notes.append(str(shown))).follow(
        [
            *({"status": "Preparing", "id": layer} for layer in "abc"),
            {"status": "Layer already exists", "id": "a"},
            {"status": "Pushing", "id": "b", "progressDetail": {"current": 5, "total": 10}},
            {"status": "Pushed", "id": "b"},
        ]
    )
    assert notes[-2:] == ["(5, 10, '1 of 3 layers')", "(10, 10, '2 of 3 layers')"]


def test_a_reference_by_digest() -> None:
    digest = f"sha256:{'0' * 64}"
    assert split_digest(f"h:5000/a/b@{digest}") == ("h:5000/a/b", digest)
    assert split_digest("h:5000/a/b:tag") == ("h:5000/a/b:tag", None)
    with pytest.raises(UsageError, match="is no digest"):
        split_digest("a@sha256:12")


def test_bytes_are_those_that_travelled() -> None:
    moves = Moves()
    for event in (
        {"status": "Downloading", "id": "a", "progressDetail": {"total": 10}},
        {"status": "Downloading", "id": "a", "progressDetail": {"current": 5, "total": 10}},
        {"status": "Already exists", "id": "b", "progressDetail": {}},
        {"status": "Download complete", "id": "a", "progressDetail": {}},
        {"status": "Extracting", "id": "a", "progressDetail": {"current": 90, "total": 99}},
        {"status": "Pull complete", "id": "a", "progressDetail": {}},
        {"aux": {"Tag": "t", "Digest": "sha256:1", "Size": 3}},
    ):
        moves.note(EventAnswer.model_validate(event))
    assert (moves.bytes, moves.moved, moves.present, moves.digest) == (10, {"a"}, {"b"}, "sha256:1")


def test_a_pause_of_the_engines_is_told_once() -> None:
    said: list[str] = []
    moves = Moves(on_pause=said.append)
    for pause in (5, 10):
        for seconds in range(pause, 0, -1):
            moves.note(
                EventAnswer.model_validate({"status": f"Retrying in {seconds} second{'s' * (seconds != 1)}", "id": "a"})
            )
    assert said == [f"layer a broke off: Docker tries it again in {pause} s" for pause in (5, 10)]
    assert moves.retried == {"a"}
    moves.note(EventAnswer.model_validate({"status": "Pushed", "id": "a"}))
    assert not moves.retried


def test_layers_are_whole_from_the_lowest_on() -> None:
    told: list[int] = []
    moves = Moves(on_whole=told.append)
    for layer, status in (("a", "Already exists"), ("c", "Download complete"), ("b", "Pull complete")):
        moves.note(EventAnswer.model_validate({"status": status, "id": layer}))
    assert told == [1, 2]


@pytest.fixture
def ctx(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Context:
    monkeypatch.setattr(time, "sleep", lambda _: None)
    return open_context({"GB10_CACHE_DIR": str(tmp_path)}, verbosity=0)


@pytest.mark.parametrize(
    ("words", "before", "tries"),
    [
        ("received unexpected HTTP status: 503 Service Unavailable", "Pushing", 1 + len(PAUSES)),
        ("received unexpected HTTP status: 503 Service Unavailable", "Retrying in 5 seconds", 1),  # by the engine
        ("denied: requested access to the resource is denied", "Pushing", 1),
        ("write /layer: no space left on device", "Pushing", 1),
    ],
)
def test_only_what_may_mend_itself_is_tried_again(ctx: Context, words: str, before: str, tries: int) -> None:
    tried = 0

    def transfer(moves: Moves) -> None:
        nonlocal tried
        tried += 1
        moves.follow([{"status": before, "id": "a"}, {"error": words}])

    with ctx.reporter.task("h/a:b") as task, pytest.raises(PublishError, match=words[:8]):
        patiently(ctx.reporter, task, transfer)
    assert tried == tries


@pytest.mark.parametrize(("script", "words", "tries"), [("sleep 60", "nothing for", 1), ("exit 7", "exited with 7", 3)])
def test_a_stall_is_not_tried_again(
    ctx: Context, monkeypatch: pytest.MonkeyPatch, script: str, words: str, tries: int
) -> None:
    for name in ("PATIENCE", "ANSWER"):
        monkeypatch.setattr(skopeo, name, 0.3)
    program = Skopeo(command=("sh", "-c", script), env={})
    access, layout = Access(credentials="/none", tls=True), Layout(path=ctx.store.root, sizes={})
    transfers: list[Callable[[Moves], object]] = [
        lambda moves: program.copy(layout, "h/a", access, 3, moves),
        lambda _: program.manifest("h/a", access),
    ]
    for transfer in transfers:
        tried: list[Moves] = []

        def counted(moves: Moves, transfer: Callable[[Moves], object] = transfer, tried: list[Moves] = tried) -> None:
            tried.append(moves)
            transfer(moves)

        with ctx.reporter.task("h/a") as task, pytest.raises(PublishError, match=words):
            patiently(ctx.reporter, task, counted)
        assert len(tried) == tries


def test_what_the_engine_tells_of_a_failure_is_the_error() -> None:
    with pytest.raises(PublishError, match="no space left on device"):
        Moves().follow([{"error": "x", "errorDetail": {"message": "write /layer: no space left on device"}}])


@pytest.mark.parametrize(
    ("host", "tail"),
    [
        ("me@spark-1", ["-L", "/s:/var/run/docker.sock", "me@spark-1"]),
        ("spark-1", ["-L", "/s:/var/run/docker.sock", "spark-1"]),
        ("ssh://me@spark-1:2222", ["-L", "/s:/var/run/docker.sock", "me@spark-1"]),
        ("me@spark-1/run/user/1000/docker.sock", ["-L", "/s:/run/user/1000/docker.sock", "me@spark-1"]),
    ],
)
def test_how_a_node_is_written(host: str, tail: list[str]) -> None:
    found = ssh_host(host)
    assert found
    argv = _argv(found, Path("/s"))
    assert argv[-len(tail) :] == tail
    assert ("2222" in argv) == (":2222" in host)


@pytest.mark.parametrize("host", ["-oProxyCommand=x", "me@-x", "a b", ""])
def test_a_name_cannot_become_an_option_of_ssh(host: str) -> None:
    assert ssh_host(host) is None


def test_a_machine_without_ssh_is_one_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EngineError, match="spark-1 cannot be reached: ssh does not start"), reached("spark-1"):
        pass
