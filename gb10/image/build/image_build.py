"""The image: wheels, then layers with their scans in one solve, proof, tags: a tag names only what was scanned."""

import json
import platform
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

from gb10.containers.connection import Engine
from gb10.containers.images import ImageInfo, copy_files, passing_tag, require_image, tag_image
from gb10.containers.reach import look
from gb10.core.concurrency import Stop, beside
from gb10.core.files import digest
from gb10.core.reporter import Reporter
from gb10.core.store import Store
from gb10.image.build.assemble import image_files, image_folders, image_request, upstream_folders, upstream_request
from gb10.image.build.bases import STAGES, base_tars, bases_as_images, make_rootfs
from gb10.image.build.contexts import BuildContext, build_context, keep_context
from gb10.image.build.estimate import ASSEMBLY, DOWNLOAD, UPSTREAM, Needs, needs, outlook
from gb10.image.build.inspect import Wrong, tuned_problems
from gb10.image.build.mod_layers import mod_network, mod_secrets, naming_mods, note_build, ready_emulation
from gb10.image.build.proving import changed_files, keep_report, say_report
from gb10.image.build.stage import (
    IN_ENGINE,
    check_builder,
    check_caches,
    engine_room,
    is_built,
    note_steps,
    one_by_one,
    ready_engine,
    remember_built,
    run_build,
)
from gb10.image.build.upstream import Upstream, forget_sent, upstream_image, upstream_layers, upstream_wheels
from gb10.image.build.wheels import (
    build_wheels,
    check_sources,
    early_grafts,
    installable,
    late_grafts,
    say_left_out,
    show_in_checkout,
    wheel_file,
)
from gb10.image.context import Context
from gb10.image.locked_files import fetch_files
from gb10.image.moe.tuned_name import SPELLED
from gb10.image.plan.dag import torch_problem
from gb10.image.plan.render import bake
from gb10.image.plan.values import PLACES, Plan, Step
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


@contextmanager
def prepare_build_context(
    ctx: Context,
    plan: Plan,
    engine: Engine,
    rebuild: Collection[str] = (),
    *,
    layers: bool = True,
    rebuild_id: str = "",
) -> Iterator[BuildContext]:
    """Bases, layers' wheels and compiled wheels as a build context; deleted on exit.

    With ``layers``, upstream's are built beside the compilers; ``rebuild_id`` as in ``upstream_image``. Raises
    FetchError, BuildError and VerifyError of the steps it runs.
    """
    # first: a patch that does not fit stops before anything is compiled
    grafts = early_grafts(ctx, plan, rebuild_id=bool(rebuild_id))
    check_sources(ctx, plan)
    compiling = bool(rebuild) or not all(ctx.store.entry("wheels", step.key).exists() for step in plan.of_kind("wheel"))
    both = replace(ctx, stop=Stop())
    ahead = partial(_ahead, both, plan, engine if layers else None, compiling=compiling, rebuild_id=rebuild_id)
    with beside(both.stop, ahead) as ready:
        built = build_wheels(both, plan, lambda: engine, rebuild=rebuild)
        grafts += late_grafts(both, plan, rebuild_id=bool(rebuild_id))
        upstream = ready.result()
        if upstream:
            forget_sent(engine, plan, compiled=compiling)
        wheels = installable(plan, built)
        for wheel in (*wheels, *grafts):
            show_in_checkout(ctx, wheel)
        folders = image_folders(ctx.store, plan, wheels, upstream_wheels(plan) if upstream else ())
        lent = bases_as_images(ctx, plan, engine, STAGES, rebuild_id) if layers else {}
        files = {**image_files(ctx, plan), **({} if lent else base_tars(ctx.store, plan))}
        with build_context(ctx.store, files, folders) as context, mod_secrets(ctx, plan) as secrets:
            contexts = {**context.contexts, **lent, **(upstream.contexts if upstream else {})}
            yield replace(context, contexts=contexts, secrets=secrets, network=mod_network(plan, engine))


