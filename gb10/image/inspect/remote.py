"""An image in a registry, without pulling it: its manifest, its config, and what was attached to it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

from pydantic import Field

from gb10.containers.connection import Engine
from gb10.containers.reference import split_digest, split_reference
from gb10.containers.registry.access import login_for
from gb10.containers.registry.documents import (
    Sent,
    SentConfig,
    SentIndex,
    SentManifest,
    SentSettings,
    find_manifest,
    for_platform,
    parse_sent,
)
from gb10.containers.registry.referrers import CREATED, SIGNATURES, Descriptor, attached, document_of
from gb10.containers.registry.repository import Repository, open_repository
from gb10.errors import VerifyError
from gb10.image.context import Context
from gb10.image.inspect.attestations import mod_stories, patch_stories
from gb10.image.inspect.local import debs_of, shortened
from gb10.image.inspect.summary import ImageSummary, Layer, layer_names
from gb10.image.plan.plan_record import RecordedPlan, recorded_plan
from gb10.image.proof.report import read_verdict
from gb10.image.sbom.statements import MEDIA_TYPE as IN_TOTO
from gb10.image.sbom.statements import PREDICATE, PROVENANCE, VERIFICATION
from gb10.image.sbom.statements import SPDX_MEDIA_TYPE as SPDX

MOST: Final = 1 << 12
"""Entries of a list; of an SBOM, sixteen times as many."""


class SentSubject(Sent):
    """What a statement is about."""

    digest: dict[str, str]


class SentStatement(Sent):
    """A statement of in-toto."""

    subject: Annotated[tuple[SentSubject, ...], Field(max_length=MOST)]
    predicate: dict[str, Any]


class SentPackage(Sent):
    """A package of an SBOM."""

    identity: Annotated[str, Field(alias="SPDXID")]
    name: str
    version: Annotated[str, Field(alias="versionInfo")] = ""


class SentBill(Sent):
    """An SBOM in SPDX."""

    packages: Annotated[tuple[SentPackage, ...], Field(max_length=MOST << 4)] = ()


NOTHING_ATTACHED: Final = "nothing is attached to it: what it holds is told by pulling it"
DOCUMENTS: Final = (SPDX, IN_TOTO)
Trust = Callable[[str, str, Sequence[Descriptor]], object]
"""Raises VerifyError unless the reader trusts a signature among what lies beside a manifest.

It gets the name of the manifest, its digest, and what lies beside it.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Remote:
    """An image's manifest and config in a repository, and what is attached to it."""

    reference: str
    repository: Repository
    digest: str
    """The manifest's."""
    manifest: SentManifest
    config: SentConfig
    attached: tuple[Descriptor, ...]
    untrusted: int = 0
    """How many documents were left out, since no signature of them is trusted."""
    unseen: int = 0
    """How many were not looked at, since the registry lists too many."""


def remote_image(
    ctx: Context, engine: Engine | None, reference: str, platform: str, trust: Trust | None = None
) -> Remote:
    """An image of a registry, of an index the one for the platform; with ``trust``, beside it what is trusted alone.

    Raises PublishError, EngineError, VerifyError.
    """
    name, digest = split_digest(reference)
    repository = open_repository(ctx.env, name, login_for(engine, ctx.env, name))
    found = find_manifest(repository, digest or split_reference(name)[1])
    entries = parse_sent(found.content, SentIndex, reference).manifests
    if entries is not None:
        found = find_manifest(repository, for_platform(entries, platform, reference))
    manifest = parse_sent(found.content, SentManifest, reference)
    beside, unseen = attached(repository, found.digest)
    if trust:
        trust(f"{repository.name}@{found.digest}", found.digest, beside)
    documents = trusted(repository, beside, trust) if trust else beside
    return Remote(
        reference=reference,
        repository=repository,
        digest=found.digest,
        manifest=manifest,
        config=parse_sent(repository.blob(manifest.config.digest), SentConfig, reference),
        attached=documents,
        untrusted=len(beside) - len(documents),
        unseen=unseen,
    )


def trusted(repository: Repository, beside: Sequence[Descriptor], trust: Trust) -> tuple[Descriptor, ...]:
    """The documents beside an image whose signatures are trusted, and the signatures of the image."""
    passes: dict[str, bool] = {}
    for one in beside:
        if one.artifactType in DOCUMENTS and one.digest not in passes:
            passes[one.digest] = _passes(repository, one, trust)
    return tuple(one for one in beside if passes.get(one.digest, True) or one.artifactType not in DOCUMENTS)


