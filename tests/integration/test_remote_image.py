"""An image in a registry, seen without a pull: OCI's API or a tag, tokens, hostile answers."""

import base64
import hashlib
import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from gb10.containers.registry import repository
from gb10.containers.registry.access import Login
from gb10.containers.registry.referrers import (
    SIGNATURES,
    Artifact,
    Content,
    Descriptor,
    attached,
    document_of,
    manifest_of,
    tag_of,
    write_index,
)
from gb10.containers.registry.repository import INDEX, LARGEST, MANIFEST, Repository, open_repository, path_of
from gb10.errors import PublishError, VerifyError
from gb10.image.context import Context, open_context
from gb10.image.inspect.remote import remote_image, remote_portrait
from gb10.image.sbom.statements import MEDIA_TYPE as IN_TOTO
from gb10.image.sbom.statements import PREDICATE, PROVENANCE, statement
from tests.hang import no_hang
from tests.integration.oci_server import Registry, oci_server
from tests.unit.made_up_images import PLAN, plan_of

pytestmark = pytest.mark.integration

SBOM = Artifact(
    kind="application/spdx+json", annotations={}, contents=(Content(kind="application/spdx+json", content=b'{"a": 1}'),)
)
NOTE = Artifact(kind=IN_TOTO, annotations={"kind": "provenance"}, contents=(Content(kind=IN_TOTO, content=b"{}"),))


@pytest.fixture
def registry() -> Iterator[Registry]:
    with oci_server(Registry()) as found:
        yield found


def opened(registry: Registry, user: str = "me", password: str = "secret") -> Repository:  # noqa: S107 - of the test
    login = Login(host=registry.host, tls=False, user=user, password=password)
    return open_repository({}, f"{registry.host}/gb10/test", login)


