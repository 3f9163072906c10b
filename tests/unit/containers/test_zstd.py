"""Publishing by zstd without an engine or a registry: what is decided from values."""

import json
from base64 import b64decode
from pathlib import Path

import pytest

from gb10.cli.common import zstd_level
from gb10.containers.connection import Endpoint, Engine
from gb10.containers.registry.access import as_skopeo_reads
from gb10.containers.registry.referrers import digest_of
from gb10.containers.registry.saving import as_oci, check_disk_space
from gb10.containers.registry.transfer import Moves
from gb10.errors import PublishError, UsageError
from gb10.image.publish.compressing import arrived, manifest_mismatch

CONFIG, OTHER = (f"sha256:{digit * 64}" for digit in "01")


def manifest(config: str = CONFIG, *kinds: str) -> str:
    layers = [
        {"mediaType": f"application/vnd.oci.image.layer.v1.{kind}", "digest": f"sha256:{number}", "size": 10}
        for number, kind in enumerate(kinds)
    ]
    return json.dumps({"config": {"digest": config}, "layers": layers})


@pytest.mark.parametrize(("text", "level"), [(None, None), ("zstd", 3), ("zstd:1", 1), ("zstd:20", 20)])
def test_a_level(text: str | None, level: int | None) -> None:
    assert zstd_level(text) == level


@pytest.mark.parametrize("text", ["", "gzip", "zstd:", "zstd:0", "zstd:21", "zstd:03", "zstd:3 "])
def test_what_is_no_compression_is_told(text: str) -> None:
    with pytest.raises(UsageError, match="unknown compression"):
        zstd_level(text)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        (manifest(CONFIG, "tar+zstd", "tar+zstd"), ""),
        (manifest(OTHER, "tar+zstd", "tar+zstd"), f"its config is {OTHER}, not {CONFIG}"),
        (manifest(CONFIG, "tar+zstd"), "it has 1 layers, not 2"),
        (manifest(CONFIG, "tar+zstd", "tar+gzip"), "it has layers of application/vnd.oci.image.layer.v1.tar+gzip"),
        ('{"manifests": []}', f"its config is none, not {CONFIG}"),
    ],
)
def test_what_keeps_a_manifest_from_being_the_images(text: str, wrong: str) -> None:
    assert manifest_mismatch(text, CONFIG, 2) == wrong


@pytest.mark.parametrize(
    ("dockers", "oci"), [("rootfs.diff.tar", "tar"), ("rootfs.diff.tar.gzip", "tar+gzip"), ("", "tar+zstd")]
)
def test_a_manifest_of_dockers_is_told_in_ocis_words(dockers: str, oci: str) -> None:
    kind = f"application/vnd.oci.image.layer.v1.{oci}"
    layer = {"mediaType": f"application/vnd.docker.image.{dockers}" if dockers else kind, "digest": OTHER, "size": 1}
    config = {"mediaType": "application/vnd.docker.container.image.v1+json", "digest": CONFIG, "size": 2}
    told = as_oci({"config": config, "layers": [layer]})
    assert told["layers"] == [{**layer, "mediaType": kind}]
    assert told["config"] == {**config, "mediaType": "application/vnd.oci.image.config.v1+json"}


def test_the_config_counts_as_no_layer_that_travelled() -> None:
    text = manifest(CONFIG, "tar+zstd", "tar+zstd")
    moves = arrived(text, Moves(moved={"sha256:1", CONFIG}))
    assert (moves.moved, moves.present, moves.bytes, moves.digest) == ({"sha256:1"}, {"sha256:0"}, 10, digest_of(text))


@pytest.mark.parametrize(
    ("found", "pair", "token"),
    [
        ({"Username": "me", "Password": "a:b"}, b"me:a:b", None),  # of a credential helper
        ({"username": "me", "password": "a:b"}, b"me:a:b", None),  # of config.json
        ({"IdentityToken": "t"}, b"<token>:", "t"),
    ],
)
def test_credentials_are_handed_on_as_skopeo_reads_them(found: dict[str, str], pair: bytes, token: str | None) -> None:
    entry = as_skopeo_reads(found)
    assert (b64decode(entry["auth"]), entry.get("identitytoken")) == (pair, token)


def test_a_disk_without_room_is_told_before_anything_is_saved(tmp_path: Path) -> None:
    endpoint = Endpoint(host="unix:///s", origin="embedded")
    engine = Engine(kind="embedded", endpoint=endpoint, version="26", api="1.45", containerd=False, data=tmp_path)
    check_disk_space(engine, tmp_path, 1)
    with pytest.raises(PublishError, match="too little room") as caught:
        check_disk_space(engine, tmp_path, 10**15)
    assert f"{tmp_path}: 2100000.0 GB needed" in (caught.value.where or "")  # the engine's own copy is there, too
