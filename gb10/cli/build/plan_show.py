"""How a plan is shown: a table for people, a document for scripts."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Final

from rich.markup import escape
from rich.table import Table

from gb10.cli.common import print_json, reported
from gb10.cli.verb import print_table
from gb10.core.config import variable
from gb10.core.reporter import terminal
from gb10.errors import UncheckedError
from gb10.image.build.cache_status import CacheStatus
from gb10.image.build.costs import measured
from gb10.image.build.estimate import COMPILED, Needs, StepBytes, obstacles, plan_bytes, step_seconds
from gb10.image.context import Context
from gb10.image.plan.values import Plan, Step
from gb10.image.recipe.image_recipe import WHOLE

NAMES: Final = 3
"""Wheels of a layer that the plan names."""
COLUMNS: Final = ("step", "key", "", "files", "download", "written", "kept", "about s", "what")
MEGABYTES: Final = ("download", "written", "kept")
NUMBERS: Final = ("files", *MEGABYTES, "about s")
NOT_OURS: Final = "; this one's own are kept from its first build on"
WRAPPED: Final = 24
"""Columns that are left for the last one before others are left out."""


def print_plan(
    ctx: Context,
    plan: Plan,
    found: CacheStatus,
    push: Sequence[str] = (),
    unchecked: UncheckedError | None = None,
    *,
    as_json: bool,
    allow_unchecked: bool = False,
) -> None:
    """The plan with hit and miss, what the missing steps need, and the names that would be pushed.

    Raises ``unchecked`` afterwards unless it is allowed, and then says it; the JSON document has its reason.
    """
    problems = obstacles(ctx, plan, found.cached)
    if plan.base:
        from gb10.image.build.proving import received, say_received  # noqa: PLC0415 - for an image of others

        say_received(ctx.reporter, received(ctx, plan))
    if as_json:
        each, _ = plan_bytes(ctx, plan, found.cached, found.engine)
        present = {
            "hit": {step.name: found.cached[step.name] for step in plan.steps},
            "bytes": {name: asdict(moved) for name, moved in each.items()},
            "needs": asdict(found.needs),
        }
        stop = {"problem": "; ".join(problems)} if problems else {}
        left = {"unchecked": (unchecked.where or unchecked.message).splitlines()} if unchecked else {}
        print_json(plan.document() | present | ({"push": list(push)} if push else {}) | stop | left)
    else:
        _print_text(ctx, plan, found, push, problems)
    if unchecked and allow_unchecked:
        ctx.reporter.say("\n  ".join(filter(None, (unchecked.message, unchecked.where))))
    elif unchecked:
        with reported(as_json):
            raise unchecked


def _print_text(ctx: Context, plan: Plan, found: CacheStatus, push: Sequence[str], problems: Sequence[str]) -> None:
    each, total = plan_bytes(ctx, plan, found.cached, found.engine)
    _print_table(ctx, plan, found, each)
    needed, hits = found.needs, sum(found.cached[step.name] for step in plan.steps)
    print(f"{len(plan.steps)} steps: {hits} cached, {len(plan.steps) - hits} to run")
    uncounted = "; what is compiled is not counted" if any(step.kind in COMPILED for step in plan.steps) else ""
    print(
        f"to write about {total.written / 1e9:.1f} GB in all, downloads too; "
        f"to keep about {total.kept / 1e9:.1f} GB in store and engine{uncounted}"
    )
    print(
        f"to download {needed.download / 1e6:,.0f} MB; disk {needed.disk / 1e9:.1f} GB, "
        f"memory {needed.memory / 1e9:.1f} GB (the largest compiler process); about {needed.seconds / 60:.0f} min"
    )
    if needed.compile_bound:
        print(f"to compile: about {needed.compile_seconds:.0f} s, bound by {_bound(needed)}")
    missing = {step.name for step in plan.of_kind("wheel") if not found.cached[step.name]}
    known, recipe = measured(ctx.catalog), plan.recipe
    unknown = [
        name
        for name, build in recipe.wheels.items()
        if name in missing and build.method in WHOLE and recipe.project(build.source) not in known
    ]
    if unknown:
        print(f"how long the compile of {', '.join(unknown)} takes is not known before, and not counted")
    if len(plan.steps) > hits:
        print(f"seconds as on {needed.rates}{NOT_OURS if needed.foreign else ''}")
    for name in plan.options.unpatched:
        print(f"without our patch {name}")
    for rule in plan.slim if plan.of_kind("image") else ():  # a program has no layers to slim
        print(f"slim {rule.name}: {rule.saved:,.1f} MB less{'' if rule.publish else ', own use only'}")
    if plan.slim and plan.of_kind("image"):
        print(f"slim: {sum(rule.saved for rule in plan.slim):,.0f} MB less in the image, {len(plan.slim)} rules")
    for name in push:
        print(f"to push {name}")
    if ctx.env.get(variable("wheel-cache")):
        from gb10.image.publish.sharing import wheel_cache  # noqa: PLC0415 - for those who have such a cache

        cache = wheel_cache(ctx.env)
        if cache and not all(found.cached[step.name] for step in plan.of_kind("wheel")):
            print(f"a build first looks for missing wheels in {cache.repo}; this plan does not")
    for problem in problems:
        print(f"{'`image`' if plan.of_kind('image') else 'this build'} would stop: {problem}")


def _bound(needed: Needs) -> str:
    """What makes a compile no shorter, and the unit that bounds it on any number of cores."""
    if not needed.longest:
        return f"its {needed.compile_bound}"
    longest = f"{needed.longest}, {needed.longest_seconds:.0f} s on any number of cores"
    return longest if needed.compile_bound == "longest unit" else f"its {needed.compile_bound}; longest unit: {longest}"


def _print_table(ctx: Context, plan: Plan, found: CacheStatus, each: Mapping[str, StepBytes]) -> None:
    """A row per step. A narrow terminal gets fewer numbers, at last none; keys and names are never cut."""
    seconds = step_seconds(ctx, plan, (step for step in plan.steps if not found.cached[step.name]))
    rows = [
        dict(zip(COLUMNS, _row(plan, step, each[step.name], seconds.get(step.name)), strict=True))
        for step in plan.steps
    ]
    width = terminal(ctx.env, stderr=False).width
    for left_out in ((), ("files", *MEGABYTES), NUMBERS):
        names = [name for name in COLUMNS if name not in left_out]
        widths = {name: max(len(name), *(len(row[name]) for row in rows)) for name in names[:-1]}
        least = sum(widths.values()) + 2 * len(widths) + WRAPPED
        if least <= width:
            break
    table = Table(title=f"{plan.tags[0]}  {plan.options.platform}", title_justify="left", box=None, pad_edge=False)
    for name in names:
        table.add_column(name, justify="right" if name in NUMBERS else "left", no_wrap=name != "what")
    for row in rows:
        table.add_row(*(escape(row[name]) for name in names))
    print_table(ctx.env, table, least)


def _row(plan: Plan, step: Step, moved: StepBytes, seconds: float | None) -> tuple[str, ...]:
    """``seconds`` that it takes; None for a hit."""
    megabytes = asdict(moved)
    sizes = (f"{megabytes[name] / 1e6:,.0f}" if step.files else "" for name in MEGABYTES)
    files = str(len(step.files) or "")
    state, takes = ("hit", "") if seconds is None else ("miss", f"{seconds:.0f}")
    return step.name, step.key[:12], state, files, *sizes, takes, _about(plan, step)


def _about(plan: Plan, step: Step) -> str:
    """What a step is, in plain words. The text in the plan's record stays as it is."""
    if step.kind == "wheel":
        return _about_wheel(plan, step)
    if step.kind == "graft":
        count = sum(use.installable for use in plan.options.patches_of(step.project or ""))
        patches = f"{count} patches" if count != 1 else "1 patch"
        compiled = " and what is compiled here" if any(plan.step(need).kind == "wheel" for need in step.needs) else ""
        return f"{step.project}'s wheel with {patches}{compiled}"
    if step.kind == "proof":
        return "scan and check the GPU code"
    return _names(step) if step.kind == "layer" and step.files else step.about


def _about_wheel(plan: Plan, step: Step) -> str:
    build, arch = plan.recipe.wheels[step.name], plan.options.arch
    if build.method == "source":
        return f"{build.source}'s targets {', '.join(build.targets)}, for {arch}"
    if build.method == "package":
        return f"the package {build.source}, for {arch}, compiled as {arch.torch}"
    if build.method == "library":
        return f"{build.source}, for files of {build.replaces}, for {arch}, compiled as {arch.torch}"
    whose = "our" if build.method == "extension" else "FlashInfer"
    return f"{whose} kernels, set {build.kernels}, for {arch}"


def _names(step: Step) -> str:
    """The number of a layer's wheels and the first names."""
    names = ", ".join(file.filename.partition("-")[0] for file in step.files[:NAMES])
    count = f"{len(step.files)} wheels" if len(step.files) > 1 else "1 wheel"
    return f"{count}: {names}{', …' if len(step.files) > NAMES else ''}"
