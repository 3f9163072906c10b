"""Publishing by zstd for real: a registry, one that asks for a password, and two classic engines that pull."""

import json
import os
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from gb10.cli import main
from gb10.containers.connection import Engine, client
from gb10.containers.images import require_image, tag_image
from gb10.containers.reach import connect_or_start
from gb10.containers.registry.saving import Layout, save_layout
from gb10.containers.registry.skopeo import Access, Skopeo, open_skopeo
from gb10.containers.registry.transfer import LOGIN, Moves, push
from gb10.core.proc import capture
from gb10.errors import PublishError
from gb10.image.context import Context
from gb10.image.proof.scans import Record
from gb10.image.publish import compressing, publishing, retries
from gb10.image.publish.publishing import publish
from gb10.image.publish.pulling import pull_everywhere
from tests.integration.nodes import PASSWORD, USERS, Registry, another_engine, free_port, random_image, registry
from tests.integration.own_store import spoil
from tests.integration.proxy import Fault, bad_line
from tests.integration.test_pipeline import ctx as ctx  # noqa: PLC0414 - a fixture

pytestmark = pytest.mark.integration

ARM = "linux/arm64"
LAYERS = (4_000_000,) * 3  # bytes
ZSTD = "application/vnd.oci.image.layer.v1.tar+zstd"
MOVING = "0.1-cu130-sm121f"
KEYED = f"{MOVING}-0123456789ab"
IMAGE = f"gb10/zstd:{KEYED}"
HELPER = f"""\
#!/bin/sh
read registry
echo '{{"ServerURL": "'$registry'", "Username": "me", "Secret": "{PASSWORD}"}}'
"""


@pytest.fixture(scope="module")
def engine(ctx: Context) -> Engine:
    return connect_or_start(ctx.env, ctx.store)


@pytest.fixture(scope="module")
def image(engine: Engine) -> Iterator[str]:
    """The id of an image with tags as `image` gives them."""
    random_image(engine, IMAGE, *LAYERS, seed=int.from_bytes(os.urandom(4)))
    tag_image(engine, IMAGE, (f"gb10/zstd:{MOVING}",))
    found = require_image(engine, IMAGE).id
    yield found
    with closing(client(engine)) as sdk:
        sdk.images.remove(found, force=True)


@pytest.fixture(autouse=True)
def taken_as_proven(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publishing, "proven", lambda ctx, image_id: Record(id=image_id, config=image_id, layers=()))


def saved(ctx: Context) -> list[Path]:
    """What is left of images that this process saved."""
    return list((ctx.store.root / "tmp").glob(f"layout-{os.getpid()}-*"))


def test_layers_are_zstd_the_image_is_the_same_and_travels_once(
    ctx: Context, place: Registry, image: str, capsys: pytest.CaptureFixture[str]
) -> None:
    other = Path("/var/lib/containers").exists()
    arguments = ["publish", IMAGE, f"{place.host}/zstd/one", "--compression", "zstd", "--no-attest", "--json"]
    (gzip,) = publish(ctx, IMAGE, [f"{place.host}/zstd/one:gzip"], attest=False)
    assert main(arguments) == 0
    first, second = json.loads(capsys.readouterr().out)["published"]
    assert [one["reference"].rpartition(":")[2] for one in (first, second)] == [KEYED, MOVING]
    assert (first["digest"], first["config"], first["moved"]) == (second["digest"], image, len(LAYERS))
    assert gzip.config == image
    assert gzip.digest != first["digest"]
    assert (second["moved"], second["there"], second["bytes"]) == (0, len(LAYERS), 0)
    manifest = place.manifest("zstd/one", MOVING)
    assert manifest["config"]["digest"] == image
    assert [layer["mediaType"] for layer in manifest["layers"]] == [ZSTD] * len(LAYERS)
    assert first["bytes"] == sum(layer["size"] for layer in manifest["layers"])
    place.forget()
    assert main(arguments) == 0
    assert [one["there"] for one in json.loads(capsys.readouterr().out)["published"]] == [len(LAYERS)] * 2
    assert not any(place.received(method, "") for method in ("POST", "PATCH", "PUT"))
    (sibling,) = publish(ctx, IMAGE, [f"{place.host}/zstd/sibling:1"], 3, attest=False)
    assert (sibling.config, sibling.there, sibling.moved) == (image, len(LAYERS), 0)
    assert len(place.received("POST", "from=zstd%2Fone")) == len(LAYERS)
    assert len(place.received("PATCH", "")) == 1  # the config, of some hundred bytes
    assert not saved(ctx)
    assert Path("/var/lib/containers").exists() == other


@pytest.mark.slow
def test_two_classic_engines_pull_it_and_have_the_same_image(
    ctx: Context, place: Registry, engine: Engine, tmp_path: Path
) -> None:
    random_image(engine, "gb10/zstd:pulled", *LAYERS, seed=int.from_bytes(os.urandom(4)))
    image = require_image(engine, "gb10/zstd:pulled").id
    (sent,) = publish(ctx, "gb10/zstd:pulled", [f"{place.host}/zstd/pulled:1"], 1, attest=False)
    with closing(client(engine)) as sdk:
        sdk.images.remove("gb10/zstd:pulled")
    with another_engine(ctx.store, tmp_path) as node:
        remote, done = pull_everywhere(ctx, sent.reference, [engine.endpoint.host, node.endpoint.host], ARM)
        assert remote.digest == sent.digest
        assert [(one.id, one.moved) for one in done] == [(image, len(LAYERS))] * 2


