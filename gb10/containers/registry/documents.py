"""What a registry sends of an image: its manifest, the index of platforms, its config; read strictly and bounded."""

from collections.abc import Sequence
from typing import Annotated, Final, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from gb10.containers.registry.repository import Manifest, Repository
from gb10.errors import PublishError

MOST: Final = 1 << 12
"""Entries of a list; of an SBOM, sixteen times as many."""
UNKNOWN: Final = "unknown"
Digest = Annotated[str, StringConstraints(pattern=r"^sha256:[0-9a-f]{64}$")]
T = TypeVar("T", bound="Sent")


class Sent(BaseModel):
    """A part of a document; it may hold more than is read of it."""

    model_config = ConfigDict(extra="ignore", frozen=True, defer_build=True)


class SentBlob(Sent):
    """A layer or a config, by its digest; ``size`` in bytes."""

    digest: Digest
    size: Annotated[int, Field(ge=0, le=1 << 50)] = 0


class SentManifest(Sent):
    """The manifest of one image."""

    config: SentBlob
    layers: Annotated[tuple[SentBlob, ...], Field(max_length=MOST)] = ()


class SentPlatform(Sent):
    """What an entry of an index is for."""

    os: str = UNKNOWN
    architecture: str = UNKNOWN


class SentEntry(Sent):
    """A manifest that an index names."""

    digest: Digest
    platform: SentPlatform | None = None


class SentIndex(Sent):
    """The manifests of an image for several platforms; none in a manifest of one image."""

    manifests: Annotated[tuple[SentEntry, ...], Field(max_length=MOST)] | None = None


class SentCommand(Sent):
    """A command of an image's history."""

    created_by: str = ""
    empty_layer: bool = False


class SentSettings(Sent):
    """The settings of an image's containers."""

    labels: Annotated[dict[str, str] | None, Field(alias="Labels")] = None
    environment: Annotated[tuple[str, ...] | None, Field(alias="Env", max_length=MOST)] = None
    user: Annotated[str | None, Field(alias="User")] = None
    workdir: Annotated[str | None, Field(alias="WorkingDir")] = None
    entrypoint: Annotated[tuple[str, ...] | None, Field(alias="Entrypoint", max_length=MOST)] = None
    command: Annotated[tuple[str, ...] | None, Field(alias="Cmd", max_length=MOST)] = None
    triggers: Annotated[tuple[str, ...] | None, Field(alias="OnBuild", max_length=MOST)] = None


class SentRoot(Sent):
    """The layers of a config, by the digests of their content."""

    diff_ids: Annotated[tuple[Digest, ...], Field(max_length=MOST)] = ()


class SentConfig(Sent):
    """The config of an image."""

    os: str = ""
    architecture: str = ""
    variant: str = ""
    created: str = ""
    config: SentSettings | None = None
    rootfs: SentRoot | None = None
    history: Annotated[tuple[SentCommand, ...], Field(max_length=MOST)] | None = None


def parse_sent(content: bytes, kind: type[T], reference: str) -> T:
    """A document that a registry sent; raises PublishError for one of another form."""
    try:
        return kind.model_validate_json(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"])) or "JSON"
        raise PublishError(
            f"{reference}: the registry sent a document that cannot be read",
            where=f"{place}: {first['msg']}"[:200],
            hint="check the name: it may be no image, or its author damaged it",
        ) from error


def find_manifest(repository: Repository, reference: str) -> Manifest:
    """The manifest of a tag or a digest. Raises PublishError when there is none."""
    found = repository.manifest(reference)
    if found is None:
        gone = "a registry may delete what no tag names any more: name the tag again, or `lock --upgrade base`"
        raise PublishError(
            f"{repository.base}/{repository.name} has no {reference}",
            hint=gone if ":" in reference else "check the name, the tag and the login",
        )
    return found


def for_platform(rows: Sequence[SentEntry], platform: str, reference: str) -> str:
    """The manifest of an index that is for a platform."""
    digests: dict[str, str] = {}
    for row in rows:
        found = f"{row.platform.os}/{row.platform.architecture}" if row.platform else UNKNOWN
        digests.setdefault(found, row.digest)
    if platform in digests:
        return digests[platform]
    listed = ", ".join(sorted(name for name in digests if UNKNOWN not in name)) or "no platform"
    raise other_platform(reference, platform, listed)


def other_platform(reference: str, platform: str, found: str) -> PublishError:
    """The error for an image that is for ``found`` alone: one platform, several with commas, or ``no platform``."""
    has = next((name for name in found.split(", ") if name.startswith("linux/")), "")
    own = f", or take what it has: --platform {has}" if has else ""
    return PublishError(
        f"{reference} is not for {platform}", where=f"it is for {found}", hint=f"name an image for {platform}{own}"
    )
