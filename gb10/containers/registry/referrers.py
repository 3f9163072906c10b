"""Referrers: what belongs to a manifest of a registry without being in it: signatures, lists of contents, provenance.

They are OCI 1.1's: a manifest with ``subject``. Each is also listed by an index under the tag ``sha256-<digest>``, as
the standard wants it for registries that do not list referrers themselves.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import BaseModel, Field, StringConstraints, ValidationError

from gb10.containers.connection import Engine
from gb10.containers.reference import split_digest, split_reference
from gb10.containers.registry.access import access_to
from gb10.containers.registry.repository import INDEX, LARGEST, MANIFEST, Repository
from gb10.containers.registry.skopeo import Access, Skopeo, open_skopeo
from gb10.core.store import Store
from gb10.errors import PublishError

CREATED: Final = "org.opencontainers.image.created"
TITLE: Final = "org.opencontainers.image.title"
EMPTY: Final = b"{}"
"""OCI's empty content: the config of what is no image, and the layer of what is all in its annotations."""
TAG: Final = re.compile(r"sha256-[0-9a-f]{64}")
TRIES: Final = 3
"""How often the index is written again when somebody else wrote it at the same time."""
GONE: Final = ("manifest unknown", "name unknown", "not found")
"""Words of a registry that has no such manifest."""
ABSENT: Final = (*GONE, "denied", "unauthorized")
"""Some refuse in place of saying so."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Content:
    """A file of an artifact."""

    kind: str
    """Its media type."""
    content: bytes
    title: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Artifact:
    """What is attached: its ``artifactType``, annotations and files. ``CREATED`` among the annotations is its time."""

    kind: str
    annotations: Mapping[str, str]
    contents: tuple[Content, ...] = ()


class Descriptor(BaseModel, frozen=True):
    """A line of an index. What a registry answers may be anything, so it is read strictly."""

    mediaType: str
    digest: Annotated[str, StringConstraints(pattern=r"^sha256:[0-9a-f]{64}$")]
    size: Annotated[int, Field(ge=0)]
    artifactType: str = ""
    annotations: dict[str, str] = {}


class _Index(BaseModel):
    manifests: list[Descriptor]


@dataclass(frozen=True, kw_only=True, slots=True)
class Referrers:
    """The referrers of one registry's repository, read and written by skopeo."""

    store: Store
    skopeo: Skopeo
    repository: str
    access: Access

    def of(self, digest: str) -> tuple[Descriptor, ...]:
        """What is attached to a manifest; raises PublishError when the registry does not answer, or with no index."""
        text = self.text(f"{self.repository}:{tag_of(digest)}")
        return () if text is None else read_index(text)

    def text(self, name: str, absent: Sequence[str] = ABSENT) -> str | None:
        """A manifest of the registry, byte by byte; None when it says by one of these words that it has none.

        Raises PublishError.
        """
        try:
            return self.skopeo.manifest(name, self.access)
        except PublishError as error:
            if not any(word in error.message.lower() for word in absent):
                raise
            return None

    def attach(self, digest: str, artifact: Artifact) -> str:
        """Attach an artifact to a manifest that the registry has; the digest of the artifact. Raises PublishError."""
        subject = self.skopeo.manifest(f"{self.repository}@{digest}", self.access)
        if digest_of(subject) != digest:
            raise PublishError(f"the registry has another manifest under {digest}", where=self.repository)
        kind = str(json.loads(subject).get("mediaType", MANIFEST))
        text = manifest_of(artifact, {"mediaType": kind, "digest": digest, "size": len(subject.encode())})
        attached = digest_of(text)
        self._put(text, MANIFEST, f"{self.repository}@{attached}", [one.content for one in artifact.contents])
        entry = Descriptor(
            mediaType=MANIFEST,
            digest=attached,
            size=len(text.encode()),
            artifactType=artifact.kind,
            annotations=dict(artifact.annotations),
        )
        for _ in range(TRIES):
            listed = self.of(digest)
            if entry in listed:
                return attached
            self._put(write_index((*listed, entry)), INDEX, f"{self.repository}:{tag_of(digest)}", [])
        if entry not in self.of(digest):
            raise PublishError(f"others attach to {self.repository}@{digest} at the same time", hint="publish again")
        return attached

    def _put(self, text: str, kind: str, name: str, contents: list[bytes]) -> None:
        with self.store.folder("artifact") as folder:
            blobs = [EMPTY, *contents, text.encode()] if kind == MANIFEST else [text.encode()]
            for blob in blobs:
                _write(folder, blob)
            descriptor = {"mediaType": kind, "digest": digest_of(text), "size": len(text.encode())}
            index = json.dumps({"schemaVersion": 2, "manifests": [descriptor]})
            (folder / "index.json").write_text(index, encoding="utf-8")
            (folder / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}', encoding="utf-8")
            self.skopeo.put(folder, name, self.access)


