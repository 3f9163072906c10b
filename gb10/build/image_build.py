"""The image: wheels, layers, proof, export, tags; in that order, so that nothing unproven is ever tagged."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path

from gb10.build.assemble import image_request, proof_request
from gb10.build.built import remember_built
from gb10.build.contexts import BuildContext
from gb10.build.gather import image_context
from gb10.build.mod_layers import naming_mods, ready_emulation
from gb10.build.stage import check_builder, check_caches, note_steps, ready_engine, run_build
from gb10.build.wheel_build import say_left_out, wheel_file
from gb10.engine.connection import Engine
from gb10.engine.images import require_image, tag_image
from gb10.plan.dag import torch_problem
from gb10.plan.values import Plan
from gb10.proof.fit import Verdict
from gb10.proof.scans import (
    Record,
    forget_record,
    known,
    proof_path,
    prove_layers,
    read_record,
    remember_layers,
    write_record,
    write_record_in,
)
from gb10.proof.wheel_manifest import Manifest, read_manifest
from gb10.workshop import Workshop


@dataclass(frozen=True, kw_only=True, slots=True)
class Verified:
    """An image whose GPU code was read back; ``digest`` is its config's, ``id`` the name that its engine gives it."""

    digest: str
    id: str
    host: str
    proof: str
    tags: tuple[str, ...]
    size: int
    layers: int
    verdict: Verdict
    hit: bool


def require_torch(shop: Workshop, plan: Plan) -> None:
    """Raise UsageError for an image whose torch is not built with the recipe's CUDA; what nothing tells is said."""
    problem = torch_problem(plan)
    if problem:
        raise problem
    torch = plan.torch
    if torch and torch.cuda is None:
        shop.talk.say(f"torch {torch.version}: the lock does not tell which CUDA it is built with; taken as it is")


def build_image(shop: Workshop, plan: Plan, *, rebuild: Collection[str], tag: str | None) -> Verified:
    """The verified image of a plan, tagged; raises FetchError, BuildError or VerifyError, and then moves no tag.

    A cache hit takes no lock: it does not wait for another run's build.
    """
    tags = (*plan.tags, *([tag] if tag else ()))
    engine = ready_engine(shop)
    check_caches(shop, engine)
    anew = bool(rebuild or shop.cache_to)
    hit = None if anew else _hit(shop, engine, plan, tags)
    if hit:
        return hit
    with shop.store.locked("image", shop.talk.waiting_for("image")):
        engine = ready_engine(shop)  # another run may have stopped it meanwhile
        hit = None if anew else _hit(shop, engine, plan, tags)
        if hit:
            return hit
        check_builder(shop, engine)
        if rebuild:
            forget_record(shop, plan)  # should it break off, the next run must not find the old image
        return _tagged(shop, engine, plan, _build(shop, engine, plan, rebuild), tags, hit=False)


def _hit(shop: Workshop, engine: Engine, plan: Plan, tags: tuple[str, ...]) -> Verified | None:
    """The image that the engine already has, tagged; None when it must be built, or is being replaced right now."""
    try:
        there = known(shop, engine, plan)
        if there is None:
            return None
        shop.talk.hit("image")
        for wheel in _compiled(shop, plan):
            say_left_out(shop, wheel)
        return _tagged(shop, engine, plan, there, tags, hit=True)
    except FileNotFoundError:
        return None


def _tagged(
    shop: Workshop, engine: Engine, plan: Plan, record: Record, tags: tuple[str, ...], *, hit: bool
) -> Verified:
    image = require_image(engine, plan.tags[-1])
    verdict = verdict_of(shop, plan)
    tag_image(engine, plan.tags[-1], tags)
    return Verified(
        digest=record.config,
        id=image.id,
        host=engine.endpoint.host,
        proof=str(proof_path(shop, plan)),
        tags=tags,
        size=image.size,
        layers=len(image.diff_ids),
        verdict=verdict,
        hit=hit,
    )


def _build(shop: Workshop, engine: Engine, plan: Plan, rebuild: Collection[str]) -> Record:
    ready_emulation(shop, engine, plan)
    with image_context(shop, plan, engine, rebuild) as context, naming_mods(plan):
        _prove(shop, engine, plan, context)
        config = _export(shop, engine, plan, context)
    image = require_image(engine, plan.tags[-1])
    remember_layers(shop, plan, image.diff_ids)
    remember_built(shop, engine, plan)
    record = Record(id=image.id, config=config or image.id)
    write_record(shop, plan, record)
    return record


def _export(shop: Workshop, engine: Engine, plan: Plan, context: BuildContext) -> str | None:
    """Hand the layers to the engine's image store; the config's digest where buildx tells it."""
    with shop.talk.task("export the image") as task:
        request = replace(image_request(plan, context, engine), cache_to=shop.cache_to)
        return run_build(shop, engine, request, plan.step("image"), lambda event: note_steps(shop, task, event)).config


def _prove(shop: Workshop, engine: Engine, plan: Plan, context: BuildContext) -> None:
    """Build every layer and read back what it holds; raises VerifyError before anything is exported.

    A record of the same plan's image stays until the next one: a cache that cannot be written takes no proof away.
    """
    record = read_record(shop, plan)

    def make(work: Path) -> None:
        with shop.talk.task("layers and proof", unit="steps") as task:
            request = proof_request(plan, context, work)
            run_build(shop, engine, request, plan.step("proof"), lambda event: note_steps(shop, task, event))
        prove_layers(work, plan, manifests(shop, plan))
        if record:
            write_record_in(work, record)

    shop.store.replace(proof_path(shop, plan), make)


def verdict_of(shop: Workshop, plan: Plan) -> Verdict:
    """The verdict over a plan's stored scans; raises VerifyError as the first time."""
    return prove_layers(proof_path(shop, plan), plan, manifests(shop, plan))


def manifests(shop: Workshop, plan: Plan) -> list[Manifest]:
    """What the wheels built here declare."""
    return [read_manifest(wheel) for wheel in _compiled(shop, plan)]


def _compiled(shop: Workshop, plan: Plan) -> list[Path]:
    return [wheel_file(shop.store.entry("wheels", step.key)) for step in plan.of_kind("wheel")]
