"""What lies beside an image in a registry: read without skopeo, and also of registries that list it themselves."""

import json

from gb10.containers.registry.referrers import Descriptor, read_first, tag_of
from gb10.containers.registry.repository import LARGEST, Repository
from gb10.errors import PublishError

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
