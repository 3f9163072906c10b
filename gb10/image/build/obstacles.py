"""Obstacles: what would stop a build for certain, as far as it shows without starting or downloading anything."""

from collections.abc import Mapping
from pathlib import Path

from gb10.core.fetch import stored
from gb10.errors import UsageError
from gb10.image.context import Context
from gb10.image.plan.dag import torch_problem
from gb10.image.plan.values import Plan
from gb10.sources.debian.mirror import mirror_url


def obstacles(ctx: Context, plan: Plan, there: Mapping[str, bool], apt: Path | None = None) -> list[str]:
    """What would stop this build, a line each. ``there`` names the cache hits."""
    torch = torch_problem(plan) if plan.of_kind("image") else None
    mirror = _mirror_problem(ctx, plan, there, apt)
    return [*([torch.message] if torch else []), *([f"{mirror.message}: {mirror.hint}"] if mirror else [])]


def _mirror_problem(ctx: Context, plan: Plan, there: Mapping[str, bool], apt: Path | None) -> UsageError | None:
    """An error when Debian packages must be downloaded and no mirror is known; else None."""
    bases = [step for step in plan.of_kind("rootfs") if not there[step.name]]
    if all(stored(ctx.store, file).exists() for step in bases for file in step.files):
        return None
    try:
        mirror_url(ctx.env, apt)
    except UsageError as error:
        return error
    return None
