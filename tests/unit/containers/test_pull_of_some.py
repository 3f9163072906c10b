"""A pull to several machines of which one failed: the others are reported, and the hint names the port."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from gb10.cli import main
from gb10.cli.ship.pull import document
from gb10.containers.connection import Endpoint, Engine, EngineHost
from gb10.containers.docker_answers import EventAnswer
from gb10.containers.head.session import Node, Way
from gb10.containers.images import ImageInfo
from gb10.containers.registry.transfer import Moves, Remote
from gb10.core.files import digest
from gb10.core.reporter import Reporter
from gb10.core.ssh import ssh_host
from gb10.errors import EngineError, Gb10Error, PublishError, UsageError
from gb10.image.context import Context, open_context
from gb10.image.publish import pulling, via_head
from gb10.image.publish.pulling import Pull, Pulled, check_platform, on_nodes, platform_on
from gb10.image.publish.via_head import HeadPull, pull_via_head

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


def test_an_error_of_many_nodes_is_read_whole() -> None:
    other = PublishError("spark-3 has no room")
    with pytest.raises(PublishError) as caught:
        Pull(remote=REMOTE, nodes=(GOOD,), failed={"spark-2": AWAY, "spark-3": other, "spark-4": AWAY}).require_all()
    assert str(caught.value).splitlines() == [
        "error: 3 of 4 nodes do not have the image",
        "  spark-2: spark-2 cannot be reached (no route)",
        "  spark-3: spark-3 has no room",
        "  spark-4: spark-2 cannot be reached (no route)",
        "hint: look at the cable",
        "hint: run the command again: only missing layers travel",
    ]
    with pytest.raises(PublishError) as caught:
        nodes = (replace(GOOD, layers="a" * 64), replace(GOOD, host="spark-2", layers="b" * 64))
        Pull(remote=REMOTE, nodes=nodes, failed={}).require_all()
    assert str(caught.value).splitlines() == [
        "error: the nodes do not have the same image",
        f"  spark-1: sha256:bb, layers {'a' * 12}",
        f"  spark-2: sha256:bb, layers {'b' * 12}",
        "hint: remove it on those nodes, and pull it anew; run the command again: only missing layers travel",
    ]


def test_each_node_has_the_image_or_an_error_and_a_bug_is_raised() -> None:
    def work(host: str) -> Pulled:
        if host == "spark-2":
            raise AWAY
        return replace(GOOD, host=host)

    nodes: tuple[tuple[Pulled, ...], dict[str, Gb10Error]] = (
        (replace(GOOD, host="spark-3"), GOOD),
        {"spark-2": AWAY},
    )
    assert on_nodes(["spark-3", "spark-2", "spark-1"], work) == nodes
    with pytest.raises(ZeroDivisionError):
        on_nodes(["spark-1"], lambda host: replace(GOOD, bytes=1 // 0))


def test_an_image_for_another_machine_names_the_option_that_takes_it() -> None:
    assert [platform_on(machine) for machine in ("aarch64", "x86_64", "riscv64")] == [
        "linux/arm64", "linux/amd64", "linux/riscv64",
    ]  # fmt: skip
    check_platform("a:1", "spark-1", "linux/arm64", ("linux/amd64", "linux/arm64"))
    with pytest.raises(PublishError) as caught:
        check_platform("a:1", "spark-1", "linux/arm64", ("linux/amd64", "linux/riscv64"))
    assert str(caught.value).splitlines() == [
        "error: a:1 is for linux/amd64, linux/riscv64, spark-1 is linux/arm64",
        "hint: --platform linux/amd64 takes it all the same",
    ]


def image(name: str, created: str, *tags: str) -> ImageInfo:
    ident = f"sha256:{name * 64}"
    return ImageInfo(id=ident, size=1, diff_ids=(), platform="linux/arm64", tags=tags, created=f"{created}T01:02:03Z")


@pytest.mark.parametrize(
    ("before", "said"),
    [
        (image("a", "2026-11-28"), ""),
        (image("b", "2026-11-27"), ""),
        (image("b", "2026-11-29"), f"The newer one stays as sha256:{'b' * 12}"),
        (
            image("b", "2026-11-29", "a:1", "a:0.33.0-cu130-sm121f-0123456789ab", "b:0.33.0-cu130-sm121f-0123456789ab"),
            "stays as a:0.33.0-cu130-sm121f-0123456789ab, b:0.33.0-cu130-sm121f-0123456789ab",
        ),
    ],
)
def test_a_newer_image_of_the_name_is_told(before: ImageInfo, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    pulling._tell_newer(Reporter({}), "spark-1", before, image("a", "2026-11-28"))
    told = capsys.readouterr().err.strip()
    assert told.endswith(said)
    start = "spark-1: had a newer image under this name, of 2026-11-29; this one is of 2026-11-28. "
    assert told.startswith(start) if said else not told


def test_what_cannot_go_by_the_head_is_refused_before_a_docker_is_asked(tmp_path: Path) -> None:
    ctx = open_context({"GB10_CACHE_DIR": str(tmp_path), "HOME": str(tmp_path)}, verbosity=-1)
    wanted = HeadPull(reference="a:1", head="me@spark-1", hosts=("me@spark-1",))
    with pytest.raises(UsageError, match="--via-head needs a node"):
        pull_via_head(ctx, wanted)
    with pytest.raises(UsageError, match="--via-head needs a tag"):
        pull_via_head(ctx, replace(wanted, reference=f"a@sha256:{'0' * 64}"))
    with pytest.raises(UsageError, match="a socket is of this machine"):
        pull_via_head(ctx, replace(wanted, hosts=("unix:///a", "me@spark-2")))
    assert replace(wanted, hosts=("unix:///a",), head="localhost").nodes == ()


class Dockers:
    """Engines by machine, each with its images by name, and a registry that has one image, ``sha256:aa``."""

    def __init__(self) -> None:
        self.images: dict[str, dict[str, ImageInfo]] = {}
        self.machines: dict[str, str] = {}
        self.containerd: set[str] = set()
        self.away: set[str] = set()
        self.platforms: tuple[str, ...] = ("linux/arm64",)
        self.breaks: dict[str, Gb10Error] = {}
        self.held: dict[str, list[object]] = {}
        self.resolved: list[str] = []

    @contextmanager
    def engine_of(self, _: object, host: str) -> Iterator[Engine]:
        if host in self.away:
            raise EngineError(f"{host} cannot be reached", where=AWAY.where, hint=AWAY.hint)
        endpoint = Endpoint(host=host, origin="")
        yield Engine(kind="user", endpoint=endpoint, version="1", api="1", containerd=host in self.containerd)

    def of(self, engine: Engine) -> dict[str, ImageInfo]:
        return self.images.setdefault(engine.endpoint.host, {})

    def find(self, engine: Engine, name: str) -> ImageInfo | None:
        return self.of(engine).get(name)

    def tag(self, engine: Engine, name: str, tags: tuple[str, ...]) -> None:
        self.of(engine).update(dict.fromkeys(tags, self.of(engine)[name]))

    def resolve(self, engine: Engine, reference: str) -> Remote:
        self.resolved.append(f"{engine.endpoint.host} {reference}")
        return Remote(digest="sha256:aa", platforms=self.platforms)

    def pull(self, engine: Engine, name: str, platform: str, moves: Moves) -> None:
        moves.note(EventAnswer.model_validate({"status": "Pull complete", "id": "a"}))
        if error := self.breaks.get(engine.endpoint.host):
            raise error
        self.of(engine)[name] = replace(image("a", "2026-11-28"), platform=platform, diff_ids=("d1", "d2"))

    def holder(self, engine: Engine, digest: str, platform: str, layers: Sequence[str]) -> "Held":
        self.held[engine.endpoint.host] = [f"{digest} {platform} {' '.join(layers)}".strip()]
        return Held(engine, platform, self.held[engine.endpoint.host])


@dataclass
class Held:
    engine: Engine
    platform: str
    log: list[object]

    def hold(self, count: int) -> None:
        self.log.append(count)
        if self.engine.endpoint.host == "full":
            raise EngineError("x", where="no room")

    def drop(self) -> None:
        self.log.append("dropped")


@pytest.fixture
def dockers(monkeypatch: pytest.MonkeyPatch) -> Dockers:
    found = Dockers()
    for module in (pulling, via_head):
        monkeypatch.setattr(module, "engine_of", found.engine_of)
        monkeypatch.setattr(module, "find_image", found.find)
        monkeypatch.setattr(module, "require_image", lambda engine, name: found.of(engine)[name])
        monkeypatch.setattr(module, "tag_image", found.tag)
        monkeypatch.setattr(module, "holder", found.holder)
        monkeypatch.setattr(
            module, "platform_of", lambda engine: f"linux/{found.machines.get(engine.endpoint.host, 'arm64')}"
        )
    monkeypatch.setattr(pulling, "resolve", found.resolve)
    monkeypatch.setattr(pulling, "pull", found.pull)
    config = {"os": "linux", "architecture": "arm64", "rootfs": {"diff_ids": ["d1", "d2"]}}
    monkeypatch.setattr(pulling, "remote_config", lambda *_: config)
    monkeypatch.setattr("time.sleep", lambda _: None)
    return found


@pytest.fixture
def ctx(tmp_path: Path) -> Context:
    return open_context({"GB10_CACHE_DIR": str(tmp_path), "HOME": str(tmp_path)}, verbosity=0)


def test_a_tag_is_resolved_once_and_every_machine_gets_that_digest(dockers: Dockers, ctx: Context) -> None:
    dockers.away = {"one"}
    done = pulling.pull_from_each(ctx, "h.example/a", ("one", "two", "three"), None)
    assert dockers.resolved == ["two h.example/a:latest"]
    assert ([node.host for node in done.nodes], list(done.failed)) == (["two", "three"], ["one"])
    assert {node.layers for node in done.nodes} == {digest(["d1", "d2"])}
    assert all((node.there, node.moved, node.bytes) == (0, 1, 0) for node in done.nodes)
    for host in ("two", "three"):
        assert set(dockers.images[host]) == {"h.example/a@sha256:aa", "h.example/a:latest"}
        assert dockers.held[host] == ["sha256:aa linux/arm64 d1 d2", 1, "dropped"]
    named = f"h.example/a@sha256:{'a' * 64}"
    remote, nodes = pulling.pull_everywhere(ctx, named, (), None)
    assert (remote.platforms, [node.host for node in nodes]) == (("linux/arm64",), ["this machine"])
    assert set(dockers.images["this machine"]) == {"h.example/a@sha256:aa"}, "a digest is no name"
    dockers.away = {"one", "two"}
    with pytest.raises(EngineError, match="two cannot be reached"):
        pulling.pull_from_each(ctx, "h.example/a", ("one", "two"), None)
    with pytest.raises(PublishError, match="1 of 2 nodes"):
        pulling.pull_everywhere(ctx, "h.example/a", ("one", "three"), None)


def test_an_image_of_another_machine_is_taken_when_the_platform_is_named(dockers: Dockers, ctx: Context) -> None:
    dockers.machines = {"two": "amd64"}
    done = pulling.pull_from_each(ctx, "h.example/a:1", ("one", "two"), None)
    assert [node.host for node in done.nodes] == ["one"]
    assert "is for linux/arm64, two is linux/amd64" in done.failed["two"].message
    assert not pulling.pull_from_each(ctx, "h.example/a:1", ("one", "two"), "linux/arm64").failed
    dockers.platforms = ()  # the manifest of one image names none: its config does
    assert pulling.pull_from_each(ctx, "h.example/a:1", ("one",), None).remote.platforms == ("linux/arm64",)


def test_layers_are_held_only_where_the_engine_would_lose_them(
    dockers: Dockers, ctx: Context, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    dockers.containerd = {"c"}
    pulling.pull_from_each(ctx, "h.example/a:1", ("c", "classic", "full"), None)
    assert dockers.held["c"][0] == "sha256:aa linux/arm64"
    assert dockers.held["classic"][0] == "sha256:aa linux/arm64 d1 d2"
    assert "full: the layers that arrived cannot be held: no room" in capsys.readouterr().err
    pulling.pull_from_each(ctx, "h.example/a:1", ("classic",), None)
    assert dockers.held["classic"][:1] == ["sha256:aa linux/arm64"], "it has them all"

    def no_config(*_: object) -> None:
        raise EngineError("buildx is missing", where="PATH")

    monkeypatch.setattr(pulling, "remote_config", no_config)
    assert not pulling.pull_from_each(ctx, "h.example/a:1", ("another",), None).failed
    said = capsys.readouterr().err
    assert "another: should this pull break off, the next one begins anew: buildx is missing, PATH" in said


@pytest.mark.parametrize(
    ("error", "message", "dropped"),
    [
        (PublishError("write: no space left on device"), "the disk of a is full", True),
        (PublishError("denied: requested access"), "denied: requested access", False),
        (EngineError("x", where="broken pipe"), "its engine, or the way to it, broke off", False),
    ],
)
def test_what_a_pull_that_breaks_off_leaves(
    error: Gb10Error, message: str, dropped: bool, dockers: Dockers, ctx: Context
) -> None:
    dockers.breaks = {"a": error}
    done = pulling.pull_from_each(ctx, "h.example/a:1", ("a", "b"), None)
    assert ([node.host for node in done.nodes], done.failed["a"].message) == (["b"], message)
    assert ("dropped" in dockers.held["a"]) is dropped
    assert "h.example/a:1" not in dockers.images.get("a", {})


class Head:
    """The session of a head; ``takes`` are the images that containerd of a node with K3s took."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes, self.port, self.takes, self.ended = nodes, 7, list[tuple[str, ...]](), ""

    def way(self, node: Node) -> Way:
        return Way(engine=f"unix:///{node.host}.sock", port=9, machine="aarch64")

    def take(self, node: Node, *words: str) -> None:
        self.takes.append((node.host, *words))

    def done(self) -> str:
        self.ended = "done"
        return "blob unknown"


