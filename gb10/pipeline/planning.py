"""Planning: read recipe and lock, refuse a stale lock, plan."""

from dataclasses import dataclass
from pathlib import Path

from gb10.arch import parse_arch
from gb10.catalog import tree_digest
from gb10.errors import UsageError
from gb10.lock import check_lock, load_lock, load_recipe, lock_path
from gb10.pipeline.workshop import Workshop, build_architecture
from gb10.plan import Options, Overlay, Plan, plan_image


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """What the user asked for, as written."""

    engine: str
    arch: str
    platform: str | None = None
    overlay: Path | None = None


def make_plan(shop: Workshop, request: Request) -> Plan:
    """The plan of a request; raises UsageError for a bad recipe or arch, LockStaleError for a stale lock."""
    arch = parse_arch(request.arch)
    path = shop.catalog.recipe(request.engine)
    recipe = load_recipe(path)
    lock = load_lock(lock_path(path))
    check_lock(recipe, lock)
    options = Options(arch=arch, platform=request.platform or arch.platform, build=build_architecture(),
                      overlay=_overlay(request.overlay))  # fmt: skip
    return plan_image(recipe, lock, shop.catalog.toolkit, options)


def _overlay(path: Path | None) -> Overlay | None:
    if path is None:
        return None
    if not path.is_dir():
        raise UsageError(
            f"the overlay {path} is not a directory", hint="give a directory that mirrors the image's root"
        )
    return Overlay(path=str(path.absolute()), digest=tree_digest(path))
