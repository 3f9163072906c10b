"""Publishing and pulling for real: a registry, two engines as two nodes, one of them behind sshd."""

import json
import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from gb10.engine.connection import Engine, client
from gb10.engine.find import find
from gb10.engine.images import require_image, tag_image
from gb10.errors import EngineError, PublishError, UsageError
from gb10.pipeline.image import Verified, build_image
from gb10.pipeline.publishing import Published, publish
from gb10.pipeline.pulling import pull_everywhere
from gb10.pipeline.workshop import Workshop
from tests.integration.nodes import Registry, another_engine, build_py, registry, ssh_server
from tests.integration.test_pipeline import shop as shop  # noqa: PLC0414 - a fixture
from tests.integration.test_pipeline import small_plan

pytestmark = pytest.mark.integration

ARM = "linux/arm64"


@pytest.fixture(scope="module")
def place(shop: Workshop, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    with registry(shop.store, tmp_path_factory.mktemp("registry")) as found:
        yield found


@pytest.fixture(scope="module")
def image(shop: Workshop) -> Verified:
    return build_image(shop, small_plan(shop), rebuild=(), tag=None)


@pytest.fixture(scope="module")
def published(shop: Workshop, place: Registry, image: Verified) -> tuple[Published, ...]:
    return publish(shop, image.tags[-1], [f"{place.host}/gb10/test"])


@pytest.fixture(scope="module")
def nodes(shop: Workshop, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Engine, Engine]]:
    one, two = tmp_path_factory.mktemp("one"), tmp_path_factory.mktemp("two")
    with another_engine(shop.store, one) as first, another_engine(shop.store, two) as second:
        yield first, second


@pytest.fixture(scope="module")
def hosts(
    shop: Workshop, nodes: tuple[Engine, Engine], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[str]]:
    """The first node by its socket, the second through sshd."""
    socket = nodes[1].endpoint.host.removeprefix("unix://")
    with (
        ssh_server(shop.store, tmp_path_factory.mktemp("ssh")) as (port, clients),
        pytest.MonkeyPatch.context() as path,
    ):
        path.setenv("PATH", f"{clients}:{os.environ['PATH']}")
        yield [nodes[0].endpoint.host, f"ssh://root@127.0.0.1:{port}{socket}"]


def test_the_tag_that_never_moves_goes_first(published: tuple[Published, ...], image: Verified) -> None:
    tags = [one.reference.rpartition(":")[2] for one in published]
    assert tags == [tag.rpartition(":")[2] for tag in (image.tags[-1], image.tags[0])]
    first, second = published
    assert (first.digest, first.config) == (second.digest, image.digest)
    assert first.moved + first.there == image.layers
    assert (second.moved, second.bytes) == (0, 0)


def test_what_was_not_proven_is_not_published(shop: Workshop, place: Registry, image: Verified) -> None:
    engine = find(shop.env, shop.store)
    with closing(client(engine)) as sdk:
        container = sdk.containers.create(image.tags[-1], command="-", platform=ARM)
        try:
            container.commit("gb10/test", "changed")
        finally:
            container.remove()
    place.forget()
    with pytest.raises(PublishError, match="was not proven here"):
        publish(shop, "gb10/test:changed", [f"{place.host}/gb10/test:changed"])
    assert not place.received("PUT", "")
    with pytest.raises(UsageError, match="has no image"):
        publish(shop, "gb10/test:none", [f"{place.host}/gb10/test"])


def test_two_nodes_have_the_image_and_it_is_the_same(
    shop: Workshop, nodes: tuple[Engine, Engine], hosts: list[str], published: tuple[Published, ...], image: Verified
) -> None:
    reference = published[-1].reference
    remote, done = pull_everywhere(shop, reference, hosts, ARM)
    assert remote.digest == published[-1].digest
    assert [node.id for node in done] == [image.digest] * 2
    assert all(node.moved == image.layers for node in done)
    assert all(require_image(node, reference).id == image.digest for node in nodes)
    _, again = pull_everywhere(shop, reference, hosts, ARM)
    assert [(node.moved, node.bytes) for node in again] == [(0, 0)] * 2


