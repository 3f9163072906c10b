"""Upstream's layers one by one, on a real engine: what BuildKit keeps, and which images the next run uses."""

import os
import secrets
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import date, timedelta
from typing import Any

import pytest

from gb10.containers.buildx.build import BuildRequest, BuildResult
from gb10.containers.buildx.build_cache import forget
from gb10.containers.buildx.progress import Event, StepDone
from gb10.containers.connection import Engine, client
from gb10.containers.images import find_image, require_image, tag_image, untag
from gb10.containers.reach import connect_or_start
from gb10.errors import BuildError
from gb10.image.build import bases, upstream
from gb10.image.build.bases import STAGES, Bases, base_tag, drop_unknown, noted_image
from gb10.image.build.image_build import ImageBuild
from gb10.image.build.stage import run_build
from gb10.image.build.upstream import Link, Upstream, UpstreamLayers, forget_sent, upstream_wheels
from gb10.image.context import Context, open_context
from gb10.image.locked_files import fetch_files
from gb10.image.plan.dag import plan_image
from gb10.image.plan.values import Plan, Step
from tests.integration.test_pipeline import small, small_plan

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def ctx() -> Context:
    return open_context(os.environ, verbosity=0)


@pytest.fixture(scope="module")
def plan(ctx: Context) -> Plan:
    made = small_plan(ctx)
    fetch_files(ctx, (made.step("tools"), *made.of_kind("layer")))
    return made


@pytest.fixture(scope="module")
def engine(ctx: Context) -> Engine:
    return connect_or_start(ctx.env, ctx.store)


@pytest.fixture
def built(ctx: Context, plan: Plan, engine: Engine) -> Upstream:
    return UpstreamLayers(ctx, plan, engine).image()


def records(engine: Engine) -> list[str]:
    """What BuildKit keeps for itself alone, in its words."""
    with closing(client(engine)) as sdk:
        found: list[dict[str, Any]] = sdk.api.df()["BuildCache"]
    return [record["Description"] for record in found if not record["Shared"]]


def refuse(*_: object) -> None:
    raise BuildError("a layer was built")


@pytest.mark.slow
def test_buildkit_keeps_no_wheels_and_one_folder(ctx: Context, plan: Plan, engine: Engine, built: Upstream) -> None:
    untag(engine, [built.image])
    forget(engine, lambda about: upstream.INSTALL in about)  # other tests share this engine
    built = UpstreamLayers(ctx, plan, engine).image()
    forget_sent(engine, plan)
    kept = records(engine)
    assert len(upstream_wheels(plan)) == 2
    assert not any(f"local source for {name}" in kept for name in upstream_wheels(plan))
    assert not any(upstream.INSTALL in text for text in kept)
    assert built.scans.keys() == {"layer-cuda", "layer-deps"}


@pytest.mark.slow
def test_the_tools_are_made_once_and_before_compilers_and_layers(ctx: Context) -> None:
    """Where a compiler's solve made them, BuildKit installed each layer again to scan it.

    The lock has a day of its own, so no result is in BuildKit's cache.
    """
    recipe, lock = small()
    day = date(1990, 1, 1) + timedelta(days=secrets.randbelow(10_000))
    plan = plan_image(recipe, lock.model_copy(update={"created": day}), ctx.catalog.toolkit, small_plan(ctx).options)
    made = list[tuple[str, str]]()

    def note(_: Engine, step: Step, event: Event) -> None:
        stage = event.step.partition(" ")[0].removeprefix("[") if isinstance(event, StepDone) else ""
        if isinstance(event, StepDone) and not event.cached and stage in ("tools", "layer-cuda", "layer-deps"):
            made.append((step.name, stage))

    ImageBuild(replace(ctx, on_build=note), plan).image()
    layers = ["layer-cuda", "layer-deps"]
    assert sorted(made) == [*((name, name) for name in layers), ("tools", "tools")]


