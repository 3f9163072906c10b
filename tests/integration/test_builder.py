"""A builder of the user's, for real: another engine's BuildKit, which buildx reaches by its driver ``remote``.

Debian has no buildkitd. With images in containerd's store, the BuildKit of an engine exports as buildkitd does.
"""

import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gb10.containers.buildx.build import BuildRequest, build, image_output
from gb10.containers.buildx.commands import open_buildx
from gb10.containers.buildx.progress import Event, StepDone
from gb10.containers.connection import Engine
from gb10.containers.images import find_image, require_image
from gb10.containers.packages import unpack
from gb10.containers.reach import connect_or_start
from gb10.core.proc import capture
from gb10.errors import EngineError
from gb10.image.build.stage import check_builder, check_caches, ready_engine, run_build
from gb10.image.context import Context, build_architecture
from tests.integration.nodes import another_engine, buildkit, registry
from tests.integration.test_pipeline import ctx as ctx  # noqa: PLC0414 - a fixture
from tests.integration.test_pipeline import small_plan

pytestmark = [pytest.mark.integration, pytest.mark.slow]


@pytest.fixture(scope="module")
def other(ctx: Context, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with another_engine(ctx.store, tmp_path_factory.mktemp("other"), containerd=True) as engine:
        yield engine


@pytest.fixture(scope="module")
def big(ctx: Context, other: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Context]:
    """The context of a user whose buildx has a remote builder, and a context of the other engine."""
    folder = tmp_path_factory.mktemp("big")
    env = {**ctx.env, "DOCKER_CONFIG": str(folder / "docker")}
    client = open_buildx(connect_or_start(ctx.env, ctx.store), env, ctx.store)
    with buildkit(other, folder / "buildkitd.sock") as address:
        create = ("create", "--name", "big", "--driver", "remote", address)
        capture([*client.command, *create], env={**env, "BUILDX_CONFIG": str(folder / "docker/buildx")})
        yield replace(ctx, env=env, builder="big")


def tiny(folder: Path, text: str) -> BuildRequest:
    """A build of one file for this machine."""
    (folder / "Dockerfile").write_text("FROM scratch AS final\nCOPY file /file\n", encoding="utf-8")
    (folder / "file").write_text(text, encoding="utf-8")
    platform = f"linux/{build_architecture()}"
    return BuildRequest(dockerfile=folder / "Dockerfile", target="final", platform=platform, context=folder)


def test_what_is_built_there_comes_back(ctx: Context, big: Context, other: Engine, tmp_path: Path) -> None:
    engine, request = check_builder(big, ready_engine(big)), tiny(tmp_path, uuid.uuid4().hex)
    buildx = open_buildx(engine, big.env, big.store)
    build(buildx, replace(request, out=tmp_path / "out"), log=tmp_path / "log")
    assert (tmp_path / "out/file").read_bytes() == (tmp_path / "file").read_bytes()
    tagged = replace(request, output=image_output(engine), tags=("gb10/test:built-elsewhere",))
    build(buildx, tagged, log=tmp_path / "log")
    came = require_image(engine, tagged.tags[0])
    assert find_image(other, tagged.tags[0]) is None
    own = connect_or_start(ctx.env, ctx.store)
    build(open_buildx(own, ctx.env, ctx.store), replace(tagged, output=image_output(own)), log=tmp_path / "log")
    assert require_image(own, tagged.tags[0]).diff_ids == came.diff_ids


def test_a_builder_that_is_not_there_is_told(big: Context) -> None:
    wrong = replace(big, builder="no-such-builder")
    with pytest.raises(EngineError, match="the builder no-such-builder cannot be used") as caught:
        check_builder(wrong, ready_engine(wrong))
    assert 'no builder "no-such-builder" found' in str(caught.value)


def test_a_context_is_no_builder(big: Context, other: Engine) -> None:
    programs = unpack(big.store, big.env)
    capture(
        [str(programs.bin / "docker"), "context", "create", "elsewhere", "--docker", f"host={other.endpoint.host}"],
        env=big.env,
    )
    one = replace(big, builder="elsewhere")
    with pytest.raises(EngineError, match="keeps what it builds") as caught:
        check_builder(one, ready_engine(one))
    assert "DOCKER_CONTEXT=elsewhere" in str(caught.value)


def test_a_cache_that_a_builder_wrote_saves_an_engine_the_work(
    ctx: Context, big: Context, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    own, elsewhere = connect_or_start(ctx.env, ctx.store), ready_engine(big)
    with registry(ctx.store, tmp_path_factory.mktemp("registry")) as place:
        image, folder = f"type=registry,ref={place.host}/gb10/cache", tmp_path / "cache"
        for to, read in ((f"{image},mode=max", image), (f"type=local,dest={folder}", f"type=local,src={folder}")):
            request, events = tiny(tmp_path, uuid.uuid4().hex), list[Event]()
            there = open_buildx(elsewhere, big.env, big.store)
            build(there, replace(request, cache_to=(to,)), log=tmp_path / "log")
            here, out = open_buildx(own, ctx.env, ctx.store), tmp_path / "out"
            reading = replace(request, cache_from=(read,), out=out)
            build(here, reading, log=tmp_path / "log", on_event=events.append)
            copied = [event.cached for event in events if isinstance(event, StepDone) and "COPY" in event.step]
            assert copied == [True], read
            assert (out / "file").read_bytes() == (tmp_path / "file").read_bytes()
        assert place.received("PUT", "/manifests/")


def test_a_cache_that_is_not_there_is_told_and_the_build_goes_on(
    ctx: Context, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    asking = replace(ctx, cache_from=("type=registry,ref=127.0.0.1:1/none", f"type=local,src={tmp_path}/none"))
    request, step = replace(tiny(tmp_path, uuid.uuid4().hex), out=tmp_path / "out"), small_plan(ctx).step("proof")
    run_build(asking, connect_or_start(ctx.env, ctx.store), request, step, lambda event: None)
    assert (tmp_path / "out/file").exists()
    said = capfd.readouterr().err
    assert "importing cache manifest from 127.0.0.1:1/none failed, building without it" in said
    assert f"local cache import at {tmp_path}/none not found" in said


def test_the_classic_image_store_exports_no_cache(ctx: Context) -> None:
    with pytest.raises(EngineError, match="exports no build cache"):
        check_caches(replace(ctx, cache_to=("type=local,dest=x",)), connect_or_start(ctx.env, ctx.store))