def _passes(repository: Repository, one: Descriptor, trust: Trust) -> bool:
    try:
        trust(f"{repository.name}@{one.digest}", one.digest, attached(repository, one.digest, SIGNATURES)[0])
    except VerifyError:
        return False
    return True


def remote_portrait(
    ctx: Context, engine: Engine | None, reference: str, platform: str, trust: Trust | None = None
) -> ImageSummary:
    """The portrait of an image in a registry. Raises PublishError, EngineError, VerifyError."""
    one = remote_image(ctx, engine, reference, platform, trust)
    settings = one.config.config or SentSettings()
    labels, plan = settings.labels or {}, attached_plan(one)
    verdict = read_verdict(statement_of(one, VERIFICATION).get("verdict"))
    layers = layers_in(one, plan, labels)
    missing = NOTHING_ATTACHED if not one.attached else ""
    words = "1 document beside it has" if one.untrusted == 1 else f"{one.untrusted} documents beside it have"
    left_out = f"{words} no trusted signature: left out" if one.untrusted else ""
    unseen = f"{one.unseen} more documents beside it were not looked at" if one.unseen else ""
    # Packages by the attached SBOM: what is in the image by a purl of the index, or was built for it.
    text = attached_sbom(one)
    rows = parse_sent(text, SentBill, one.reference).packages if text else ()
    kinds = ("SPDXRef-wheel-", "SPDXRef-graft-", "SPDXRef-built-")
    return ImageSummary(
        reference=reference,
        place=one.repository.base,
        digest=one.manifest.config.digest,
        manifest=one.digest,
        platform="/".join(filter(None, (one.config.os, one.config.architecture, one.config.variant))),
        created=labels.get(CREATED, one.config.created),
        size=sum(layer.size for layer in layers),
        packed=True,
        layers=layers,
        labels=labels,
        user=settings.user or "",
        environment=settings.environment or (),
        plan=plan,
        packages={row.name: row.version for row in rows if row.identity.startswith(kinds)},
        debs=debs_of(plan),
        verdict=verdict,
        patches=patch_stories(ctx.catalog, plan) if plan else (),
        mods=mod_stories(ctx.catalog, plan) if plan else (),
        remarks=tuple(filter(None, (missing, left_out, unseen))),
    )


def attached_plan(one: Remote) -> RecordedPlan | None:
    """The plan in the provenance that is attached to an image."""
    definition = statement_of(one, PROVENANCE).get("buildDefinition")
    internal = definition.get("internalParameters") if isinstance(definition, dict) else None
    return recorded_plan(internal.get("plan")) if isinstance(internal, dict) else None


def statement_of(one: Remote, predicate_type: str) -> Mapping[str, Any]:
    """The predicate of an attached statement about this very manifest; nothing where there is none."""
    for found in one.attached:
        if found.artifactType == IN_TOTO and found.annotations.get(PREDICATE) == predicate_type:
            statement = parse_sent(document_of(one.repository, found), SentStatement, one.reference)
            digests = [subject.digest.get("sha256") for subject in statement.subject]
            if one.digest.removeprefix("sha256:") in digests:
                return statement.predicate
    return {}


def attached_sbom(one: Remote) -> bytes | None:
    """The SBOM that is attached to an image, byte by byte."""
    found = next((row for row in one.attached if row.artifactType == SPDX), None)
    return document_of(one.repository, found) if found else None


def layers_in(one: Remote, plan: RecordedPlan | None, labels: Mapping[str, str]) -> tuple[Layer, ...]:
    """The layers as the registry keeps them: compressed sizes."""
    rows = one.manifest.layers
    made = [command.created_by for command in one.config.history or () if not command.empty_layer]
    names = layer_names(plan, labels, len(rows)) if plan else []
    if len(names) != len(rows):
        names = [shortened(words) for words in made] if len(made) == len(rows) else [""] * len(rows)
    return tuple(
        Layer(name=name or f"layer {number}", digest=row.digest, size=row.size)
        for number, (name, row) in enumerate(zip(names, rows, strict=True), 1)
    )