def digest_of(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def put(registry: Registry, content: bytes, *tags: str, kind: str = MANIFEST) -> str:
    """A manifest, under its digest and tags."""
    for name in (digest_of(content), *tags):
        registry.manifests[name] = (kind, content)
    return digest_of(content)


def attach(registry: Registry, subject: str, *artifacts: Artifact) -> list[str]:
    """Artifacts of an image; without the API, they are listed under a tag."""
    listed = []
    for one in artifacts:
        registry.blobs |= {digest_of(part.content): part.content for part in one.contents}
        digest = put(registry, manifest_of(one, {"digest": subject}).encode())
        listed.append(
            Descriptor(
                mediaType=MANIFEST, digest=digest, size=1, artifactType=one.kind, annotations=dict(one.annotations)
            )
        )
    if not registry.referrers:
        put(registry, write_index(tuple(listed)).encode(), tag_of(subject), kind=INDEX)
    return [one.digest for one in listed]


@pytest.mark.parametrize("lists", [True, False])
def test_what_is_attached_is_found_by_the_api_or_by_the_tag(registry: Registry, lists: bool) -> None:
    registry.referrers = lists
    subject = put(registry, b'{"schemaVersion": 2}', "1")
    made = attach(registry, subject, SBOM, NOTE)
    found, left = attached(opened(registry), subject)
    assert left == 0
    assert {one.digest for one in found} == set(made)
    texts = {one.artifactType: document_of(opened(registry), one) for one in found}
    assert texts == {one.kind: one.contents[0].content for one in (SBOM, NOTE)}
    assert {one.annotations.get("kind") for one in found} == {None, "provenance"}


def test_a_token_is_asked_for_once_and_a_wrong_password_is_told(registry: Registry) -> None:
    repository = opened(registry)
    put(registry, b"{}", "1")
    assert repository.manifest("1") and repository.manifest("1")
    assert sum("/token" in line for line in registry.asked) == 1
    assert any("scope=repository%3Agb10%2Ftest%3Apull" in line for line in registry.asked)
    with pytest.raises(PublishError) as caught:
        opened(registry, password="wrong").manifest("1")  # noqa: S106 - of the test
    assert "gave no token: 401" in str(caught.value)
    assert "secret" not in repr(repository)


def test_bytes_that_are_others_or_too_many_are_refused(registry: Registry) -> None:
    repository, right = opened(registry), digest_of(b"right")
    registry.blobs[right] = b"wrong"
    with pytest.raises(PublishError) as caught:
        repository.blob(right)
    assert "are not its own" in str(caught.value)
    registry.blobs[right] = bytes(LARGEST + 1)
    with pytest.raises(PublishError) as caught:
        repository.blob(right)
    assert "more than 8 MiB" in str(caught.value)
    registry.manifests[right] = (MANIFEST, b"{}")
    with pytest.raises(PublishError, match="another manifest"):
        repository.manifest(right)
    for digest in (digest_of(b"none"), "../../x"):
        with pytest.raises(PublishError, match="refused"):
            repository.blob(digest)


def streamed(registry: Registry, repository: Repository, size: int | None = None) -> bytes:
    """A blob of 3 MB, as it arrives."""
    content = bytes(range(256)) * 12_000
    registry.blobs[digest_of(content)] = content
    return b"".join(repository.stream(digest_of(content), len(content) if size is None else size))


def test_a_layer_that_breaks_off_is_taken_up_where_it_broke(registry: Registry) -> None:
    registry.cuts += [1_000_000, 700_000, 0, 5]
    assert digest_of(streamed(registry, opened(registry))) in registry.blobs
    assert registry.cuts == []
    registry.cuts += [1_000_000, *[0] * repository.TRIES]
    with pytest.raises(PublishError):
        streamed(registry, opened(registry))
    registry.ranges = False
    registry.cuts[:] = [1_000_000]
    with pytest.raises(PublishError, match="does not resume"):
        streamed(registry, opened(registry))


def test_a_layer_of_another_size_or_a_slow_one_is_refused(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(PublishError, match="more than the 2,000,000 bytes"):
        streamed(registry, opened(registry), 2_000_000)
    with pytest.raises(PublishError, match="fewer than the 4,000,000 bytes"):
        streamed(registry, opened(registry), 4_000_000)
    monkeypatch.setattr(repository, "ANSWER", -1e9)
    with pytest.raises(PublishError, match="too slow"):
        streamed(registry, opened(registry))


def test_a_token_that_is_too_old_is_renewed(registry: Registry) -> None:
    place = opened(registry)
    put(registry, b"{}", "1")
    assert place.manifest("1")
    registry.token_of = "n3w"  # noqa: S105 - of the test
    assert place.manifest("1")
    assert sum("/token" in line for line in registry.asked) == 2


@pytest.fixture
def ctx(registry: Registry, tmp_path: Path) -> Context:
    """A context of a user who is logged in there."""
    auth = base64.b64encode(b"me:secret").decode()
    (tmp_path / "config.json").write_text(json.dumps({"auths": {registry.host: {"auth": auth}}}))
    return open_context({"DOCKER_CONFIG": str(tmp_path), "GB10_CACHE_DIR": str(tmp_path / "store")}, verbosity=0)


def pushed(registry: Registry, config: object, layers: object) -> str:
    """The manifest of an image of another builder, with the tag 1."""
    content = json.dumps(config).encode()
    registry.blobs[digest_of(content)] = content
    own = {"digest": digest_of(content), "size": len(content)}
    return put(registry, json.dumps({"schemaVersion": 2, "config": own, "layers": layers}).encode(), "1")


LAYER = {"mediaType": "x", "digest": "sha256:" + "34" * 32, "size": 7}
CONFIG = {
    "os": "linux",
    "architecture": "arm64",
    "config": {"User": "1000", "Env": ["A=b"], "Labels": None},
    "history": [{"created_by": "/bin/sh -c make  all"}, {"created_by": "ENV A=b", "empty_layer": True}],
}


def test_an_image_of_another_builder_is_shown_without_a_pull(registry: Registry, ctx: Context) -> None:
    pushed(registry, CONFIG, [LAYER])
    one = remote_portrait(ctx, None, f"{registry.host}/gb10/test:1", "linux/arm64")
    assert [(layer.name, layer.size) for layer in one.layers] == [("make all", 7)]
    assert (one.platform, one.user, one.environment, one.size) == ("linux/arm64", "1000", ("A=b",), 7)
    assert one.plan is None
    assert one.verdict is None
    assert "nothing is attached" in one.remarks[0]


def test_of_an_index_the_platform_is_taken(registry: Registry, ctx: Context) -> None:
    found = pushed(registry, CONFIG, [LAYER])
    row = {"digest": found, "platform": {"os": "linux", "architecture": "arm64"}}
    put(registry, json.dumps({"manifests": [{"digest": found}, row]}).encode(), "2", kind=INDEX)
    name = f"{registry.host}/gb10/test:2"
    assert remote_image(ctx, None, name, "linux/arm64").digest == found
    with pytest.raises(PublishError) as caught:
        remote_image(ctx, None, name, "linux/amd64")
    assert caught.value.where == "it is for linux/arm64"


@pytest.mark.parametrize(
    ("config", "layers"), [({**CONFIG, "config": 1}, [LAYER]), (CONFIG, 1), (CONFIG, [1]), ([], [LAYER])]
)
def test_an_image_that_is_malformed_is_one_error(
    registry: Registry, ctx: Context, config: object, layers: object
) -> None:
    pushed(registry, config, layers)
    with pytest.raises(PublishError, match="cannot be read"):
        remote_portrait(ctx, None, f"{registry.host}/gb10/test:1", "linux/arm64")


@pytest.mark.parametrize("text", [b"1", b'{"subject": [1], "predicate": {}}', b'{"subject": [], "predicate": 1}'])
def test_a_statement_that_is_malformed_is_one_error(registry: Registry, ctx: Context, text: bytes) -> None:
    subject = pushed(registry, CONFIG, [LAYER])
    one = Artifact(kind=IN_TOTO, annotations={PREDICATE: PROVENANCE}, contents=(Content(kind=IN_TOTO, content=text),))
    attach(registry, subject, one)
    with pytest.raises(PublishError, match="cannot be read"):
        remote_portrait(ctx, None, f"{registry.host}/gb10/test:1", "linux/arm64")


@pytest.mark.parametrize("own", [True, False])
def test_a_statement_is_believed_about_its_own_image_alone(registry: Registry, ctx: Context, own: bool) -> None:
    subject = pushed(registry, CONFIG, [LAYER])
    digest = subject.removeprefix("sha256:") if own else "00" * 32
    told = statement("x", digest, PROVENANCE, {"buildDefinition": {"internalParameters": {"plan": PLAN}}})
    part = Content(kind=IN_TOTO, content=json.dumps(told).encode())
    attach(registry, subject, Artifact(kind=IN_TOTO, annotations={PREDICATE: PROVENANCE}, contents=(part,)))
    found = remote_portrait(ctx, None, f"{registry.host}/gb10/test:1", "linux/arm64").plan
    assert (found == plan_of()) is own


def test_an_artifact_without_a_document_is_told(registry: Registry) -> None:
    subject = put(registry, b"{}", "1")
    attach(registry, subject, SBOM)
    ((one,), _) = attached(opened(registry), subject)
    registry.manifests[one.digest] = (MANIFEST, json.dumps({"layers": []}).encode())
    with pytest.raises(PublishError):
        document_of(opened(registry), one)


def test_a_registry_that_sends_a_byte_now_and_then_is_left(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    subject = put(registry, b'{"schemaVersion": 2}' * 100, "1")
    registry.pause = 0.05
    monkeypatch.setattr(repository, "ANSWER", 0.5)
    with pytest.raises(PublishError, match="one answer took more than"):
        opened(registry).manifest(subject)
    slow = opened(registry)
    slow.until = time.monotonic() + 0.3
    with pytest.raises(PublishError, match="all that was read of it"):
        slow.manifest(subject)


def test_of_many_documents_the_first_are_looked_at_each_once(registry: Registry, ctx: Context) -> None:
    subject = pushed(registry, CONFIG, [LAYER])
    (one,) = attach(registry, subject, SBOM)
    row = {"mediaType": MANIFEST, "digest": one, "size": 1, "artifactType": SBOM.kind}
    registry.listed[subject] = json.dumps({"manifests": [row] * 30_000}).encode()
    name, looks = f"{registry.host}/gb10/test:1", []
    with no_hang():
        found = remote_image(ctx, None, name, "linux/arm64", lambda what, digest, beside: looks.append(digest))
    assert looks == [subject, one]
    assert (found.unseen, len(found.attached)) == (29_900, 100)
    registry.listed[one] = b" " * (SIGNATURES + 1)

    def signed(what: str, digest: str, beside: Sequence[Descriptor]) -> None:
        if not beside:
            raise VerifyError(f"{what} has no signature")

    found = remote_image(ctx, None, name, "linux/arm64", signed)
    assert (found.untrusted, found.attached) == (100, ())
    remarks = remote_portrait(ctx, None, name, "linux/arm64").remarks
    assert "29900 more documents beside it were not looked at" in remarks


@pytest.mark.parametrize(
    ("reference", "path"),
    [
        ("registry.example/gb10/vllm:1", "gb10/vllm"),
        ("localhost:5000/vllm", "vllm"),
        ("debian:12", "library/debian"),
        ("docker.io/debian", "library/debian"),
        ("me/vllm@sha256:0", "me/vllm"),
    ],
)
def test_the_path_of_a_repository(reference: str, path: str) -> None:
    assert path_of(reference) == path