def test_one_changed_file_moves_kilobytes(
    shop: Workshop, place: Registry, hosts: list[str], published: tuple[Published, ...], tmp_path: Path
) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/motd.gb10").write_text("changed\n", encoding="utf-8")
    changed = build_image(shop, small_plan(shop, overlay=tmp_path), rebuild=(), tag=None)
    place.forget()
    (sent,) = publish(shop, changed.tags[-1], [f"{place.host}/gb10/test:one-file"])
    assert sent.there >= changed.layers - 3
    assert sent.bytes < 100_000
    _, done = pull_everywhere(shop, sent.reference, hosts, ARM)
    assert all(node.bytes < 100_000 and node.id == changed.digest for node in done)
    blobs = [int(line.split('" 200 ')[1].split()[0]) for line in place.received("GET", "/blobs/") if '" 200 ' in line]
    assert blobs
    assert sum(blobs) < 400_000  # by the registry's own count, for both nodes


def test_a_node_of_another_machine_is_told_before_anything_travels(
    shop: Workshop, hosts: list[str], published: tuple[Published, ...]
) -> None:
    with pytest.raises(PublishError) as caught:
        pull_everywhere(shop, published[0].reference, hosts[:1], None)
    assert f"is for {ARM}" in str(caught.value)
    assert f"--platform {ARM}" in str(caught.value)


def test_a_node_that_is_not_there_is_named_and_the_other_has_the_image(
    shop: Workshop, hosts: list[str], published: tuple[Published, ...], tmp_path: Path
) -> None:
    with pytest.raises(PublishError) as caught:
        pull_everywhere(shop, published[0].reference, [hosts[0], f"unix://{tmp_path}/none.sock"], ARM)
    assert "1 of 2 nodes do not have the image" in str(caught.value)
    assert f"{tmp_path}/none.sock" in str(caught.value)


def test_ssh_that_asks_a_question_is_an_error_with_the_way_out(shop: Workshop, hosts: list[str]) -> None:
    nobody = hosts[1].replace("root@", "nobody@")
    with pytest.raises(EngineError, match="cannot be reached") as caught:
        pull_everywhere(shop, "127.0.0.1:1/gb10/test:none", [nobody], ARM)
    assert "Permission denied" in (caught.value.where or "")
    assert "ssh-copy-id nobody@127.0.0.1" in (caught.value.hint or "")


def test_a_reference_that_the_registry_has_not_is_told(shop: Workshop, place: Registry, hosts: list[str]) -> None:
    with pytest.raises(PublishError, match="the registry refused"):
        pull_everywhere(shop, f"{place.host}/gb10/test:none", hosts[:1], ARM)


def test_by_digest_and_as_json(shop: Workshop, hosts: list[str], published: tuple[Published, ...]) -> None:
    name = f"{published[0].reference.rpartition(':')[0]}@{published[0].digest}"
    arguments = ("pull", name, "--host", hosts[0], "--host", hosts[1], "--platform", ARM, "--json", "--quiet")
    document = json.loads(build_py(*arguments, env=dict(os.environ)))
    assert (document["schema"], document["digest"]) == ("gb10/pull/v1", published[0].digest)
    assert [node["host"] for node in document["nodes"]] == hosts


def test_a_tag_of_another_image_is_pushed_under_its_own_name(shop: Workshop, place: Registry, image: Verified) -> None:
    tag_image(find(shop.env, shop.store), image.tags[-1], ("gb10/test:mine",))
    (sent,) = publish(shop, "gb10/test:mine", [f"{place.host}/other/name:mine"])
    assert sent.reference == f"{place.host}/other/name:mine"
    assert sent.config == image.digest
