"""The image: wheels, then layers with their scans in one solve, proof, tags: a tag names only what was scanned."""

import platform
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from gb10.containers.connection import Engine
from gb10.containers.image_reading import copy_files
from gb10.containers.images import ImageInfo, passing_tag, require_image, tag_image
from gb10.core.files import digest
from gb10.core.reporter import Reporter
from gb10.core.store import Store
from gb10.image.build.assemble import image_request
from gb10.image.build.built import one_by_one, remember_built
from gb10.image.build.changed_files import changed_files
from gb10.image.build.contexts import BuildContext
from gb10.image.build.first_request import keep_report, say_report
from gb10.image.build.inspect import Wrong, tuned_problems
from gb10.image.build.mod_layers import naming_mods, note_build, ready_emulation
from gb10.image.build.outlook import ASSEMBLY, outlook
from gb10.image.build.prepare import prepare_build_context
from gb10.image.build.stage import check_builder, check_caches, ready_engine, run_build
from gb10.image.build.upstream import forget_sent
from gb10.image.build.wheels import say_left_out, wheel_file
from gb10.image.context import Context
from gb10.image.moe.tuned_name import SPELLED
from gb10.image.plan.dag import torch_problem
from gb10.image.plan.values import Plan
from gb10.image.proof.arch_match import Verdict
from gb10.image.proof.check import Subject
from gb10.image.proof.scans import (
    SCANS,
    Record,
    forget_record,
    known,
    planned_subject,
    proof_path,
    prove_layers,
    read_layers,
    remember_layers,
    require_layers,
    require_scanned,
    write_record_in,
)
from gb10.image.proof.wheel_files import Manifest, read_manifest


@dataclass(frozen=True, kw_only=True, slots=True)
class Verified:
    """A verified image. ``digest`` is the config's digest, ``id`` the engine's name for the image."""

    digest: str
    id: str
    host: str
    proof: str
    tags: tuple[str, ...]
    size: int
    layers: int
    verdict: Verdict
    hit: bool


def require_torch(reporter: Reporter, plan: Plan) -> None:
    """Raise UsageError when torch is not built with the recipe's CUDA. If that is unknown, print a note."""
    problem = torch_problem(plan)
    if problem:
        raise problem
    torch = plan.torch
    if torch and torch.cuda is None:
        reporter.say(f"torch {torch.version}: the lock does not name its CUDA version; not checked")


def build_image(ctx: Context, plan: Plan, *, rebuild: Collection[str], tag: str | None) -> Verified:
    """The verified image of a plan, tagged; raises FetchError, BuildError or VerifyError, and then moves no tag.

    A cache hit takes no lock: it does not wait for another run's build.
    """
    tags = (*plan.tags, *([tag] if tag else ()))
    engine = ready_engine(ctx)
    check_caches(ctx, engine)
    rebuild_id = bool(rebuild or ctx.cache_to)
    hit = None if rebuild_id else _hit(ctx, engine, plan, tags)
    if hit:
        return hit
    with ctx.store.locked("image", ctx.reporter.waiting_for("image")):
        engine = ready_engine(ctx)  # another run may have stopped it meanwhile
        hit = None if rebuild_id else _hit(ctx, engine, plan, tags)
        if hit:
            return hit
        check_builder(ctx, engine)
        if rebuild:
            forget_record(ctx.store, plan)  # should it break off, the next run must not find the old image
        built = _tagged(ctx, engine, plan, _build(ctx, engine, plan, rebuild), tags, hit=False)
        say_report(ctx.reporter, ctx.store, plan)
        return built


def _hit(ctx: Context, engine: Engine, plan: Plan, tags: tuple[str, ...]) -> Verified | None:
    """The engine's image of the plan, tagged. None when it must be built, or another run is replacing it."""
    try:
        there = known(ctx.store, engine, plan)
        if there is None:
            return None
        ctx.reporter.hit("image")
        for wheel in _compiled(ctx.store, plan):
            say_left_out(ctx.reporter, wheel)
        say_report(ctx.reporter, ctx.store, plan)
        return _tagged(ctx, engine, plan, there, tags, hit=True)
    except FileNotFoundError:
        return None


