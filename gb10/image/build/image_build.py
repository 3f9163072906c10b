"""One build of an image: what is cached, wheels, layers with their scans in one solve, proof, tags.

A tag names only what was scanned.
"""

import json
import platform
import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from gb10.containers.connection import Engine
from gb10.containers.images import passing_tag, require_image, tag_image
from gb10.containers.packages import unpacked
from gb10.containers.reach import connect_or_start
from gb10.core.concurrency import Stop, run_in_background
from gb10.core.files import digest
from gb10.core.store import Store
from gb10.errors import UsageError
from gb10.image.base.base_sources import ready_sources
from gb10.image.build.assemble import build_request, image_files, image_folders, image_request, upstream_folders
from gb10.image.build.base_build import on_image_context
from gb10.image.build.bases import STAGES, Bases, base_tars, make_rootfs
from gb10.image.build.cache_status import CacheStatus, check_cache, selected
from gb10.image.build.contexts import BuildContext, Content, build_context
from gb10.image.build.costs import keep_speed
from gb10.image.build.estimate import (
    ASSEMBLY,
    DOWNLOAD,
    UPSTREAM,
    check_disk_and_memory,
    needs,
    outlook,
    with_forecast,
)
from gb10.image.build.input_checks import check_sources
from gb10.image.build.kept_by_engine import one_by_one
from gb10.image.build.mod_layers import mod_network, mod_secrets, naming_mods, note_build, ready_emulation
from gb10.image.build.proving import Received, prove_image, received, say_report, stored_verdict
from gb10.image.build.stage import (
    check_builder,
    check_caches,
    note_steps,
    ready_engine,
    remember_built,
    run_build,
    with_builder,
)
from gb10.image.build.upstream import Upstream, UpstreamLayers, forget_sent, upstream_layers, upstream_wheels
from gb10.image.build.wheels import (
    Wheel,
    build_wheels,
    early_grafts,
    installable,
    late_grafts,
    say_left_out,
    show_in_checkout,
    wheel_file,
)
from gb10.image.context import Context
from gb10.image.locked_files import fetch_files
from gb10.image.plan.render import bake
from gb10.image.plan.values import Plan
from gb10.image.proof.arch_match import Verdict
from gb10.image.proof.scans import (
    Record,
    find_verified_image,
    forget_record,
    proof_path,
    remember_layers,
    require_scanned,
)
from gb10.image.recipe.locked import LockedPart, LockedTaken


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
    received: Received | None = None
    """What is wrong with the image of others that it is built on."""


