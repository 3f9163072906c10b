"""What is attached to a published image: its SBOM, its provenance, and what the checks found.

Apart from signatures: a pull checks these, and has no use for what makes documents.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from gb10.containers.connection import Engine
from gb10.containers.reference import split_reference
from gb10.containers.registry.referrers import Artifact, Content, open_referrers
from gb10.core.host import Host
from gb10.errors import PublishError
from gb10.image.inspect.attestations import Attestations
from gb10.image.sbom import statements
from gb10.image.sbom.statements import as_bytes

WITHOUT: Final = "a registry that takes no artifacts: publish --no-attest"


def attach_all(
    host: Host, engine: Engine, attestations: Attestations, name: str, digest: str
) -> tuple[Mapping[str, str], ...]:
    """Attach the documents to a manifest in the repository of a name. Raises EngineError, PublishError."""
    repository = split_reference(name)[0]
    with (
        open_referrers(host.store, host.env, engine, name) as place,
        host.reporter.task(f"SBOM and provenance of {repository}"),
    ):
        try:
            return tuple(
                {"type": one.kind, "digest": place.attach(digest, one), **one.annotations}
                for one in artifacts(attestations, repository, digest)
            )
        except PublishError as error:
            raise PublishError(
                f"{name} is pushed, but its SBOM and provenance cannot be attached",
                where="\n".join(filter(None, (error.message, error.where))),
                hint="\n".join(filter(None, (error.hint, WITHOUT))),
            ) from error


def artifacts(attestations: Attestations, name: str, digest: str) -> Iterator[Artifact]:
    """What is attached to the manifest of this digest in a repository. None has a time: the same image has the same."""
    yield _artifact(statements.SPDX_MEDIA_TYPE, "sbom.spdx.json", attestations.sbom, {})
    for kind, title, predicate in (
        (statements.PROVENANCE, "provenance.json", attestations.provenance),
        (statements.VERIFICATION, "verification.json", attestations.verification),
    ):
        content = as_bytes(statements.statement(name, digest, kind, predicate))
        yield _artifact(statements.MEDIA_TYPE, title, content, {statements.PREDICATE: kind})


def _artifact(kind: str, title: str, content: bytes, annotations: Mapping[str, str]) -> Artifact:
    return Artifact(kind=kind, annotations=annotations, contents=(Content(kind=kind, content=content, title=title),))
