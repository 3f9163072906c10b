"""Signed images, tags that never move, images that may go: Debian's registry, a real engine, the real ssh-keygen."""

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import closing
from itertools import count
from pathlib import Path

import pytest

from gb10.cli import main
from gb10.containers.connection import Engine, client
from gb10.containers.images import find_image, require_image, tag_image
from gb10.containers.reach import connect_or_start
from gb10.containers.reference import split_reference
from gb10.containers.registry.access import access_to
from gb10.containers.registry.referrers import Artifact, Referrers, tag_of
from gb10.containers.registry.skopeo import open_skopeo
from gb10.core.proc import capture
from gb10.errors import PublishError, UsageError, VerifyError
from gb10.image.context import Context
from gb10.image.proof.scans import Record
from gb10.image.publish import publishing
from gb10.image.publish.publishing import Published, publish
from gb10.image.publish.pulling import pull_from_each
from gb10.image.publish.retaining import Held, Rule, retain
from gb10.image.publish.signing import KIND, SIGNATURE, require_signer, signed_text
from tests.integration.nodes import Registry, random_image, registry
from tests.integration.signers import signing_shop

pytestmark = pytest.mark.integration

ARM = "linux/arm64"
NUMBERS = count(1)


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the keys of two people, each with a file that trusts it alone."""
    return tmp_path_factory.mktemp("keys")


@pytest.fixture(scope="module")
def ctx(keys: Path) -> Context:
    return signing_shop(keys, "me", "other")


@pytest.fixture(scope="module")
def place(ctx: Context, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    with registry(ctx.store, tmp_path_factory.mktemp("registry"), delete=True) as found:
        yield found


@pytest.fixture(scope="module")
def engine(ctx: Context) -> Engine:
    return connect_or_start(ctx.env, ctx.store)


@pytest.fixture(autouse=True)
def taken_as_proven(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publishing, "proven", lambda ctx, image_id: Record(id=image_id, config=image_id, layers=()))


@pytest.fixture
def name(engine: Engine) -> Iterator[str]:
    """An image that is new, with tags as `image` gives them; its repository here and in the registry."""
    number = next(NUMBERS)
    repository = f"gb10/signed-{number}"
    made(engine, repository, number)
    yield repository
    with closing(client(engine)) as sdk:
        for image in sdk.images.list(repository):
            sdk.images.remove(str(image.id), force=True)


def made(engine: Engine, repository: str, number: int) -> str:
    """An image with a key of its own and the moving tag; its tag with the key."""
    keyed = f"{repository}:1.0-{number:012x}"
    random_image(engine, keyed, 100_000, seed=1000 + number)
    tag_image(engine, keyed, (f"{repository}:1.0",))
    return keyed


def published(ctx: Context, place: Registry, name: str, key: Path | None) -> tuple[Published, ...]:
    return publish(ctx, f"{name}:1.0", [f"{place.host}/{name}"], None, key, attest=False)


def referrers(ctx: Context, engine: Engine, place: Registry, name: str) -> Iterator[Referrers]:
    with access_to(engine, ctx.env, f"{place.host}/{name}") as access:
        skopeo = open_skopeo(ctx.store, ctx.env)
        yield Referrers(store=ctx.store, skopeo=skopeo, repository=f"{place.host}/{name}", access=access)


def forgotten(engine: Engine, name: str) -> None:
    with closing(client(engine)) as sdk:
        for image in sdk.images.list(name):
            sdk.images.remove(str(image.id), force=True)


def test_what_a_trusted_key_signed_is_pulled_and_nothing_else_is(  # noqa: PLR0917 - fixtures
    ctx: Context, place: Registry, engine: Engine, name: str, keys: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (unsigned, _) = published(ctx, place, name, None)
    config, reference = require_image(engine, f"{name}:1.0").id, f"{place.host}/{name}:1.0"
    forgotten_here = [engine.endpoint.host]
    place.forget()
    with pytest.raises(VerifyError, match="is not signed"):
        pull_from_each(ctx, reference, forgotten_here, ARM, keys / "me.signers")
    layer = place.manifest(name, "1.0")["layers"][0]["digest"]
    assert not place.received("GET", layer)
    signed = published(ctx, place, name, keys / "me")
    assert [one.digest for one in signed] == [unsigned.digest] * 2
    assert [(one.moved, one.bytes) for one in signed] == [(0, 0)] * 2
    with pytest.raises(VerifyError, match="is not signed by anyone in") as caught:
        pull_from_each(ctx, reference, forgotten_here, ARM, keys / "other.signers")
    assert "no key in" in str(caught.value)
    forgotten(engine, name)
    forgotten(engine, f"{place.host}/{name}")
    done = pull_from_each(ctx, reference, forgotten_here, ARM, keys / "me.signers")
    assert (done.signer, done.nodes[0].id) == ("me@example", config)
    arguments = ["pull", reference, "--host", engine.endpoint.host, "--platform", ARM, "--json"]
    assert main([*arguments, "--require-signer", str(keys / "me.signers")]) == 0
    assert json.loads(capsys.readouterr().out)["signer"] == "me@example"
    assert main([*arguments, "--require-signer", str(keys / "other.signers")]) == 9


def test_the_signature_is_what_ssh_keygen_itself_accepts(  # noqa: PLR0917 - fixtures
    ctx: Context, place: Registry, engine: Engine, name: str, keys: Path, tmp_path: Path
) -> None:
    """And a second signature by the same key is not added, one by another key is."""
    for key in ("me", "me", "other"):
        (one, _) = published(ctx, place, name, keys / key)
    (there,) = (found.of(one.digest) for found in referrers(ctx, engine, place, name))
    assert [found.artifactType for found in there] == [KIND, KIND]
    (tmp_path / "sig").write_text(there[0].annotations[SIGNATURE], encoding="ascii")
    words = ("-Y", "verify", "-f", str(keys / "me.signers"), "-I", "me@example", "-n", "gb10-images")
    said = capture(
        ["ssh-keygen", *words, "-s", str(tmp_path / "sig")], stdin=signed_text(one.digest), env=dict(ctx.env)
    )
    assert 'Good "gb10-images" signature for me@example' in said
    assert place.manifest(name, there[0].digest)["subject"]["digest"] == one.digest


def test_a_signature_of_another_image_or_for_another_purpose_counts_for_nothing(
    ctx: Context, place: Registry, engine: Engine, name: str, keys: Path
) -> None:
    (one, _) = published(ctx, place, name, keys / "me")
    made(engine, name, next(NUMBERS))
    (other, _) = published(ctx, place, name, None)
    for found in referrers(ctx, engine, place, name):
        (signature,) = (entry.annotations[SIGNATURE] for entry in found.of(one.digest))
        found.attach(other.digest, Artifact(kind=KIND, annotations={SIGNATURE: signature}))
        mail = capture(
            ["ssh-keygen", "-Y", "sign", "-f", str(keys / "me"), "-n", "email"],
            stdin=signed_text(other.digest),
            env=dict(ctx.env),
        )
        found.attach(other.digest, Artifact(kind=KIND, annotations={SIGNATURE: mail}))
        found.attach(other.digest, Artifact(kind=KIND, annotations={SIGNATURE: "-----BEGIN nothing"}))
    reference = f"{place.host}/{name}@{other.digest}"
    with pytest.raises(VerifyError, match="is not signed by anyone in") as caught:
        require_signer(ctx, engine, reference, keys / "me.signers")
    assert "is of another text" in (caught.value.where or "")


def test_an_index_that_somebody_else_wrote_stays_and_a_broken_one_is_told(
    ctx: Context, place: Registry, engine: Engine, name: str, keys: Path
) -> None:
    (one, _) = published(ctx, place, name, None)
    for found in referrers(ctx, engine, place, name):
        first = found.attach(one.digest, Artifact(kind="application/sbom", annotations={}))
        published(ctx, place, name, keys / "me")
        assert next(entry.digest for entry in found.of(one.digest)) == first
        assert len(found.of(one.digest)) == 2
    publish(ctx, f"{name}:1.0", [f"{place.host}/{name}:{tag_of(one.digest)}"], attest=False)
    with pytest.raises(PublishError, match="cannot be read"):
        require_signer(ctx, engine, f"{place.host}/{name}@{one.digest}", keys / "me.signers")


def test_a_key_or_a_file_of_signers_that_is_not_there_is_told_before_anything_moves(
    ctx: Context, place: Registry, name: str, tmp_path: Path
) -> None:
    place.forget()
    with pytest.raises(UsageError, match="there is no key"):
        published(ctx, place, name, tmp_path / "none")
    with pytest.raises(UsageError, match="there is no file"):
        pull_from_each(ctx, f"{place.host}/{name}:1.0", [], ARM, tmp_path / "none")
    assert not place.log.read_text()


@pytest.mark.parametrize("zstd", [None, 3])
def test_a_tag_with_a_key_never_moves(
    ctx: Context, place: Registry, engine: Engine, name: str, zstd: int | None
) -> None:
    keyed, _ = publish(ctx, f"{name}:1.0", [f"{place.host}/{name}"], zstd, attest=False)
    tag = split_reference(keyed.reference)[1]
    random_image(engine, f"{name}:1.0", 50_000, seed=next(NUMBERS))
    tag_image(engine, f"{name}:1.0", (f"{name}:{tag}",))  # the same key, other bytes
    place.forget()
    with pytest.raises(PublishError, match="a tag with a key never moves") as caught:
        publish(ctx, f"{name}:1.0", [f"{place.host}/{name}"], zstd, attest=False)
    assert f"there {keyed.config}" in (caught.value.where or "")
    assert not place.received("PUT", "")
    assert place.manifest(name, tag)["config"]["digest"] == keyed.config
    assert place.manifest(name, "1.0")["config"]["digest"] == keyed.config
    (own,) = publish(ctx, f"{name}:1.0", [f"{place.host}/{name}:own"], zstd, attest=False)
    assert own.config != keyed.config


@pytest.mark.slow
def test_images_that_may_go_are_listed_then_deleted_and_what_is_needed_stays(  # noqa: PLR0917 - fixtures
    ctx: Context,
    place: Registry,
    engine: Engine,
    name: str,
    keys: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Five images: one unsigned, one that a container uses, one that is stable, one that may go, and the newest."""
    tags = []
    for number in range(5):
        forgotten(engine, name)
        keyed = made(engine, name, next(NUMBERS))
        monkeypatch.setattr("gb10.image.publish.signing.datetime", Clock(day=number + 1))
        targets = [f"{place.host}/{name}"] + ([f"{place.host}/{name}:stable"] if number == 2 else [])
        publish(ctx, f"{name}:1.0", targets, None, None if number == 0 else keys / "me", attest=False)
        tags.append(split_reference(keyed)[1])
        if number == 1:
            used = keyed
            with closing(client(engine)) as sdk:
                container = sdk.containers.create(used, command="-", platform=ARM)
    try:
        found = kept(ctx, engine, place, name, delete=False)
        assert list(found.values()) == [
            "also named 1.0",
            "",
            "also named stable",
            f"used on {engine.endpoint.host}",
            "nothing tells when it was published",
        ]
        going = tags[3]
        assert place.manifest(name, going)
        arguments = [
            "publish",
            f"{name}:1.0",
            f"{place.host}/{name}",
            "--retain",
            "1",
            "--delete",
            "--no-attest",
            "--json",
        ]
        assert main([*arguments, "--host", engine.endpoint.host]) == 0
        (older,) = json.loads(capsys.readouterr().out)["older"].values()
        assert [one["tags"] for one in older if one["deleted"]] == [[going]]
    finally:
        container.remove()
    (left,) = (found.skopeo.tags(found.repository, found.access) for found in referrers(ctx, engine, place, name))
    assert set(left) >= {*tags[:3], tags[4], "1.0", "stable"}
    assert going not in left
    assert len([tag for tag in left if tag.startswith("sha256-")]) == 3
    assert list(kept(ctx, engine, place, name, delete=True).values()).count("") == 1  # the container is gone


