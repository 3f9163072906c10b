"""A server that accepts and sends nothing, met by the real uv, skopeo and buildx: each ends with one clear error."""

import hashlib
import io
import json
import os
import socket
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gb10.containers.buildx.build import BuildRequest, build
from gb10.containers.buildx.commands import open_buildx
from gb10.containers.reach import connect_or_start
from gb10.containers.registry import holding, skopeo
from gb10.containers.registry.saving import Layout
from gb10.containers.registry.skopeo import Access, open_skopeo
from gb10.containers.registry.transfer import Moves
from gb10.core.store import Store, open_store
from gb10.errors import BuildError, EngineError, FetchError, PublishError
from gb10.image.context import build_architecture
from gb10.image.lock.lockfile import load_recipe
from gb10.image.lock.resolver import Resolver, platform_of
from tests.integration.nodes import registry
from tests.integration.proxy import Fault, bad_line
from tests.recipes import small_recipe

pytestmark = pytest.mark.integration

OCI = "application/vnd.oci.image"
SIZE = 8_000_000  # bytes
SOON = 3.0  # seconds


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of a server that sends nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture(scope="module")
def store() -> Store:
    return open_store(os.environ)


@pytest.fixture
def access(tmp_path: Path) -> Access:
    (tmp_path / "auth.json").write_text("{}", encoding="ascii")
    return Access(credentials=str(tmp_path / "auth.json"), tls=False)


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short patience."""
    monkeypatch.setattr("gb10.containers.buildx.build.PATIENCE", SOON)
    monkeypatch.setattr(skopeo, "PATIENCE", SOON)
    monkeypatch.setattr(skopeo, "ANSWER", SOON)
    monkeypatch.setattr(holding, "PATIENCE", SOON)


@pytest.mark.slow
def test_uv(store: Store, silent: str, tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(small_recipe("", requirements="[idna]"), encoding="utf-8")
    env = {**os.environ, "UV_HTTP_TIMEOUT": "1"}
    resolver = Resolver(store, env, f"http://me:kw7@vq2x@{silent}/simple", load_recipe(tmp_path / "small.yaml"))
    with pytest.raises(FetchError, match="a package index stopped sending") as caught:
        resolver.resolve(("idna",), platform_of("trixie", "3.13", "arm64"), {})
    assert f"http://{silent}/simple/idna/" in str(caught.value)
    assert "vq2x" not in str(caught.value)


def layout(folder: Path) -> Layout:
    """An image of one layer that does not compress, as skopeo reads it."""
    (folder / "blobs/sha256").mkdir(parents=True)

    def put(content: bytes, kind: str) -> dict[str, object]:
        digest = hashlib.sha256(content).hexdigest()
        (folder / "blobs/sha256" / digest).write_bytes(content)
        return {"mediaType": f"{OCI}.{kind}", "digest": f"sha256:{digest}", "size": len(content)}

    tar = io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w") as archive:
        info = tarfile.TarInfo("a")
        info.size = SIZE
        archive.addfile(info, io.BytesIO(os.urandom(SIZE)))
    layer = put(tar.getvalue(), "layer.v1.tar")
    rootfs = {"type": "layers", "diff_ids": [layer["digest"]]}
    config = put(json.dumps({"architecture": "arm64", "os": "linux", "rootfs": rootfs}).encode(), "config.v1+json")
    manifest = {"schemaVersion": 2, "mediaType": f"{OCI}.manifest.v1+json", "config": config, "layers": [layer]}
    entry = put(json.dumps(manifest).encode(), "manifest.v1+json")
    (folder / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [entry]}), encoding="ascii")
    (folder / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}', encoding="ascii")
    return Layout(path=folder, sizes={str(layer["digest"]): SIZE})


@pytest.mark.slow
def test_skopeo_whose_push_stands_still(store: Store, access: Access, tmp_path: Path) -> None:
    program, image = open_skopeo(store, os.environ), layout(tmp_path / "layout")
    with registry(store, tmp_path) as place, bad_line(place.host) as line:
        with line.bad(Fault(request="PATCH|PUT /v2/.*blobs", does="stall", after=1_000_000, times=9)) as fault:
            with pytest.raises(PublishError, match="the registry moved nothing for 3 s"):
                program.copy(image, f"{line.host}/stall:1", access, 3, Moves())
            assert fault.met
        program.copy(image, f"{line.host}/stall:1", access, 3, Moves())
        assert "layer.v1.tar+zstd" in program.manifest(f"{line.host}/stall:1", access)


@pytest.mark.slow
def test_skopeo_that_gets_no_answer(store: Store, silent: str, access: Access) -> None:
    with pytest.raises(PublishError, match="the registry moved nothing for 3 s") as caught:
        open_skopeo(store, os.environ).manifest(f"{silent}/a:1", access)
    assert "check the network" in (caught.value.hint or "")


def test_a_config_in_a_registry(store: Store, silent: str) -> None:
    connect_or_start(os.environ, store)  # its programs are there after it
    with pytest.raises(EngineError, match=f"cannot ask for the config of {silent}/a:1") as caught:
        holding.remote_config(store, os.environ, f"{silent}/a:1")
    assert "no sign of life for 3 s" in str(caught.value)


def test_a_pull_in_a_build(store: Store, silent: str, tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text(f"FROM {silent}/a:1 AS final\n", encoding="utf-8")
    buildx = open_buildx(connect_or_start(os.environ, store), os.environ, store)
    request = BuildRequest(dockerfile=tmp_path / "Dockerfile", target="final", platform=f"linux/{build_architecture()}")
    with pytest.raises(BuildError, match="a registry sent nothing for 3 s: the build of final was ended") as caught:
        build(buildx, request, log=tmp_path / "log")
    assert f"load metadata for {silent}/a:1" in str(caught.value)
    assert "log:" in str(caught.value)
