"""What lies beside an image in a registry: read without skopeo, and also of registries that list it themselves."""

import json

from gb10.engine.registry.referrers import Descriptor, read_index, tag_of
from gb10.engine.registry.repository import Repository
from gb10.errors import PublishError

MOST = 100
"""Artifacts of one image that are looked at."""


def attached(repository: Repository, digest: str) -> tuple[Descriptor, ...]:
    """What is attached to the image of a manifest. Raises PublishError."""
    text = repository.referrers(digest)
    if text is None:
        found = repository.manifest(tag_of(digest))
        text = found.content if found else None
    return () if text is None else read_index(text.decode(errors="replace"))[:MOST]


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
