"""Publishing by zstd without an engine or a registry: what is decided from values."""

import json
import socket
from base64 import b64decode, b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from gb10.cli.common import zstd_level
from gb10.containers.connection import Endpoint, Engine
from gb10.containers.registry import access
from gb10.containers.registry.access import access_to, as_skopeo_reads, login_for
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


ENGINE = Engine(kind="user", endpoint=Endpoint(host="x", origin="x"), version="1", api="1", containerd=False)
ADDRESSES = {
    "here.example": ["127.0.0.1", "::1"],
    "both.example": ["127.0.0.1", "10.0.0.5"],
    "lan.example": ["10.0.0.5"],
}


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> None:
    """What names stand for; an unknown one is known to a proxy alone."""

    def getaddrinfo(host: str, _: object) -> list[tuple[object, ...]]:
        if host not in ADDRESSES:
            raise socket.gaierror
        return [(0, 0, 0, "", (address, 0)) for address in ADDRESSES[host]]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)


RULES = {
    "IndexConfigs": {"open.example": {"Secure": False}, "lan.example:5000": {"Secure": True}},
    "InsecureRegistryCIDRs": ["127.0.0.0/8", "10.0.0.0/24"],
}


@pytest.mark.usefixtures("names")
@pytest.mark.parametrize(
    ("reference", "rules", "tls", "alone"),
    [
        ("here.example:5000/a:1", RULES, False, False),
        ("here.example/a:1", {}, True, False),
        ("here.example/a:1", None, True, False),
        ("both.example/a:1", RULES, False, True),
        ("lan.example/a:1", RULES, False, True),
        ("lan.example:5000/a:1", RULES, True, True),  # named as secure, in a network that needs no TLS
        ("open.example/a:1", RULES, False, True),
        ("unknown.example/a@sha256:1", RULES, True, True),
        ("a/b", RULES, True, True),
    ],
)
def test_which_registry_needs_tls(  # noqa: PLR0917 - a row
    reference: str,
    rules: dict[str, object] | None,
    tls: bool,
    alone: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By the engine's own rules; without an engine all but this machine do."""

    @contextmanager
    def asking(_: Engine) -> Iterator[object]:
        yield SimpleNamespace(info=lambda: {"RegistryConfig": rules})

    monkeypatch.setattr(access, "asking", asking)
    env = {"DOCKER_CONFIG": str(tmp_path)}
    assert (login_for(ENGINE, env, reference).tls, login_for(None, env, reference).tls) == (tls, alone)


@pytest.mark.usefixtures("names")
def test_credentials_of_docker_go_to_a_file_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "_needs_tls", lambda *_: True)
    env = {"DOCKER_CONFIG": str(tmp_path)}
    auths = {
        "one.example": {"auth": b64encode(b"me:pass:word").decode()},
        "two.example": {"auth": b64encode(b"me:x").decode(), "identitytoken": "token"},
    }
    (tmp_path / "config.json").write_text(json.dumps({"auths": auths}), encoding="utf-8")
    one, two, none = (login_for(ENGINE, env, f"{name}.example/a:1") for name in ("one", "two", "none"))
    assert (one.user, one.password, one.identity) == ("me", "pass:word", "")
    assert (two.user, two.identity) == ("", "token")
    assert (none.user, none.password, none.identity) == ("", "", "")
    with access_to(ENGINE, env, "one.example/a:1") as found:
        path = Path(found.credentials)
        kept = json.loads(path.read_text(encoding="utf-8"))["auths"]
        assert b64decode(kept["one.example"]["auth"]) == b"me:pass:word"
        assert not path.resolve().exists(), "it lies on no disk"
    assert not path.exists()