def _tagged(ctx: Context, engine: Engine, plan: Plan, record: Record, tags: tuple[str, ...], *, hit: bool) -> Verified:
    image = require_image(engine, record.id)
    require_scanned(image.diff_ids, record.layers)
    verdict = verdict_of(ctx, plan)
    tag_image(engine, record.id, tags)
    return Verified(
        digest=record.config,
        id=image.id,
        host=engine.endpoint.host,
        proof=str(proof_path(ctx.store, plan)),
        tags=tags,
        size=image.size,
        layers=len(image.diff_ids),
        verdict=verdict,
        hit=hit,
    )


def _build(ctx: Context, engine: Engine, plan: Plan, rebuild: Collection[str]) -> Record:
    ready_emulation(ctx, engine, plan)
    with (
        prepare_build_context(ctx, plan, engine, rebuild) as context,
        naming_mods(plan),
        passing_tag(engine, unproven_tag(ctx.store, plan)) as tag,
    ):
        config = _export(ctx, engine, plan, context, tag)
        image = require_image(engine, tag)
        record = Record(id=image.id, config=config or image.id, layers=image.diff_ids)
        _prove(ctx, engine, plan, image, record)
        tag_image(engine, image.id, (plan.tags[-1],))
    if one_by_one(ctx, engine):
        forget_sent(engine, plan)
    remember_layers(ctx, plan, record.layers)
    remember_built(ctx.store, engine, plan)
    return record


def unproven_tag(store: Store, plan: Plan) -> str:
    """The name of the plan's image before it is verified; another store's build on the same engine has another one."""
    builder = digest([platform.node(), str(store.root.resolve())])[:8]
    return f"{plan.recipe.repository}:unproven-{plan.key[:12]}.{builder}"


def _export(ctx: Context, engine: Engine, plan: Plan, context: BuildContext, tag: str) -> str | None:
    """Build and scan the layers, and hand them to the engine's image store; the config's digest if buildx names it."""
    ctx.forecast.begin(ASSEMBLY)
    with ctx.reporter.task(ASSEMBLY, unit="steps", outlook=outlook(ctx, ASSEMBLY)) as task:
        request = replace(image_request(plan, context, engine, tag), cache_to=ctx.cache_to)
        note = partial(note_build, ctx.reporter, plan, task)
        return run_build(ctx, engine, request, plan.step("image"), note).config


def _prove(ctx: Context, engine: Engine, plan: Plan, image: ImageInfo, record: Record) -> None:
    """Read the scans that the image holds of its own layers, and keep them; raises VerifyError, then keeps none."""
    recorded = changed_files(ctx.store, plan)

    def make(work: Path) -> None:
        copy_files(engine, ctx.store, image, SCANS, work)
        keep_report(engine, ctx.store, plan, image, work)
        require_layers(plan, record.layers)
        prove_layers(work, plan, _subject(ctx, plan, recorded, _tuned(ctx, engine, plan, image, work)))
        write_record_in(work, record)

    ctx.store.replace(proof_path(ctx.store, plan), make)


def verdict_of(ctx: Context, plan: Plan) -> Verdict:
    """Check a plan's stored scans. Raises VerifyError as the first check does."""
    return prove_layers(proof_path(ctx.store, plan), plan, _subject(ctx, plan, {}, ()))


def _subject(ctx: Context, plan: Plan, recorded: Mapping[str, tuple[str, str]], tuned: Wrong) -> Subject:
    subject = planned_subject(plan, manifests(ctx.store, plan), ctx.catalog.allowances)
    return replace(subject, image=replace(subject.image, recorded=recorded, tuned=tuned)) if subject.image else subject


def _tuned(ctx: Context, engine: Engine, plan: Plan, image: ImageInfo, folder: Path) -> Wrong:
    """What is wrong with files of tiles, if patches, mods or the overlay bring some: upstream's were judged before."""
    changed = read_layers(folder, plan).scan.contents
    brought = any(path.endswith(".json") and SPELLED.lower() in path.lower() for path in changed)
    return tuned_problems(ctx, engine, image, plan.tags[-1], changed) if brought else ()


def manifests(store: Store, plan: Plan) -> list[Manifest]:
    """What the wheels built here declare."""
    return [read_manifest(wheel) for wheel in _compiled(store, plan)]


def _compiled(store: Store, plan: Plan) -> list[Path]:
    return [wheel_file(store.entry("wheels", step.key)) for step in plan.of_kind("wheel")]