@pytest.fixture
def head(dockers: Dockers, monkeypatch: pytest.MonkeyPatch) -> list[Head]:
    """The sessions that were opened; the head has ``a:1``, and a registry has ``h.example/a:1``."""
    opened: list[Head] = []

    @contextmanager
    def session(_: object, __: object, ___: str, nodes: Sequence[Node]) -> Iterator[Head]:
        opened.append(Head(nodes))
        yield opened[-1]

    monkeypatch.setattr(via_head, "on_this_machine", session)
    monkeypatch.setattr(via_head, "on_host", session)
    monkeypatch.setattr(via_head, "patiently", lambda *_: Moves(digest="sha256:aa"))
    monkeypatch.setattr(via_head, "passing_tag", lambda _, tag: nullcontext(tag))
    monkeypatch.setattr(via_head, "drop_names", lambda *_: None)
    host = EngineHost(machine="aarch64", memory=1, ahead=0.0, runtimes=frozenset())
    monkeypatch.setattr(via_head, "engine_host", lambda _: host)

    def engine_at(name: str, _: str) -> Engine:
        with dockers.engine_of(None, name) as engine:
            return engine

    monkeypatch.setattr(via_head, "engine_at", engine_at)
    for name in ("me@head", "this machine"):
        own = replace(image("a", "2026-11-28"), diff_ids=("d1", "d2"))
        dockers.images[name] = {"a:1": own, own.id: own}
    return opened