def test_another_image_than_the_proven_one_is_not_sent(
    ctx: Context, place: Registry, image: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def changed(engine: Engine, image_id: str, config: str, into: Path, on_bytes: Callable[[int], None]) -> Layout:
        layout = save_layout(engine, image_id, config, into, on_bytes)
        with (into / "blobs/sha256" / next(iter(layout.sizes)).removeprefix("sha256:")).open("r+b") as blob:
            blob.seek(1_000_000)
            blob.write(b"changed")
        return layout

    monkeypatch.setattr(compressing, "save_layout", changed)
    monkeypatch.setattr(retries, "PAUSES", ())
    place.forget()
    random_image(connect_or_start(ctx.env, ctx.store), "gb10/zstd:fresh", *LAYERS, seed=int.from_bytes(os.urandom(4)))
    with pytest.raises(PublishError, match="is not published") as caught:
        publish(ctx, "gb10/zstd:fresh", [f"{place.host}/zstd/changed:1"], 3, attest=False)
    assert "igest" in (caught.value.where or "")
    record = Record(id="", config=f"sha256:{'0' * 64}", layers=())
    monkeypatch.setattr(publishing, "proven", lambda ctx, image_id: replace(record, id=image_id))
    with pytest.raises(PublishError, match="another image than the one that was proven"):
        publish(ctx, IMAGE, [f"{place.host}/zstd/foreign:1"], 3, attest=False)
    assert not place.received("PUT", "/manifests/")
    assert not saved(ctx)


@pytest.mark.slow
def test_what_somebody_else_pushed_meanwhile_is_told_before_the_moving_tag(
    ctx: Context, place: Registry, engine: Engine, image: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    foreign = f"{place.host}/zstd/race:{KEYED}"
    random_image(engine, foreign, 1_000_000, seed=7)
    real = Skopeo.copy

    def overtaken(  # noqa: PLR0917 - as it is called
        self: Skopeo, layout: Layout, name: str, access: Access, level: int, moves: Moves
    ) -> None:
        real(self, layout, name, access, level, moves)
        push(engine, foreign, Moves())

    monkeypatch.setattr(Skopeo, "copy", overtaken)
    place.forget()
    with pytest.raises(PublishError, match="is not what was pushed") as caught:
        publish(ctx, IMAGE, [f"{place.host}/zstd/race"], 3, attest=False)
    assert f"its config is {require_image(engine, foreign).id}, not {image}" in (caught.value.where or "")
    assert not place.received("PUT", f"/manifests/{MOVING} ")


@pytest.mark.slow
def test_a_push_that_broke_off_goes_on_and_an_interrupted_one_leaves_nothing(
    ctx: Context, place: Registry, engine: Engine, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    random_image(engine, "gb10/zstd:other", *LAYERS, seed=int.from_bytes(os.urandom(4)))
    with (
        bad_line(place.host) as line,
        line.bad(Fault(request="PUT .*/zstd/bad/manifests/", does="refuse")) as refused,
        line.bad(Fault(request="PATCH .*/zstd/bad/blobs/", does="drop", after=1_000_000)) as dropped,
    ):
        monkeypatch.setattr(retries, "PAUSES", (0.1, 0.1))
        (sent,) = publish(ctx, "gb10/zstd:other", [f"{line.host}/zstd/bad:1"], 3, attest=False)
    assert (refused.met, dropped.met) == (1, 1)
    assert (sent.there, sent.moved) == (len(LAYERS), 0)  # the try before the last one sent them
    said = capfd.readouterr().err
    assert said.count("trying again in 0 s") == 2
    assert "503 Service Unavailable; trying again" in said

    with pytest.raises(PublishError, match="is not published") as caught:
        publish(ctx, "gb10/zstd:other", [f"127.0.0.1:{free_port()}/zstd/nobody:1"], 3, attest=False)
    assert "connection refused" in (caught.value.where or "")
    assert "save the image" not in capfd.readouterr().err

    def interrupted(*_: object) -> None:
        assert saved(ctx)
        raise KeyboardInterrupt

    monkeypatch.setattr(Skopeo, "copy", interrupted)
    with pytest.raises(KeyboardInterrupt):
        publish(ctx, "gb10/zstd:other", [f"{place.host}/zstd/interrupted:1"], 3, attest=False)
    assert not saved(ctx)


@pytest.mark.slow
def test_credentials_are_those_of_dockers_own_stores(
    ctx: Context, image: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "docker-credential-gb10-test").write_text(HELPER, encoding="utf-8")
    (tmp_path / "docker-credential-gb10-test").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with registry(ctx.store, tmp_path, USERS) as asking:
        written = {"auth": b64encode(f"me:{PASSWORD}".encode()).decode()}
        configs: tuple[dict[str, object], ...] = (
            {},
            {"auths": {asking.host: written}},
            {"credsStore": "gb10-test"},
            {"credHelpers": {asking.host: "gb10-test"}},
        )
        for number, config in enumerate(configs):
            (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
            mine = replace(ctx, env={**ctx.env, "DOCKER_CONFIG": str(tmp_path)})
            if not config:
                with pytest.raises(PublishError, match="is not published") as caught:
                    publish(mine, IMAGE, [f"{asking.host}/zstd/private:{number}"], 3, attest=False)
                assert "authentication required" in (caught.value.where or "")
                assert caught.value.hint == LOGIN
                continue
            (sent,) = publish(mine, IMAGE, [f"{asking.host}/zstd/private:{number}"], 3, attest=False)
            assert sent.config == image


@pytest.mark.slow
def test_a_damaged_skopeo_is_fetched_again(ctx: Context) -> None:
    program = Path(open_skopeo(ctx.store, ctx.env).command[3])
    spoil(program, b"damaged")
    mended = open_skopeo(ctx.store, ctx.env)
    assert capture([*mended.command, "--version"]).startswith("skopeo version")