@contextmanager
def open_referrers(store: Store, env: Mapping[str, str], engine: Engine, name: str) -> Iterator[Referrers]:
    """The referrers in the repository of a name, which may have a tag or a digest. Raises EngineError."""
    repository = split_reference(split_digest(name)[0])[0]
    with access_to(engine, env, name) as access:
        yield Referrers(store=store, skopeo=open_skopeo(store, env), repository=repository, access=access)


def _write(folder: Path, content: bytes) -> None:
    path = folder / "blobs/sha256" / hashlib.sha256(content).hexdigest()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def tag_of(digest: str) -> str:
    """The tag of the index of a manifest's referrers. Pure."""
    return digest.replace(":", "-")


def digest_of(text: str) -> str:
    """A manifest's digest. Pure."""
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def read_index(text: str) -> tuple[Descriptor, ...]:
    """What an index lists; raises PublishError for a text that is none. Pure."""
    try:
        return tuple(_Index.model_validate_json(text).manifests)
    except ValidationError as error:
        first = error.errors()[0]
        raise PublishError(
            "the registry's list of what belongs to the image cannot be read",
            where=f"{'.'.join(map(str, first['loc']))}: {first['msg']}",
            hint="something else than an OCI index has that tag: delete the tag, then publish again",
        ) from error


def read_first(text: str, most: int) -> tuple[tuple[Descriptor, ...], int]:
    """The first entries of an index, and how many follow: a list of 30,000 is cut before it is read. Pure.

    Raises PublishError.
    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        document = None
    rows = document.get("manifests") if isinstance(document, dict) else None
    if not isinstance(rows, list):
        return read_index(text), 0
    return read_index(json.dumps({"manifests": rows[:most]})), max(0, len(rows) - most)


def write_index(entries: tuple[Descriptor, ...]) -> str:
    """The text of an index. Pure."""
    manifests = [one.model_dump(exclude_defaults=True) for one in entries]
    return json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests}, sort_keys=True)


def manifest_of(artifact: Artifact, subject: Mapping[str, Any]) -> str:
    """The text of an artifact's manifest. Pure."""
    empty = _described("application/vnd.oci.empty.v1+json", EMPTY)
    layers = [
        _described(one.kind, one.content) | ({"annotations": {TITLE: one.title}} if one.title else {})
        for one in artifact.contents
    ]
    document = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "artifactType": artifact.kind,
        "config": empty,
        "layers": layers or [empty],
        "subject": dict(subject),
        "annotations": dict(artifact.annotations),
    }
    return json.dumps(document, sort_keys=True)


def _described(kind: str, content: bytes) -> dict[str, Any]:
    return {"mediaType": kind, "digest": f"sha256:{hashlib.sha256(content).hexdigest()}", "size": len(content)}


MOST = 100
"""Artifacts of one image that are looked at: those that stand first."""
SIGNATURES = 1 << 20
"""Bytes of the list of what is attached to one of them."""


def attached(repository: Repository, digest: str, limit: int = LARGEST) -> tuple[tuple[Descriptor, ...], int]:
    """What is attached to the image of a manifest, and how much more that is not looked at. Raises PublishError."""
    text = repository.referrers(digest, limit)
    if text is None:
        found = repository.manifest(tag_of(digest))
        text = found.content if found else None
    if text is not None and len(text) > limit:
        return (), MOST  # no signer signs a document so often: none of it is looked at
    return ((), 0) if text is None else read_first(text.decode(errors="replace"), MOST)


def document_of(repository: Repository, one: Descriptor) -> bytes:
    """The document of an artifact. Raises PublishError, also for an artifact of another form."""
    found = repository.manifest(one.digest)
    try:
        layers = json.loads(found.content)["layers"] if found else []
        return repository.blob(str(layers[0]["digest"]))
    except (ValueError, KeyError, IndexError, TypeError, RecursionError) as error:
        raise PublishError(
            f"{repository.name} has an artifact without a document", where=f"{one.digest}: {error}"
        ) from error