def test_what_is_there_is_not_built_again(
    ctx: Context, plan: Plan, engine: Engine, built: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bases, "run_build", refuse)
    assert UpstreamLayers(ctx, plan, engine).image() == built
    untag(engine, [built.image])
    with pytest.raises(BuildError, match="a layer was built"):
        UpstreamLayers(ctx, plan, engine).image()


@pytest.mark.slow
def test_a_run_that_broke_off_goes_on_above_its_last_layer(
    ctx: Context, plan: Plan, engine: Engine, built: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = require_image(engine, built.image).diff_ids
    untag(engine, [built.image])
    add, added = UpstreamLayers._add, list[str]()

    def broken(self: UpstreamLayers, link: Link) -> None:
        if link.step.name == "layer-deps":
            raise BuildError("broken off")
        add(self, link)

    monkeypatch.setattr(UpstreamLayers, "_add", broken)
    with pytest.raises(BuildError, match="broken off"):
        UpstreamLayers(ctx, plan, engine).image()

    def counted(self: UpstreamLayers, link: Link) -> None:
        added.append(link.step.name)
        add(self, link)

    monkeypatch.setattr(UpstreamLayers, "_add", counted)
    again = UpstreamLayers(ctx, plan, engine).image()
    assert added == ["layer-deps"]
    assert require_image(engine, again.image).diff_ids == whole


def test_another_image_under_the_same_tag_is_not_used(
    ctx: Context, plan: Plan, engine: Engine, built: Upstream
) -> None:
    whole = require_image(engine, built.image)
    with closing(client(engine)) as sdk:
        container = sdk.containers.create(whole.id, command="-", platform="linux/arm64")
        foreign = str(container.commit().id)  # one more layer
        container.remove()
    tag_image(engine, foreign, (built.image,))
    again = UpstreamLayers(ctx, plan, engine).image()
    assert require_image(engine, again.image).diff_ids == whole.diff_ids


@pytest.mark.slow
def test_a_base_is_sent_once_and_another_image_under_its_tag_is_not_used(
    ctx: Context, plan: Plan, engine: Engine, built: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    builds = list[str]()

    def counted(
        ctx: Context, engine: Engine, request: BuildRequest, step: Step, on_event: Callable[[Event], None]
    ) -> BuildResult:
        builds.append(step.name)
        return run_build(ctx, engine, request, step, on_event)

    monkeypatch.setattr(bases, "run_build", counted)
    files, contexts = Bases(ctx, plan, engine).provide(STAGES)
    assert (files, builds) == ({}, [])  # the layers had both made
    assert contexts.keys() == {"base-build", "base"}
    tag = base_tag(plan, "base-image")
    before = require_image(engine, tag)
    tag_image(engine, built.image, (tag,))
    Bases(ctx, plan, engine).provide(STAGES)
    assert builds == ["base-image"]
    assert require_image(engine, tag).diff_ids == before.diff_ids
    assert "local source for context" not in records(engine)


@pytest.mark.long
def test_a_base_made_anew_has_no_note_and_goes(ctx: Context, plan: Plan, engine: Engine) -> None:
    tag = Bases(ctx, plan, engine, "again").image("base-image")
    assert require_image(engine, tag).diff_ids == require_image(engine, base_tag(plan, "base-image")).diff_ids
    assert noted_image(ctx, engine, tag) is None
    UpstreamLayers(ctx, plan, engine, "again").drop()
    assert find_image(engine, tag) is None


def test_layers_whose_note_is_gone_are_removed(ctx: Context, engine: Engine, built: Upstream) -> None:
    old = f"gb10/vllm:{built.image.rpartition(':')[2]}"  # as releases before tagged it: a registry could have that
    tag_image(engine, built.image, (old,))
    drop_unknown(ctx.store, engine)
    assert find_image(engine, built.image)
    assert find_image(engine, old) is None
    for note in ctx.store.root.glob("built/*/layers-*"):
        note.unlink()
    drop_unknown(ctx.store, engine)
    assert find_image(engine, built.image) is None
