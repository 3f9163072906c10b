"""A pull to several machines of which one failed: the others are reported, and the hint names the port."""

from dataclasses import replace
from pathlib import Path

import pytest

from gb10.cli import main
from gb10.cli.ship.pull import document
from gb10.containers.images import ImageInfo
from gb10.containers.registry.transfer import Remote
from gb10.core.reporter import Reporter
from gb10.core.ssh import ssh_host
from gb10.errors import EngineError, Gb10Error, PublishError, UsageError
from gb10.image.context import open_context
from gb10.image.publish import pulling
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
