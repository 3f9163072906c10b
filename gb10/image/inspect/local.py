"""An image of the engine: what it says of itself, if it is one of ours; else what a scan of its files finds."""

from collections.abc import Mapping, Sequence

from packaging.utils import canonicalize_name

from gb10.containers.connection import Engine
from gb10.containers.images import ImageInfo, find_image, history, read_folders
from gb10.containers.registry.referrers import CREATED
from gb10.image.build.inspect import check_platform, inspect_image, no_image
from gb10.image.build.stage import engine_with_images
from gb10.image.context import Context
from gb10.image.inspect.attestations import mod_stories, patch_stories
from gb10.image.inspect.summary import ImageSummary, Layer, layer_names
from gb10.image.plan.plan_record import RecordedPlan
from gb10.image.proof.arch_match import judge
from gb10.image.proof.scans import PLAN, SCANS, own_plan, own_scan, own_scans
from gb10.image.recipe.arch import Arch
from gb10.image.sbom.parts import deb_part
from gb10.inside.scan.scan import Scan

SETTING = (
    *("ARG", "CMD", "ENTRYPOINT", "ENV", "EXPOSE", "HEALTHCHECK", "LABEL"),
    *("MAINTAINER", "ONBUILD", "SHELL", "STOPSIGNAL", "USER", "VOLUME"),
)
"""Instructions that make no layer."""
WORDS = 60
"""Characters of a command that a layer is named by."""


def local_image(ctx: Context, reference: str) -> tuple[Engine, ImageInfo]:
    """The engine and its image of this name. Raises UsageError when there is none."""
    engine = engine_with_images(ctx)
    image = find_image(engine, reference) if engine else None
    if engine is None or image is None:
        raise no_image(engine, reference)
    check_platform(reference, image.platform)
    return engine, image


def local_layers(ctx: Context, reference: str) -> tuple[Layer, ...]:
    """The layers of an image of the engine, by its history alone."""
    engine, image = local_image(ctx, reference)
    return layers_of(None, image, history(engine, image))


def local_summary(ctx: Context, reference: str, arch: Arch) -> ImageSummary:
    """The portrait of an image of the engine; one that is not ours is scanned, which takes minutes the first time."""
    engine, image = local_image(ctx, reference)
    own = read_folders(engine, ctx.store, image, [PLAN, SCANS])[0]
    plan = own_plan(own)
    base, remarks = plan.base if plan else None, tuple[str, ...]()
    if base:
        remarks = (f"built on {base.reference}: what that holds beside Python packages is shown by `show` of it",)
        scan = own_scan(reference, own)
    elif plan:
        scan, remarks = _own(reference, own)
    else:
        scan = inspect_image(ctx, reference).found.scan
        remarks = ("it holds no plan of gb10: patches, sources and Debian packages are not known",)
    return ImageSummary(
        reference=reference,
        place=engine.name,
        digest=image.id,
        platform=image.platform,
        created=image.labels.get(CREATED, image.created),
        size=image.size,
        packed=False,
        layers=layers_of(plan, image, history(engine, image)),
        labels=image.labels,
        user=image.user,
        environment=image.environment,
        plan=plan,
        packages={
            **{name: one.version for name, one in (base.installed if base else {}).items()},
            **{canonicalize_name(one.name): one.version for one in scan.distributions},
        },
        debs=debs_of(plan),
        verdict=judge(scan, arch) if scan.binaries else None,
        groups={name: scan.sizes for name, scan in own_scans(own).items()},
        patches=patch_stories(ctx.catalog, plan) if plan else (),
        mods=mod_stories(ctx.catalog, plan) if plan else (),
        remarks=remarks,
    )


def _own(reference: str, own: Mapping[str, bytes]) -> tuple[Scan, tuple[str, ...]]:
    """The scan that an image of ours holds."""
    scan = own_scan(reference, own)
    older = "its scans are of another release of gb10: packages and GPU code are not shown; `verify` reads them"
    return scan, () if scan.binaries else (older,)


def debs_of(plan: RecordedPlan | None) -> dict[str, str]:
    """The Debian packages of the base, by the plan."""
    steps = plan.of_kind("rootfs") if plan else ()
    parts = (deb_part(file, "", "") for step in steps if step.name == "base-image" for file in step.files)
    return {part.name: part.version for part in parts}


def layers_of(plan: RecordedPlan | None, image: ImageInfo, made: Sequence[tuple[str, int]]) -> tuple[Layer, ...]:
    """The layers with their sizes, if the engine's history tells as many as there are. Pure."""
    count = len(image.diff_ids)
    names = layer_names(plan, image.labels, count) if plan else []
    names = names if len(names) == count else [f"layer {number}" for number in range(1, count + 1)]
    filled = next((rows for rows in (_filled(made), _layered(made)) if len(rows) == count), None)
    if filled is None:
        return tuple(
            Layer(name=name, digest=digest, size=0) for name, digest in zip(names, image.diff_ids, strict=True)
        )
    rows = zip(names, image.diff_ids, filled, strict=True)
    return tuple(
        Layer(name=name if plan else shortened(words), digest=digest, size=size) for name, digest, (words, size) in rows
    )


def _filled(made: Sequence[tuple[str, int]]) -> list[tuple[str, int]]:
    """The commands that put something into the image."""
    return [(words, size) for words, size in made if size]


def _layered(made: Sequence[tuple[str, int]]) -> list[tuple[str, int]]:
    """The commands that make a layer, though it may be empty, by their first word."""
    rows = [(words.removeprefix("/bin/sh -c ").removeprefix("#(nop) ").split(), size) for words, size in made]
    return [(" ".join(words), size) for words, size in rows if not words or words[0] not in SETTING]


def shortened(words: str) -> str:
    """The beginning of a command, in one line. Pure."""
    plain = " ".join(words.removeprefix("/bin/sh -c ").removeprefix("#(nop) ").split())
    return plain if len(plain) <= WORDS else f"{plain[: WORDS - 1]}…"
