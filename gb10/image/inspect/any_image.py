"""Gathering a portrait, or an SBOM: from the engine if it has the image, else from the registry of its name."""

from dataclasses import replace

from gb10.containers.connection import Engine
from gb10.containers.images import find_image
from gb10.containers.reference import is_reference, registry_of, split_digest, split_reference
from gb10.containers.registry.documents import parse_sent
from gb10.errors import PublishError, UsageError, VerifyError
from gb10.image.base.base_reading import inspect_base, inspect_local, known_base
from gb10.image.build.inspect import no_image
from gb10.image.build.stage import engine_with_images
from gb10.image.context import Context
from gb10.image.inspect.attestations import attestations_of
from gb10.image.inspect.local import local_image, local_summary
from gb10.image.inspect.remote import NOTHING_ATTACHED, SentBill, Trust, attached_sbom, remote_image, remote_portrait
from gb10.image.inspect.summary import ImageSummary
from gb10.image.proof.scans import proven
from gb10.image.recipe.arch import Arch
from gb10.image.recipe.base_image import BaseImage


def portrait(
    ctx: Context, reference: str, arch: Arch, trust: Trust | None = None, *, as_base: bool = False
) -> ImageSummary:
    """The portrait of an image; with ``trust``, of the one in the registry, and only if it is trusted.

    ``as_base``: its layers are read for what it is to who builds on it. Where those of an image in a registry were read
    before, that is told anyway. Raises UsageError, EngineError, PublishError, VerifyError.
    """
    engine = engine_with_images(ctx)
    if engine and trust is None and find_image(engine, reference):
        local = local_summary(ctx, reference, arch)
        return _with_base(local, inspect_local(ctx, engine, reference, arch.platform)) if as_base else local
    require_registry(engine, reference)
    found = remote_portrait(ctx, engine, reference, arch.platform, trust)
    pinned = f"{split_reference(split_digest(reference)[0])[0]}@{found.manifest}"
    if as_base:
        return _with_base(found, inspect_base(ctx, pinned, arch.platform, engine=engine))
    if found.plan:
        return found
    try:
        known = known_base(ctx, pinned, arch.platform, engine=engine)
    except (PublishError, UsageError, VerifyError) as error:
        return replace(found, remarks=(*found.remarks, f"nothing can be built on it: {error.message}"))
    way = f"`show {reference} --base` reads its {found.size / 1e9:.2f} GB once, and tells what it is to build on"
    return _with_base(found, known) if known else replace(found, remarks=(*found.remarks, way))


def _with_base(one: ImageSummary, base: BaseImage) -> ImageSummary:
    """The portrait with what was read of the layers; an attached list of packages is kept."""
    read = {name: found.version for name, found in base.installed.items()}
    name = one.reference if not one.packed else base.reference
    pull = f"`pull {name} --platform {base.platform}`, then " if one.packed else ""
    way = f"{pull}`verify {name}` lists what a GB10 cannot run of it"
    remarks = (
        *(remark for remark in one.remarks if remark != NOTHING_ATTACHED),
        *base.remarks,
        *(() if one.plan else (way,)),
    )
    return replace(one, packages=one.packages or read, base=base, remarks=remarks)


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
    parse_sent(found, SentBill, reference)  # JSON holds no control character that a terminal would obey
    return found


def require_registry(engine: Engine | None, reference: str) -> None:
    """Raise UsageError for a name that the engine has not, and that names no registry."""
    if not is_reference(reference) or registry_of(reference) is None:
        raise no_image(engine, reference)
