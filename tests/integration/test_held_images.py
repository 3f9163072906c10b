"""Images that an engine holds: a proven one is found and tagged, others are shown; a stand-in answers as Docker."""

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from gb10.containers.images import require_image
from gb10.containers.reach import connect_or_start as connect
from gb10.errors import EngineError, UsageError, VerifyError
from gb10.image.build.image_build import ImageBuild, Verified
from gb10.image.build.proving import prove_image
from gb10.image.build.rebuild import Comparison, Pair, compare, subject_of
from gb10.image.context import Context, open_context
from gb10.image.inspect.local import local_layers, local_summary
from gb10.image.inspect.summary import Layer
from gb10.image.plan.options import Overlay
from gb10.image.plan.plan_record import record as plan_record
from gb10.image.plan.render import scanned
from gb10.image.plan.values import Plan
from gb10.image.proof.scans import PLAN, SCANS, Record, proof_path, read_record, write_record_in
from gb10.image.recipe.arch import parse_arch
from gb10.inside.scan.installed import Distribution
from gb10.inside.scan.scan import Scan
from tests.integration.docker_server import FakeDocker, HeldImage, fake_docker
from tests.unit.made_up_base import base, plan_on

pytestmark = pytest.mark.integration

DRIVES: Final = (
    "gb10.image.build.cache_status",
    "gb10.image.build.inspect",
    "gb10.image.build.stage",
    "gb10.image.inspect.summary",
)
ID: Final = "sha256:" + "a" * 64


@pytest.fixture
def docker(tmp_path: Path) -> Iterator[FakeDocker]:
    with fake_docker(tmp_path) as found:
        yield found


@pytest.fixture
def ctx(docker: FakeDocker, tmp_path: Path) -> Context:
    env = {"DOCKER_HOST": docker.host, "GB10_CACHE_DIR": str(tmp_path / "store"), "HOME": str(tmp_path)}
    return open_context(env, verbosity=0)


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    """A plan on an image of others: one layer of ours, an overlay."""
    (tmp_path / "over/etc").mkdir(parents=True)
    (tmp_path / "over/etc/motd").write_text("hello\n", encoding="utf-8")
    return plan_on(base(), overlay=Overlay(path=str(tmp_path / "over"), digest="3" * 64))


def layers_of(plan: Plan) -> tuple[str, ...]:
    below = [layer.diff_id for layer in plan.base.layers] if plan.base else []
    return (*below, *(f"sha256:{name}" for name in (*scanned(plan), "record")))


def held(docker: FakeDocker, plan: Plan, **changed: object) -> HeldImage:
    """The plan's image in the engine, with its scans and its plan."""
    own = Distribution(path="x.dist-info/METADATA", name="Own", version="1")
    scan = Scan(root="overlay", distributions=(own,), contents={"etc/motd": hashlib.sha256(b"hello\n").hexdigest()})
    made = HeldImage(
        attrs={
            "Id": ID,
            "Size": 7_000,
            "RootFS": {"Layers": list(layers_of(plan))},
            "Os": "linux",
            "Architecture": "arm64",
            "RepoTags": [plan.tags[-1]],
            "Config": {"User": "2000:0", "Env": ["A=b"], "Labels": {}},
            "Created": "2026-11-01T00:00:00Z",
            **changed,
        },
        history=[
            {"CreatedBy": "COPY /record /usr/share", "Size": 5},
            {"CreatedBy": "ENV A=b", "Size": 0},
            {"CreatedBy": "COPY /overlay /", "Size": 6},
            *({"CreatedBy": f"/bin/sh -c make   {number}", "Size": number} for number in (3, 2, 1)),
        ],
        files={
            PLAN: json.dumps(plan_record(plan)).encode(),
            **{f"{SCANS}/{name}.json": scan.to_json().encode() for name in scanned(plan)},
        },
    )
    docker.images.append(made)
    return made