@pytest.mark.parametrize("name", ["me@head", "localhost"])
def test_nodes_get_the_image_of_the_head_under_its_own_name(
    name: str, dockers: Dockers, head: list[Head], ctx: Context, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted = HeadPull(reference="a:1", head=name, hosts=("me@b", name, "me@c"))
    done = pull_via_head(ctx, wanted)
    assert ([node.host for node in done.nodes], dict(done.failed)) == (["me@b", "me@c"], {})
    assert dockers.images["me@b"]["a:1"].diff_ids == ("d1", "d2")
    assert dockers.held["me@c"][0] == "sha256:aa linux/arm64 d1 d2"
    assert "127.0.0.1:9/gb10-passing@sha256:aa" in dockers.images["me@c"]
    assert dockers.resolved == [], "the head has it"
    assert "but the head's cache grows: blob unknown" in capsys.readouterr().err
    dockers.away, dockers.containerd = {"me@b"}, {"me@c"}
    done = pull_via_head(ctx, wanted)
    assert ([node.host for node in done.nodes], list(done.failed)) == (["me@c"], ["me@b"])
    assert dockers.held["me@c"][:1] == ["sha256:aa linux/arm64"]
    assert (head[0].ended, head[1].ended) == ("done", ""), "what failed may need it again"
    dockers.machines = {"me@c": "amd64"}
    assert "is for linux/arm64, me@c is linux/amd64" in pull_via_head(ctx, wanted).failed["me@c"].message


def test_a_head_takes_from_a_registry_what_it_lacks_and_what_must_be_signed(
    dockers: Dockers, head: list[Head], ctx: Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pulling, "require_signer", lambda *_: "me@example.org")
    monkeypatch.setattr(pulling, "check_signers", lambda _: None)
    wanted = HeadPull(reference="h.example/a:1", head="me@head", hosts=("me@b",))
    assert pull_via_head(ctx, wanted).signer == ""
    assert dockers.resolved == ["me@head h.example/a:1"]
    assert pull_via_head(ctx, wanted).signer == ""
    assert len(dockers.resolved) == 1
    assert pull_via_head(ctx, replace(wanted, signers=tmp_path)).signer == "me@example.org"
    assert len(dockers.resolved) == 2
    with pytest.raises(UsageError, match="b:1 cannot be taken from a registry") as caught:
        pull_via_head(ctx, replace(wanted, reference="b:1"))
    assert "build it there" in (caught.value.hint or "")
    with pytest.raises(UsageError) as caught:
        pull_via_head(ctx, replace(wanted, reference="a:1", signers=tmp_path))
    assert caught.value.hint == "only an image of a registry is signed: publish it"


@pytest.mark.parametrize(
    ("reference", "name"),
    [("a:1", "docker.io/library/a:1"), ("me/a:1", "docker.io/me/a:1"), ("h.example/a:1", "h.example/a:1")],
)
def test_containerd_takes_an_image_by_its_whole_name(
    reference: str, name: str, dockers: Dockers, head: list[Head], ctx: Context
) -> None:
    own = dockers.images["me@head"]["a:1"]
    dockers.images["me@head"][reference] = own
    wanted = HeadPull(reference=reference, head="me@head", hosts=("me@b",), k3s=True)
    (node,) = pull_via_head(ctx, wanted).nodes
    assert head[0].takes == [("me@b", "linux/arm64", "127.0.0.1:9/gb10-passing@sha256:aa", name)]
    assert (node.id, node.layers, node.there, node.bytes) == ("sha256:aa", digest(["d1", "d2"]), None, None)
    dockers.images["me@head"][reference] = replace(own, platform="linux/amd64")
    failed = pull_via_head(ctx, wanted).failed
    assert "is for linux/amd64, me@b is linux/arm64" in failed["me@b"].message
    assert not pull_via_head(ctx, replace(wanted, platform="linux/amd64")).failed
    dockers.images["me@head"][reference] = replace(own, platform="linux; reboot")
    assert "is for no platform" in pull_via_head(ctx, wanted).failed["me@b"].message


def test_a_node_that_got_another_image_is_an_error(dockers: Dockers, head: list[Head], ctx: Context) -> None:
    dockers.images["me@head"]["a:1"] = replace(dockers.images["me@head"]["a:1"], diff_ids=("other",))
    failed = pull_via_head(ctx, HeadPull(reference="a:1", head="me@head", hosts=("me@b",))).failed
    assert failed["me@b"].message == "me@b has another image under a:1"
