"""Images on an image of others, when they are published: what its licence forbids, and how its layers travel."""

from collections.abc import Iterable, Mapping
from typing import Final

from gb10.containers.connection import Engine
from gb10.containers.images import ImageInfo, read_folders
from gb10.containers.reference import registry_of
from gb10.core.reporter import Reporter
from gb10.core.store import Store
from gb10.errors import PublishError, UsageError
from gb10.image.plan.plan_record import BASE_DIGEST
from gb10.image.proof.scans import PLAN, own_plan
from gb10.image.recipe.base_image import BaseImage

NGC: Final = "nvcr.io"
BUILT_BY_NGC: Final = ("com.nvidia.build.id", "com.nvidia.build.ref")
"""Labels of the containers that NVIDIA builds for NGC. Its CUDA images of Docker Hub, on which others build what they
publish themselves, have none of them."""
LICENCE: Final = "NVIDIA's licence for its NGC containers does not let you publish what is built on one"
BUILD_LOCALLY: Final = (
    "publish the recipe instead, and build there: write base: {image: …} and your patches into a file, then\n"
    "./build.py lock --engine FILE and, on each machine, ./build.py image --engine FILE"
)


def base_of(engine: Engine, store: Store, image: ImageInfo) -> BaseImage | None:
    """The image of others that an image of ours is built on; None for another one. Raises EngineError."""
    if BASE_DIGEST not in image.labels:
        return None
    plan = own_plan(read_folders(engine, store, image, [PLAN])[0])
    return plan.base if plan else None


def require_republishable(base: BaseImage, labels: Mapping[str, str]) -> None:
    """Raise PublishError for a base that may not be published again. ``labels`` are those of the image on it. Pure."""
    host = registry_of(base.reference.partition("@")[0]) or ""
    found = next((name for name in BUILT_BY_NGC if name in labels or name in base.labels), None)
    if host == NGC or host.endswith(f".{NGC}"):
        raise PublishError(
            f"{base.reference} is not published again: {LICENCE}", where=f"it is of {host}", hint=BUILD_LOCALLY
        )
    if found:
        raise PublishError(
            f"{base.reference} is not published again: {LICENCE}", where=f"its label {found}", hint=BUILD_LOCALLY
        )


def refuse_zstd(base: BaseImage) -> None:
    """Raise UsageError: other bytes for the base's layers would be layers that no registry and no node has. Pure."""
    raise UsageError(
        "--compression would compress the layers of the base again: no registry and no node has them so",
        where=base.reference,
        hint="leave out --compression: what is added is small",
    )


def say_travel(reporter: Reporter, base: BaseImage, names: Iterable[str]) -> None:
    """Print for each registry how the layers of the base get there."""
    size = sum(layer.size for layer in base.layers)
    own = registry_of(base.reference.partition("@")[0])
    for host in dict.fromkeys(registry_of(name) for name in names):
        if host == own:
            reporter.say(f"{host or 'docker.io'}: has the base's {len(base.layers)} layers, which are mounted there")
        else:
            reporter.say(
                f"{host or 'docker.io'}: the base's {len(base.layers)} layers, {size / 1e6:,.0f} MB, are copied there, "
                "but for those that it has"
            )