def proven(ctx: Context, docker: FakeDocker, plan: Plan) -> Record:
    """The record of the plan's image, proven by the scans that it holds."""
    record = Record(id=ID, config="sha256:c", layers=layers_of(plan))
    engine = connect(ctx.env, ctx.store)
    prove_image(ctx, engine, plan, require_image(engine, plan.tags[-1]), record)
    assert docker.opened == {}
    return record


def test_a_proven_image_is_a_hit_and_gets_the_tags(
    ctx: Context, docker: FakeDocker, plan: Plan, capsys: pytest.CaptureFixture[str]
) -> None:
    image = held(docker, plan)
    assert not ImageBuild(ctx, plan).status().image
    record = proven(ctx, docker, plan)
    assert read_record(ctx.store, plan) == record
    build = ImageBuild(ctx, plan)
    status = build.status()
    assert status.image == record
    assert all(status.cached[name] for name in ("image", "proof"))
    assert build.status() is status
    found = build.image("mine:1")
    assert isinstance(found, Verified)
    assert (found.digest, found.id, found.size, found.layers, found.hit) == (
        "sha256:c",
        ID,
        7_000,
        len(record.layers),
        True,
    )
    assert (found.tags, found.host, found.proof) == (
        (*plan.tags, "mine:1"),
        docker.host,
        str(proof_path(ctx.store, plan)),
    )
    assert found.received and (found.received.reference, found.received.read) == (base().reference, False)
    assert found.verdict.root == plan.tags[0]
    assert image.attrs["RepoTags"] == [plan.tags[-1], "mine:1"]
    again = ImageBuild(ctx, plan, rebuild_id="r").status()
    assert not any(again.cached.values())
    assert capsys.readouterr().err.count("image") <= 2


@pytest.mark.parametrize(
    "changed", [{"Id": "sha256:" + "b" * 64}, {"RootFS": {"Layers": ["sha256:other"]}}, {"RepoTags": ["other:1"]}]
)
def test_an_image_that_is_another_one_is_no_hit(
    ctx: Context, docker: FakeDocker, plan: Plan, changed: dict[str, object]
) -> None:
    image = held(docker, plan)
    proven(ctx, docker, plan)
    image.attrs |= changed
    status = ImageBuild(ctx, plan).status()
    assert status.image is None
    assert not status.cached["image"]


def test_a_proof_that_was_cut_short_is_none(ctx: Context, docker: FakeDocker, plan: Plan) -> None:
    held(docker, plan)
    record = proven(ctx, docker, plan)
    folder = proof_path(ctx.store, plan)
    (folder / "overlay.json").write_bytes(b"")
    assert ImageBuild(ctx, plan).status().image is None
    write_record_in(folder, replace(record, layers=record.layers[1:]))
    assert ImageBuild(ctx, plan).status().image is None


def test_an_image_of_other_layers_than_planned_is_not_proven(ctx: Context, docker: FakeDocker, plan: Plan) -> None:
    held(docker, plan)
    engine = connect(ctx.env, ctx.store)
    image = require_image(engine, ID)
    with pytest.raises(VerifyError, match="not those that were scanned"):
        prove_image(ctx, engine, plan, image, Record(id=ID, config="c", layers=layers_of(plan)[1:]))
    docker.images[0].files = {PLAN: b"{}"}
    with pytest.raises((EngineError, FileNotFoundError)):
        prove_image(ctx, engine, plan, image, Record(id=ID, config="c", layers=layers_of(plan)))
    assert not proof_path(ctx.store, plan).exists()


def test_a_classic_store_exports_no_cache(ctx: Context, docker: FakeDocker, plan: Plan) -> None:
    held(docker, plan)
    with pytest.raises(EngineError) as caught:
        ImageBuild(replace(ctx, cache_to=("type=local,dest=x",)), plan).image()
    assert caught.value.message == "Docker's classic image store exports no build cache (--cache-to)"
    assert caught.value.where == docker.host