class Clock:
    """A day of November."""

    def __init__(self, day: int) -> None:
        self.day = day

    def now(self, zone: object) -> "Clock":
        return self

    def isoformat(self, timespec: str) -> str:
        return f"2026-11-{self.day:02}T00:00:00+00:00"


def kept(ctx: Context, engine: Engine, place: Registry, name: str, *, delete: bool) -> Mapping[str, str]:
    found: tuple[Held, ...] = retain(
        ctx, engine, f"{place.host}/{name}", Rule(number=1), [engine.endpoint.host], delete=delete
    )
    return {one.digest: one.why for one in found}


@pytest.mark.slow
def test_a_registry_that_forbids_deletion_is_told(
    ctx: Context, engine: Engine, name: str, keys: Path, tmp_path: Path
) -> None:
    with registry(ctx.store, tmp_path) as strict:
        for _ in range(2):
            published(ctx, strict, name, keys / "me")
            forgotten(engine, name)
            made(engine, name, next(NUMBERS))
        published(ctx, strict, name, keys / "me")
        with pytest.raises(PublishError, match="is not deleted") as caught:
            retain(ctx, engine, f"{strict.host}/{name}", Rule(number=0), [], delete=True)
        assert "storage.delete.enabled" in (caught.value.hint or "")


def test_nothing_of_it_stays_in_the_store(ctx: Context, engine: Engine) -> None:
    assert not [path for path in (ctx.store.root / "tmp").iterdir() if "artifact" in path.name]
    assert find_image(engine, "gb10/signed-1:1.0") is None
    assert shutil.which("ssh-keygen", path=ctx.env["PATH"])
