"""A wheel and an image made by a remote builder: minutes of exporting and sending, so apart from `make test`."""

import re
import uuid
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from gb10.containers.buildx.commands import open_buildx
from gb10.containers.connection import Engine, client
from gb10.containers.images import find_image, require_image
from gb10.containers.reach import connect_or_start
from gb10.core.proc import capture
from gb10.image.build.image_build import ImageBuild
from gb10.image.build.stage import check_builder, ready_engine
from gb10.image.build.wheels import build_wheels
from gb10.image.context import Context
from tests.integration.test_builder import big as big  # noqa: PLC0414 - a fixture
from tests.integration.test_builder import other as other  # noqa: PLC0414 - a fixture
from tests.integration.test_mods import DIFFERS, plan_with, write_mod
from tests.integration.test_pipeline import archive, named_plan, small_plan
from tests.integration.test_pipeline import ctx as ctx  # noqa: PLC0414 - a fixture

pytestmark = pytest.mark.e2e
UUID = re.compile(r"usr/local/bin/[0-9a-f-]{36}")


def test_a_wheel_comes_back_and_is_the_same(ctx: Context, big: Context) -> None:
    plan = small_plan(ctx)
    here = build_wheels(ctx, plan, lambda: ready_engine(ctx), rebuild=())[0]
    there = build_wheels(big, plan, lambda: check_builder(big, ready_engine(big)), rebuild=("flashinfer-jit-cache",))[0]
    assert (there.hit, there.sha256) == (False, here.sha256)


def test_an_image_is_built_there_and_comes_back(ctx: Context, big: Context, other: Engine) -> None:
    plan = named_plan(ctx, "built-elsewhere")
    built = ImageBuild(big, plan).image()
    engine = connect_or_start(ctx.env, ctx.store)
    there = require_image(engine, built.tags[-1])
    assert there.id == built.id
    assert find_image(other, built.tags[-1]) is None
    again = ImageBuild(ctx, plan).image()
    assert (again.hit, again.digest) == (True, built.digest)


def forget(ctx: Context, image: str) -> None:
    """Remove an image here, and everything that the builder keeps."""
    with closing(client(connect_or_start(ctx.env, ctx.store))) as sdk:
        sdk.images.remove(image, force=True)
    there = open_buildx(ready_engine(ctx), ctx.env, ctx.store)
    capture([*there.command, "prune", "--all", "--force"], env=there.env)


def local_programs(ctx: Context, image: str) -> set[str]:
    """What mods put into an image's /usr/local/bin, by the engine itself: their programs are named by uuids."""
    with archive(ctx, image, "/usr/local/bin") as tar:
        names = {f"usr/local/{member.name}" for member in tar if member.isfile()}
    return {name for name in names if UUID.fullmatch(name)}


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_cache_of_two_runs_gives_a_proof_of_what_is_in_the_image(
    ctx: Context, big: Context, tmp_path: Path, order: tuple[int, int]
) -> None:
    """Both mods differ on each run. One cache holds both, the other a later run of the first mod alone."""
    mods = [write_mod(tmp_path / name, f"{DIFFERS}# {uuid.uuid4().hex}\n") for name in ("first", "second")]
    both, first = plan_with(ctx, *mods), plan_with(ctx, mods[0])
    caches = [tmp_path / "cache-both", tmp_path / "cache-first"]
    for plan, cache in zip((both, first), caches, strict=True):
        made = ImageBuild(replace(big, cache_to=(f"type=local,dest={cache},mode=max",)), plan).image()
        forget(big, made.id)
    read = tuple(f"type=local,src={caches[place]}" for place in order)
    made = ImageBuild(replace(big, cache_from=read), both).image()
    found = {one.binary.path for one in made.verdict.judged if UUID.fullmatch(one.binary.path)}
    assert len(found) == 2
    assert found == local_programs(ctx, made.tags[-1])