def test_two_images_of_a_plan_are_compared(ctx: Context, docker: FakeDocker, plan: Plan) -> None:
    held(docker, plan)
    other = held(docker, plan, Id="sha256:" + "b" * 64, RepoTags=["other:1"])
    engine = connect(ctx.env, ctx.store)
    one, two = (require_image(engine, name) for name in (ID, "other:1"))
    names = ["base"] * 3 + ["overlay", "record"]
    pairs = tuple(
        Pair(name=name, before=layer, after=layer) for name, layer in zip(names, layers_of(plan), strict=True)
    )
    same = Comparison(digest=two.id, layers=pairs)
    assert compare(ctx, plan, engine, one, two) == same
    assert same.same
    other.attrs |= {"Created": "2026-11-02T00:00:00Z", "Config": {"User": "0"}}
    found = compare(ctx, plan, engine, one, two)
    assert found.settings == ("Created", "config Env", "config User")
    assert not found.same


def test_what_is_built_again_is_named_by_a_record_or_an_image(
    ctx: Context, docker: FakeDocker, plan: Plan, tmp_path: Path
) -> None:
    image = held(docker, plan)
    engine = connect(ctx.env, ctx.store)
    (tmp_path / "plan.json").write_bytes(image.files[PLAN])
    by_file, by_image = subject_of(ctx.store, engine, str(tmp_path / "plan.json")), subject_of(ctx.store, engine, ID)
    assert by_file.image is None
    assert by_image.image and by_image.image.id == ID
    assert by_file.record.key == by_image.record.key == plan.key
    del image.files[PLAN]
    with pytest.raises(UsageError) as caught:
        subject_of(ctx.store, engine, ID)
    assert str(caught.value) == f"error: {ID} holds no record of a plan\n  {PLAN}\nhint: gb10 did not build it"
    with pytest.raises(UsageError, match="nothing:1"):
        subject_of(ctx.store, engine, "nothing:1")


def test_an_image_of_ours_is_shown(ctx: Context, docker: FakeDocker, plan: Plan) -> None:
    image = held(docker, plan)
    shown = local_summary(ctx, plan.tags[-1], parse_arch("12.1f"))
    assert (shown.digest, shown.place, shown.size, shown.platform) == (ID, "Docker", 7_000, "linux/arm64")
    assert (shown.user, shown.environment, shown.created) == ("2000:0", ("A=b",), "2026-11-01T00:00:00Z")
    assert shown.plan and shown.plan.key == plan.key
    assert shown.packages["own"] == "1"
    assert shown.packages["vllm"] == "0.34.0.dev12+gabc"
    assert shown.verdict is None  # it has no binaries to judge
    assert shown.remarks == (
        f"built on {base().reference}: what that holds beside Python packages is shown by `show` of it",
    )
    assert [layer.size for layer in shown.layers] == [1, 2, 3, 6, 5]
    digests = layers_of(plan)
    commands = ("make 1", "make 2", "make 3", "COPY /overlay /", "COPY /record /usr/share")
    assert local_layers(ctx, ID) == tuple(
        Layer(name=name, digest=digest, size=size)
        for name, digest, size in zip(commands, digests, (1, 2, 3, 6, 5), strict=True)
    )
    image.history = [{"CreatedBy": f"RUN {'x' * 90}", "Size": 0}, *image.history[1:]]
    assert [layer.size for layer in local_layers(ctx, ID)] == [1, 2, 3, 6, 0]
    assert local_layers(ctx, ID)[-1].name == f"RUN {'x' * 55}…"
    image.history = image.history[1:]
    assert [(layer.name, layer.size) for layer in local_layers(ctx, ID)] == [(f"layer {n}", 0) for n in range(1, 6)]
    with pytest.raises(UsageError) as caught:
        local_layers(ctx, "nothing:1")
    assert re.match("error: .*nothing:1", str(caught.value))