def leave_context(ctx: Context, plan: Plan, engine: Engine, target: Path) -> None:
    """Leave the image's build context in ``target``: ``docker buildx bake`` there builds the same image."""
    with prepare_build_context(ctx, plan, engine, layers=False) as context:
        keep_context(context, target, json.dumps(bake(plan), indent=1) + "\n")


def _ahead(ctx: Context, plan: Plan, engine: Engine | None, *, compiling: bool, rebuild_id: str) -> Upstream | None:
    """The layers' wheels and the bases; with an engine, also upstream's layers.

    An engine that does not share layers with BuildKit makes them in the image's own solve, and before it only while a
    compiler runs.
    """
    ctx.forecast.begin(DOWNLOAD)
    fetch_files(ctx, (plan.step("tools"), *plan.of_kind("layer"), *plan.of_kind("rehearsal")))
    ctx.forecast.end(DOWNLOAD)
    if engine and one_by_one(ctx, engine):  # its bases are images, made when they are missing
        return upstream_image(ctx, plan, engine, rebuild_id) if upstream_layers(plan) else None
    for base in plan.of_kind("rootfs"):
        make_rootfs(ctx, plan, base, rebuild_id=bool(rebuild_id))
    if engine and upstream_layers(plan) and compiling and not rebuild_id:
        _build_upstream(ctx, plan, engine)
    return None


def _build_upstream(ctx: Context, plan: Plan, engine: Engine) -> None:
    files = {**image_files(ctx, plan), **base_tars(ctx.store, plan)}
    ctx.forecast.begin(UPSTREAM)
    with (
        build_context(ctx.store, files, upstream_folders(ctx.store, plan)) as context,
        ctx.reporter.task(UPSTREAM, unit="steps", outlook=outlook(ctx, UPSTREAM)) as task,
    ):
        request = upstream_request(plan, context)
        run_build(ctx, engine, request, plan.step("image"), lambda event: note_steps(ctx.reporter, task, event))
    ctx.forecast.end(UPSTREAM)


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


STORED: Final = PLACES.keys() - {"proof"}
"""Kinds of steps with a result in the store, not in an engine."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CacheStatus:
    """The running engine, whether each step is a cache hit (by name), and what the others need."""

    engine: Engine | None
    there: Mapping[str, bool]
    needs: Needs


def survey(ctx: Context, plan: Plan, rebuild: Collection[str] = ()) -> CacheStatus:
    """What is cached, before any work. ``rebuild`` names steps that are made again. Raises EngineError."""
    running = look(ctx.env, ctx.store)
    engine = replace(running, builder=ctx.builder) if running else None
    there = _presence(ctx.store, plan, rebuild, engine)
    return CacheStatus(engine=engine, there=there, needs=needs(ctx, plan, there, engine))


def survey_again(ctx: Context, plan: Plan, rebuild: Collection[str]) -> CacheStatus:
    """The survey of a run that makes everything again but compiled wheels that are in the store."""
    found = survey(ctx, plan, rebuild)
    there = {step.name: found.there[step.name] and step.kind == "wheel" for step in plan.steps}
    return replace(found, there=there, needs=needs(ctx, plan, there, found.engine))


def _presence(store: Store, plan: Plan, rebuild: Collection[str], engine: Engine | None) -> Mapping[str, bool]:
    """Step name -> whether it is a cache hit. Rebuilt steps, and steps that depend on them, are not."""
    image = engine is not None and bool(plan.of_kind("image")) and known(store, engine, plan) is not None
    room = engine_room(engine) if engine else None
    there: dict[str, bool] = {}
    for step in plan.steps:
        stands = all(there[need] for need in step.needs) or step.kind in STORED
        again = step.name in rebuild or (step.kind == "graft" and any(need in rebuild for need in step.needs))
        there[step.name] = not again and stands and (image or _stored(store, step, room))
    return there


def _stored(store: Store, step: Step, room: str | None) -> bool:
    if step.kind in STORED:
        return store.entry(PLACES[step.kind], step.key).exists()
    return step.kind in IN_ENGINE and is_built(store, room, step)
