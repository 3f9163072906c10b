"""Builders of the user's: what buildx says of one, how a build is led to it, what is another place's."""

from typing import Literal

import pytest

from gb10.cli.common import building, command_context
from gb10.containers.buildx.build import image_output, lent_network
from gb10.containers.buildx.build_cache import Direction, check_cache
from gb10.containers.buildx.commands import read_builder
from gb10.containers.connection import Endpoint, Engine
from gb10.errors import UsageError
from gb10.image.build.kept_by_engine import engine_folder

INSPECTED = """\
Name:          big
Driver:        kubernetes

Nodes:
Name:                  big0
Driver Options:        replicas="2"
Status:                running
Platforms:             linux/amd64*, linux/amd64/v2, linux/386
Name:                  big1
Platforms:             linux/arm64
Labels:
 org.mobyproject.buildkit.worker.executor: oci
"""


def engine(builder: str | None, *, containerd: bool = False, kind: Literal["user", "embedded"] = "embedded") -> Engine:
    return Engine(
        kind=kind,
        endpoint=Endpoint(host="unix:///x", origin=kind),
        version="26",
        api="1.45",
        containerd=containerd,
        builder=builder,
    )


def test_every_node_of_a_builder_counts() -> None:
    found = read_builder(INSPECTED)
    assert found.driver == "kubernetes"
    assert found.platforms == {"linux/amd64", "linux/amd64/v2", "linux/386", "linux/arm64"}
    assert read_builder("Name: x\n").platforms == frozenset()


def test_an_image_comes_back_from_a_builder_and_stays_with_an_engine() -> None:
    assert image_output(engine("big")) == image_output(engine("big", containerd=True))
    assert image_output(engine("big")).startswith("type=docker,")
    assert image_output(engine(None)) == "type=image"
    assert image_output(engine(None, containerd=True)) == "type=image,compression=uncompressed"


def test_only_the_embedded_engine_itself_lends_the_hosts_network() -> None:
    assert [lent_network(engine(name)) for name in (None, "big")] == ["host", "default"]
    assert lent_network(engine(None, kind="user")) == "default"


def test_what_a_builder_keeps_is_marked_as_its() -> None:
    assert engine_folder(engine("big")) == "built/builder-big"


@pytest.mark.parametrize("name", ["", "-x", "a b", "../a", "a/b"])
def test_what_is_no_name_of_a_builder_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="not a builder name"):
        building(command_context(), name)


@pytest.mark.parametrize(
    ("direction", "text"),
    [
        ("from", "type=registry,ref=r.example:5000/cache"),
        ("to", "type=registry,ref=r.example/cache,mode=max,compression=zstd"),
        ("from", 'type=local,"src=/a,b"'),
        ("to", "type=local,dest=cache"),
        ("to", "type=gha"),
    ],
)
def test_a_cache_goes_to_buildx_as_it_is_given(direction: Direction, text: str) -> None:
    assert check_cache(direction, text) == text


@pytest.mark.parametrize(
    ("direction", "text", "message"),
    [
        ("to", "", "no type of cache that can be used in nothing"),
        ("from", "r.example/cache", "no type of cache"),
        ("to", "type=inline", "no type of cache that can be used in type=inline"),
        ("from", "type=registry", "type=registry needs ref=…"),
        ("to", "type=local,src=x", "type=local needs dest=…"),
        ("from", "type=disk,src=x", "no type of cache"),
        ("from", 'type=registry,"ref=a', "no list of name=value"),
    ],
)
def test_another_cache_is_refused(direction: Direction, text: str, message: str) -> None:
    with pytest.raises(UsageError, match=f"--cache-{direction}") as caught:
        check_cache(direction, text)
    assert message in str(caught.value)


def test_keys_of_an_account_are_not_repeated() -> None:
    with pytest.raises(UsageError) as caught:
        check_cache("to", "type=s3,secret_access_key=hush")
    assert "hush" not in str(caught.value)