class ImageBuild:
    """One build of a plan on this machine: its wheels alone, or the whole image.

    ``rebuild`` names wheel steps, sources, or our own kernels that are compiled again. ``rebuild_id`` names a run that
    makes everything again, beside what is there, but compiled wheels in the store: see ``rebuild.reproduce``.
    """

    def __init__(self, ctx: Context, plan: Plan, rebuild: Collection[str] = (), *, rebuild_id: str = "") -> None:
        """Raises UsageError for a name in ``rebuild`` that stands for no wheel of the plan."""
        self.ctx = ctx
        self.plan = plan
        self.rebuild = selected(plan, rebuild)
        self.rebuild_id = rebuild_id
        self._status: CacheStatus | None = None

    def status(self) -> CacheStatus:
        """What is cached, and what the other steps need; asked once, starts nothing. Raises EngineError."""
        if self._status is None:
            found = check_cache(self.ctx, self.plan, self.rebuild)
            if self.rebuild_id:
                kept = {step.name: found.cached[step.name] and step.kind == "wheel" for step in self.plan.steps}
                found = replace(found, cached=kept, needs=needs(self.ctx, self.plan, kept, found.engine))
            self._status = found
        return self._status

    def check_engine(self) -> None:
        """Check a builder that the user names, also when nothing is left to build; raises EngineError.

        For an image, start the embedded engine if it ran here before: layers of a stopped engine count as missing.
        """
        if self.ctx.builder:
            self._connect()
        if self.plan.of_kind("image") and unpacked(self.ctx.store):
            connect_or_start(self.ctx.env, self.ctx.store)

    def check(self) -> None:
        """Check disk and memory if something is missing, and forecast the work. Raises BuildError, EngineError."""
        status = self.status()
        results = self.plan.of_kind("image") or self.plan.of_kind("wheel")
        if not all(status.cached[step.name] for step in results):
            check_disk_and_memory(self.ctx, status.needs, status.engine)
        if not self.rebuild_id:
            self.ctx = with_forecast(self.ctx, self.plan, status.cached, status.engine)

    def wheels(self) -> tuple[Wheel, ...]:
        """The wheels that are compiled or patched here, linked in the checkout. Raises as the steps that it runs.

        The engine is started only when something must be compiled.
        """
        self._ready_sources()
        grafts = self._early_grafts()
        compiled = build_wheels(self.ctx, self.plan, self._connect, rebuild=self.rebuild)
        keep_speed(self.ctx)
        grafts += late_grafts(self.ctx, self.plan, again=bool(self.rebuild_id))
        built = (*installable(self.plan, compiled), *grafts)
        for wheel in built:
            show_in_checkout(self.ctx, wheel)
        return built

    def image(self, tag: str | None = None) -> Verified:
        """The verified image, tagged; raises FetchError, BuildError or VerifyError, and then moves no tag.

        A cache hit takes no lock: it does not wait for another run's build.
        """
        ctx, plan = self.ctx, self.plan
        tags = (*plan.tags, *([tag] if tag else ()))
        if ctx.cache_to:
            check_caches(ctx, ready_engine(ctx))
        fresh = bool(self.rebuild or ctx.cache_to)
        status = self.status()
        if not fresh and status.engine and status.image:
            hit = self._hit(with_builder(ctx, status.engine), status.image, tags)
            if hit:
                return hit
        with ctx.store.locked("image", ctx.reporter.waiting_for("image")):
            engine = ready_engine(ctx)  # another run may have stopped it meanwhile, or built the image
            found = None if fresh else find_verified_image(ctx.store, engine, plan)
            hit = self._hit(engine, found, tags) if found else None
            if hit:
                return hit
            check_builder(ctx, engine)
            if self.rebuild:
                forget_record(ctx.store, plan)  # should it break off, the next run must not find the old image
            built = self._tagged(engine, self._built(engine), tags, hit=False)
            say_report(ctx.reporter, ctx.store, plan)
        keep_speed(ctx)
        return built

    def context(self, target: Path) -> None:
        """Leave the build context in the new folder ``target``: ``docker buildx bake`` there builds the same image.

        Raises UsageError when it exists.
        """
        stored = ImageBuild(self.ctx, self.plan)  # what --rebuild names was compiled for the image, and no second time
        with stored.prepared(ready_engine(self.ctx), upstream=False) as context:
            if target.exists():
                raise UsageError(f"{target} is already there", hint="name a directory that does not exist yet")
            shutil.copytree(context.folder.parent, target, symlinks=True)
        text = json.dumps(bake(self.plan), indent=1) + "\n"
        (target / "docker-bake.json").write_text(text, encoding="utf-8")

    @contextmanager
    def prepared(self, engine: Engine, *, upstream: bool = True) -> Iterator[BuildContext]:
        """Bases, layers' wheels and compiled wheels as a build context; deleted on exit.

        With ``upstream``, its layers are built beside the compilers. Raises FetchError, BuildError and VerifyError of
        the steps it runs.
        """
        ctx, plan = replace(self.ctx, stop=Stop()), self.plan
        if plan.base:
            self._ready_sources()
            check_sources(ctx, plan)
            for wheel in build_wheels(ctx, plan, lambda: engine, rebuild=self.rebuild):
                show_in_checkout(ctx, wheel)
            with on_image_context(ctx, plan, plan.base, engine if upstream else None, self.rebuild_id) as context:
                yield context
            return
        grafts = self._early_grafts()
        compiling = bool(self.rebuild) or not all(
            ctx.store.entry("wheels", step.key).exists() for step in plan.of_kind("wheel")
        )
        prefetch = partial(self._prefetch, ctx, engine if upstream else None, compiling=compiling)
        with run_in_background(ctx.stop, prefetch) as prefetched:
            wheels = build_wheels(ctx, plan, lambda: engine, rebuild=self.rebuild)
            grafts += late_grafts(ctx, plan, again=bool(self.rebuild_id))
            below = prefetched.result()
            if below:
                forget_sent(engine, plan, compiled=compiling)
            wheels = installable(plan, wheels)
            for wheel in (*wheels, *grafts):
                show_in_checkout(ctx, wheel)
            folders = image_folders(ctx.store, plan, wheels, upstream_wheels(plan) if below else ())
            bases = Bases(ctx, plan, engine, self.rebuild_id).images(STAGES) if upstream else {}
            files: dict[str, Content] = {**image_files(ctx, plan), **({} if bases else base_tars(ctx.store, plan))}
            with build_context(ctx.store, files, folders) as context, mod_secrets(ctx, plan) as secrets:
                contexts = {**context.contexts, **bases, **(below.contexts if below else {})}
                yield replace(context, contexts=contexts, secrets=secrets, network=mod_network(plan, engine))

    def _connect(self) -> Engine:
        """The engine that builds, started when needed, its builder checked."""
        return check_builder(self.ctx, ready_engine(self.ctx))

    def _ready_sources(self) -> None:
        """The sources that kernels for an image of others are compiled from, read out of it where the store lacks them.

        Raises UsageError, PublishError, VerifyError.
        """
        absent = [step for step in self.plan.of_kind("wheel") if not self.ctx.store.entry("wheels", step.key).exists()]
        lock = self.plan.lock
        for source in (*lock.sdists.values(), *(lock.headers or ())) if absent or self.rebuild else ():
            if isinstance(source, LockedPart | LockedTaken) and self.plan.base:
                ready_sources(self.ctx, self.plan.base, source)

    def _early_grafts(self) -> tuple[Wheel, ...]:
        """What comes first: a patch or a target's name that does not fit stops before anything is compiled."""
        grafts = early_grafts(self.ctx, self.plan, again=bool(self.rebuild_id))
        check_sources(self.ctx, self.plan)
        return grafts

    def _prefetch(self, ctx: Context, engine: Engine | None, *, compiling: bool) -> Upstream | None:
        """The layers' wheels and the bases; with an engine, also upstream's layers.

        An engine that does not share layers with BuildKit makes them in the image's own solve, and before it only
        while a compiler runs.
        """
        plan = self.plan
        ctx.forecast.begin(DOWNLOAD)
        fetch_files(ctx, (plan.step("tools"), *plan.of_kind("layer"), *plan.of_kind("rehearsal")))
        ctx.forecast.end(DOWNLOAD)
        if engine and one_by_one(ctx, engine):  # its bases are images, made when they are missing
            return UpstreamLayers(ctx, plan, engine, self.rebuild_id).image() if upstream_layers(plan) else None
        for base in plan.of_kind("rootfs"):
            make_rootfs(ctx, plan, base, rebuild_id=bool(self.rebuild_id))
        if engine and upstream_layers(plan) and compiling and not self.rebuild_id:
            files: dict[str, Content] = {**image_files(ctx, plan), **base_tars(ctx.store, plan)}
            ctx.forecast.begin(UPSTREAM)
            with (
                build_context(ctx.store, files, upstream_folders(ctx.store, plan)) as context,
                ctx.reporter.task(UPSTREAM, unit="steps", outlook=outlook(ctx, UPSTREAM)) as task,
            ):
                request = build_request(plan, context, "upstream")
                run_build(ctx, engine, request, plan.step("image"), lambda event: note_steps(ctx.reporter, task, event))
            ctx.forecast.end(UPSTREAM)
        return None

    def _hit(self, engine: Engine, found: Record, tags: tuple[str, ...]) -> Verified | None:
        """The engine's image of the plan, tagged. None when another run is replacing it."""
        ctx, plan = self.ctx, self.plan
        try:
            ctx.reporter.hit("image")
            for step in plan.of_kind("wheel"):
                say_left_out(ctx.reporter, wheel_file(ctx.store.entry("wheels", step.key)))
            say_report(ctx.reporter, ctx.store, plan)
            return self._tagged(engine, found, tags, hit=True)
        except FileNotFoundError:
            return None

    def _built(self, engine: Engine) -> Record:
        """Build and scan the layers, hand them to the engine's image store, and prove the image."""
        ctx, plan = self.ctx, self.plan
        ready_emulation(ctx, engine, plan)
        with (
            self.prepared(engine) as context,
            naming_mods(plan),
            passing_tag(engine, unproven_tag(ctx.store, plan)) as tag,
        ):
            ctx.forecast.begin(ASSEMBLY)
            with ctx.reporter.task(ASSEMBLY, unit="steps", outlook=outlook(ctx, ASSEMBLY)) as task:
                request = replace(image_request(plan, context, engine, tag), cache_to=ctx.cache_to)
                note = partial(note_build, ctx.reporter, plan, task)
                config = run_build(ctx, engine, request, plan.step("image"), note).config  # if buildx names it
            image = require_image(engine, tag)
            record = Record(id=image.id, config=config or image.id, layers=image.diff_ids)
            with ctx.reporter.task("prove"):
                prove_image(ctx, engine, plan, image, record)
            tag_image(engine, image.id, (plan.tags[-1],))
        if one_by_one(ctx, engine) and not plan.base:
            forget_sent(engine, plan)
        remember_layers(ctx, plan, record.layers)
        remember_built(ctx.store, engine, plan)
        return record

    def _tagged(self, engine: Engine, record: Record, tags: tuple[str, ...], *, hit: bool) -> Verified:
        image = require_image(engine, record.id)
        require_scanned(image.diff_ids, record.layers)
        verdict = stored_verdict(self.ctx, self.plan)
        tag_image(engine, record.id, tags)
        return Verified(
            digest=record.config,
            id=image.id,
            host=engine.endpoint.host,
            proof=str(proof_path(self.ctx.store, self.plan)),
            tags=tags,
            size=image.size,
            layers=len(image.diff_ids),
            verdict=verdict,
            hit=hit,
            received=received(self.ctx, self.plan),
        )


def unproven_tag(store: Store, plan: Plan) -> str:
    """The name of the plan's image before it is verified; another store's build on the same engine has another one."""
    builder = digest([platform.node(), str(store.root.resolve())])[:8]
    return f"{plan.recipe.repository}:unproven-{plan.key[:12]}.{builder}"
