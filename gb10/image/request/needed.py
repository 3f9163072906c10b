"""The store entries that this checkout's recipes, locks and patches need, and why."""

from collections.abc import Iterator

from gb10.errors import Gb10Error
from gb10.image.context import Context
from gb10.image.plan.programs import GEMM, plan_program
from gb10.image.plan.values import PLACES, Plan
from gb10.image.recipe.arch import ARCHES
from gb10.image.request.planning import Request, make_plan
from gb10.patches.releases import load_releases

Reasons = dict[tuple[str, str], str]
"""Users of each entry, by room and key."""


def reasons(ctx: Context) -> Reasons:
    """Why each entry is needed: by an image of any engine and arch, or by the check of patches against releases."""
    found: Reasons = {}
    for source, pinned in load_releases(ctx.catalog.patches).sources.items():
        for version, release in pinned.releases.items():
            for room in ("downloads", "trees"):
                found[room, release.sha256] = f"patches, {source} {version}"
    for label, plan in _plans(ctx):
        for step in plan.steps:
            for file in step.files:
                found.setdefault(("downloads", file.sha256), label)
            if step.kind in PLACES:
                found.setdefault((PLACES[step.kind], step.key), label)
    return found


def _plans(ctx: Context) -> Iterator[tuple[str, Plan]]:
    """The plans of every image and program. A recipe without a valid plan is reported and skipped."""
    for engine in ctx.catalog.engines():
        try:
            plans = [make_plan(ctx, Request(engine=engine, arch=str(arch))) for arch in ARCHES]
        except Gb10Error as error:
            ctx.reporter.say(f"{engine} has no valid plan, so its needs are unknown: {error.message}")
            continue
        yield from ((f"{engine} {plan.recipe.version}", plan) for plan in plans)
        if GEMM.source in plans[0].recipe.sources:
            yield from (("bench gemm", plan_program(GEMM, plan, ctx.catalog.toolkit)) for plan in plans)
