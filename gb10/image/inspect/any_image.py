"""Gathering a portrait, or an SBOM: from the engine if it has the image, else from the registry of its name."""

from gb10.containers.connection import Engine
from gb10.containers.images import find_image
from gb10.containers.reference import is_reference, registry_of
from gb10.containers.registry.documents import sent
from gb10.errors import UsageError
from gb10.image.build.inspect import no_image
from gb10.image.build.stage import engine_with_images
from gb10.image.context import Context
from gb10.image.inspect.attestations import attestations_of
from gb10.image.inspect.local import local_image, local_summary
from gb10.image.inspect.remote import SentBill, Trust, attached_sbom, remote_image, remote_portrait
from gb10.image.inspect.summary import ImageSummary
from gb10.image.proof.scans import proven
from gb10.image.recipe.arch import Arch


def portrait(ctx: Context, reference: str, arch: Arch, trust: Trust | None = None) -> ImageSummary:
    """The portrait of an image; with ``trust``, of the one in the registry, and only if it is trusted.

    Raises UsageError, EngineError, PublishError, VerifyError.
    """
    engine = engine_with_images(ctx)
    if engine and trust is None and find_image(engine, reference):
        return local_summary(ctx, reference, arch)
    require_registry(engine, reference)
    return remote_portrait(ctx, engine, reference, arch.platform, trust)


def sbom(ctx: Context, reference: str, arch: Arch, trust: Trust | None = None) -> bytes:
    """The SBOM of an image of ours, or the one that is attached to an image in a registry; ``trust`` as above.

    Raises UsageError when there is none, EngineError, PublishError, VerifyError.
    """
    engine = engine_with_images(ctx)
    if engine and trust is None and find_image(engine, reference):
        _, image = local_image(ctx, reference)
        record = proven(ctx.store, image.id)
        return attestations_of(ctx, engine, image, record.config if record else image.id).sbom
    require_registry(engine, reference)
    found = attached_sbom(remote_image(ctx, engine, reference, arch.platform, trust))
    if found is None:
        kind = "SBOM with a trusted signature" if trust else "SBOM"
        raise UsageError(f"no {kind} is attached to {reference}", hint="`publish` attaches one to an image of gb10")
    sent(found, SentBill, reference)  # JSON holds no control character that a terminal would obey
    return found


def require_registry(engine: Engine | None, reference: str) -> None:
    """Raise UsageError for a name that the engine has not, and that names no registry."""
    if not is_reference(reference) or registry_of(reference) is None:
        raise no_image(engine, reference)
