"""The pipeline for real, on a small scale: one kernel module, a dozen wheels, the real bases and a real engine."""

import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import time
import uuid
import zipfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from bootstrap.install import PIP
from gb10.cli.receipt import Receipt, read_receipt, write_receipt
from gb10.containers.buildx.commands import open_buildx
from gb10.containers.connection import client
from gb10.containers.images import find_image, require_image
from gb10.containers.reach import connect_or_start
from gb10.core.proc import CommandFailedError, capture
from gb10.errors import BuildError, VerifyError
from gb10.image.build import proving
from gb10.image.build.image_build import ImageBuild, Verified, unproven_tag
from gb10.image.build.inspect import inspect_image
from gb10.image.build.wheels import Wheel, build_wheels
from gb10.image.context import Context, build_architecture, open_context
from gb10.image.lock.lockfile import load_lock, load_recipe, lock_path
from gb10.image.plan.catalog import ROOT, tree_digest
from gb10.image.plan.dag import plan_image
from gb10.image.plan.options import Options, Overlay
from gb10.image.plan.plan_record import labels
from gb10.image.plan.render import scanned
from gb10.image.plan.values import Plan
from gb10.image.proof.scans import proof_path, prove_wheel, read_record
from gb10.image.proof.wheel_files import Manifest
from gb10.image.recipe.arch import parse_arch
from gb10.image.recipe.image_recipe import Layer, Override, Recipe
from gb10.image.recipe.locked import Lock
from gb10.inside.scan.code_fit import Fit
from tests.e2e.image import run_python
from tests.integration.own_store import spoil
from tests.integration.test_base import emulator

pytestmark = pytest.mark.integration

RECIPE = ROOT / "recipes/images/vllm.yaml"
HEADERS = ("nvidia-cuda-cccl", "nvidia-cuda-crt", "nvidia-cuda-runtime")
DSL = ("nvidia-cutlass-dsl-libs-core", "cuda-bindings", "cuda-pathfinder", "protobuf")
"""A wheel that patches may change, and what it requires."""
WHEELS = (*HEADERS, *DSL, "apache-tvm-ffi", "jinja2", "markupsafe", "packaging", "typing-extensions")
WITHOUT = Override(requirement="flashinfer-python", why="it has 420 MB, which no test of the small image needs")


@pytest.fixture(scope="module")
def ctx() -> Context:
    return open_context(os.environ, verbosity=0)


def small() -> tuple[Recipe, Lock]:
    """The real recipe and lock, with one kernel module and a dozen wheels."""
    recipe, lock = load_recipe(RECIPE), load_lock(lock_path(RECIPE))
    build = recipe.wheels["flashinfer-jit-cache"].model_copy(update={"kernels": "smoke", "headers": HEADERS})
    layers = (Layer(name="cuda", packages=HEADERS), Layer(name="deps", rest=True))
    wheels = {key: tuple(wheel for wheel in value if wheel.name in WHEELS) for key, value in lock.wheels.image.items()}
    changes: dict[str, object] = {"repository": "gb10/test", "wheels": {"flashinfer-jit-cache": build}}
    changes |= {"layers": layers, "overrides": (WITHOUT,)}
    locked = lock.model_copy(update={"wheels": lock.wheels.model_copy(update={"image": wheels})})
    return recipe.model_copy(update=changes), locked


def small_plan(ctx: Context, arch: str = "12.1f", overlay: Path | None = None) -> Plan:
    over = Overlay(path=str(overlay), digest=tree_digest(overlay)) if overlay else None
    options = Options(arch=parse_arch(arch), platform="linux/arm64", build=build_architecture(), overlay=over)
    return plan_image(*small(), ctx.catalog.toolkit, options)


def wheels_of(ctx: Context, plan: Plan, *rebuild: str) -> tuple[Wheel, ...]:
    return build_wheels(ctx, plan, lambda: connect_or_start(ctx.env, ctx.store), rebuild=rebuild)


@pytest.fixture(scope="module")
def image(ctx: Context) -> Verified:
    return ImageBuild(ctx, small_plan(ctx)).image("gb10/test:extra")


def read_file(ctx: Context, reference: str, path: str) -> tuple[tarfile.TarInfo, bytes]:
    """One file of an image."""
    with archive(ctx, reference, path) as tar:
        member = tar.getmembers()[0]
        content = tar.extractfile(member) if member.isfile() else None
        return member, content.read() if content else b""


@contextmanager
def archive(ctx: Context, reference: str, path: str) -> Iterator[tarfile.TarFile]:
    """A path of an image as the engine itself packs it; nothing of the image runs."""
    with closing(client(connect_or_start(ctx.env, ctx.store))) as sdk:
        container = sdk.containers.create(reference, command="-", platform="linux/arm64")
        try:
            stream, _ = container.get_archive(path)
            with tarfile.open(fileobj=io.BytesIO(b"".join(stream))) as tar:
                yield tar
        finally:
            container.remove()


@pytest.mark.slow
def test_wheels_of_two_arches_live_side_by_side_and_are_compiled_once_each(ctx: Context, cuda_tools: Path) -> None:
    made = [wheels_of(ctx, small_plan(ctx, arch))[0] for arch in ("12.1f", "12.1a", "12.1f")]
    assert made[2].hit
    assert made[0].path == made[2].path != made[1].path
    assert [cubins(wheel.path, cuda_tools) for wheel in made[:2]] == [{"sm_121f"}, {"sm_121a"}]


def cubins(wheel: Path, cuda_tools: Path) -> set[str]:
    """The arches that NVIDIA's own cuobjdump reads in a wheel's only library."""
    with zipfile.ZipFile(wheel) as archive:
        library = next(name for name in archive.namelist() if name.endswith(".so"))
        extracted = archive.extract(library, wheel.parent / "read")
    try:
        text = capture([str(cuda_tools / "bin/cuobjdump"), "-elf", extracted])
    finally:
        shutil.rmtree(wheel.parent / "read")
    return {line.split("=")[1].strip() for line in text.splitlines() if line.startswith("arch =")}


def test_pip_takes_the_wheel_for_the_image_and_for_nothing_else(ctx: Context) -> None:
    wheel = wheels_of(ctx, small_plan(ctx))[0].path
    tag = wheel.stem.rsplit("-", 1)[1]
    assert re.fullmatch(r"manylinux_2_(3[4-9]|4[01])_aarch64", tag)  # the image's glibc is 2.41
    pip = [sys.executable, "-I", str(PIP / "pip"), "install", "--dry-run", "--no-deps", "--only-binary=:all:"]
    pip += ["--target", "unused"]
    report = capture([*pip, "--platform", tag, "--quiet", "--report", "-", str(wheel)])
    assert json.loads(report)["install"][0]["metadata"]["name"] == "flashinfer-jit-cache"
    with pytest.raises(CommandFailedError, match="exited with 1"):
        capture([*pip, "--platform", tag.replace("aarch64", "x86_64"), str(wheel)])


@pytest.mark.slow
def test_a_rebuild_really_compiles(ctx: Context) -> None:
    plan = small_plan(ctx)
    before = wheels_of(ctx, plan)[0]
    stamp = before.path.stat().st_ino
    after = wheels_of(ctx, plan, "flashinfer-jit-cache")[0]
    measured = json.loads((after.path.parent / "measured.json").read_text(encoding="utf-8"))
    assert not after.hit
    assert after.path.stat().st_ino != stamp
    assert measured["silu_and_mul"]["cpu_s"] > 2  # nvcc and ptxas, not a compile cache
    assert after.sha256 == before.sha256


def test_the_image_is_what_the_plan_says(ctx: Context, image: Verified) -> None:
    plan = small_plan(ctx)
    engine = connect_or_start(ctx.env, ctx.store)
    with closing(client(engine)) as sdk:
        attributes = sdk.images.get("gb10/test:extra").attrs
    config = attributes["Config"]
    assert (attributes["Os"], attributes["Architecture"], config["User"]) == ("linux", "arm64", "0")
    assert config["WorkingDir"] == "/workspace/vllm"
    assert config["Labels"]["io.github.gb10.plan.key"] == plan.key
    assert "TORCH_CUDA_ARCH_LIST=12.1a" in config["Env"]
    assert {plan.tags[0], plan.tags[-1], "gb10/test:extra"} <= set(attributes["RepoTags"])
    assert attributes["Created"].startswith(f"{plan.lock.created.isoformat()}T00:00:00")  # the same on every machine
    assert image.verdict.counts[Fit.NATIVE] == 1


ODD = "a $HOME ${HOME} \"q\" 'p' back\\slash\\\\ `x` ünï 😀 # <<EOF\n line two \\"


@pytest.mark.slow
def test_values_reach_the_image_as_the_recipe_has_them(ctx: Context) -> None:
    recipe, lock = small()
    workdir = f"/srv/{uuid.uuid4().hex} {ODD}"
    changes = {
        "workdir": workdir,
        "env": {**recipe.env, "ODD": ODD, "EMPTY": ""},
        "entrypoint": ("/bin/echo", ODD),
        "command": (ODD, ""),
    }
    plan = plan_image(recipe.model_copy(update=changes), lock, ctx.catalog.toolkit, small_plan(ctx).options)
    made = ImageBuild(ctx, plan).image()
    with closing(client(connect_or_start(ctx.env, ctx.store))) as sdk:
        config = sdk.images.get(made.tags[-1]).attrs["Config"]
    assert config["WorkingDir"] == workdir
    assert {f"ODD={ODD}", "EMPTY="} <= set(config["Env"])
    assert (config["Entrypoint"], config["Cmd"]) == (["/bin/echo", ODD], [ODD, ""])
    assert config["Labels"] == labels(plan)
    folder, _ = read_file(ctx, made.tags[-1], workdir)
    assert folder.mode & 0o7777 == 0o1777


def test_the_image_holds_the_scans_of_its_layers_and_the_record_names_them(ctx: Context, image: Verified) -> None:
    plan, engine = small_plan(ctx), connect_or_start(ctx.env, ctx.store)
    record = read_record(ctx.store, plan)
    assert record is not None
    assert record.layers == require_image(engine, image.tags[-1]).diff_ids
    for name in scanned(plan):
        _, text = read_file(ctx, image.tags[-1], f"/usr/share/gb10/scans/{name}.json")
        assert text == (proof_path(ctx.store, plan) / f"{name}.json").read_bytes()
    assert find_image(engine, unproven_tag(ctx.store, plan)) is None


def test_an_image_that_is_not_proven_gets_no_tag(ctx: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    plan, engine = named_plan(ctx, uuid.uuid4().hex), connect_or_start(ctx.env, ctx.store)
    moving = find_image(engine, plan.tags[0])
    other = Manifest(file="other", arch="12.1a", modules={"silu_and_mul.so": ["sm_120f"]})
    monkeypatch.setattr(proving, "manifests", lambda ctx, plan: [other])
    with pytest.raises(VerifyError, match="verify found 1 problem") as caught:
        ImageBuild(ctx, plan).image()
    assert caught.value.code == 9
    assert [find_image(engine, tag) for tag in (plan.tags[0], plan.tags[-1], unproven_tag(ctx.store, plan))] == [
        moving,
        None,
        None,
    ]


def test_the_plan_and_the_users_directories_are_inside(ctx: Context, image: Verified) -> None:
    _, text = read_file(ctx, image.tags[-1], "/usr/share/gb10/plan.json")
    assert json.loads(text)["key"] == small_plan(ctx).key
    for directory in ("/var/cache/gb10", "/workspace/vllm"):
        member, _ = read_file(ctx, image.tags[-1], directory)
        assert (member.uid, member.mode & 0o7777, member.isdir()) == (0, 0o1777, True)
    link, _ = read_file(ctx, image.tags[-1], "/usr/local/cuda")
    assert link.linkname == "/usr/local/lib/python3.13/dist-packages/nvidia/cu13"


def test_the_same_again_builds_nothing(ctx: Context, image: Verified) -> None:
    again = ImageBuild(ctx, small_plan(ctx)).image()
    assert again.hit
    assert again.digest == image.digest


def test_a_receipt_holds_only_while_the_engine_has_that_image_under_every_tag(image: Verified, tmp_path: Path) -> None:
    receipt = Receipt(
        host=image.host,
        id=image.id,
        tags=image.tags,
        proof=image.proof,
        digest=image.digest,
        summary=("unchanged",),
        document={"hit": True},
    )
    others = (
        replace(receipt, id="sha256:0"),
        replace(receipt, tags=(*image.tags, "gb10/test:none")),
        replace(receipt, host="unix:///nowhere"),
        replace(receipt, proof=str(tmp_path / "none")),
    )
    for one, found in ((receipt, receipt), *((other, None) for other in others)):
        write_receipt(tmp_path / "receipt", one)
        assert read_receipt(tmp_path / "receipt") == found


@pytest.mark.slow
def test_the_context_that_is_left_builds_the_same_image_by_bake_alone(
    ctx: Context, image: Verified, tmp_path: Path
) -> None:
    plan, engine = small_plan(ctx), connect_or_start(ctx.env, ctx.store)
    before = require_image(engine, image.tags[-1])
    ImageBuild(ctx, plan).context(tmp_path / "left")
    buildx = open_buildx(engine, ctx.env, ctx.store)
    file = str(tmp_path / "left/docker-bake.json")
    capture([*buildx.command, "bake", "--provenance=false", "-f", file], env=buildx.env, cwd=tmp_path / "left")
    assert require_image(engine, image.tags[-1]).id == before.id


@pytest.mark.slow
def test_an_image_whose_wheel_is_gone_is_no_hit_and_is_made_whole(ctx: Context, image: Verified) -> None:
    (step,) = small_plan(ctx).of_kind("wheel")
    ctx.store.discard(ctx.store.entry("wheels", step.key))
    assert not ImageBuild(ctx, small_plan(ctx)).image().hit
    assert ctx.store.entry("wheels", step.key).exists()


@pytest.mark.slow
def test_the_compile_cache_outlives_an_image(ctx: Context, image: Verified) -> None:
    (step,) = small_plan(ctx).of_kind("wheel")
    compiled = json.loads((ctx.store.entry("wheels", step.key) / "measured.json").read_text(encoding="utf-8"))
    ctx.store.discard(ctx.store.entry("wheels", step.key))
    # the number is in the command of the stage, so BuildKit has no result of it
    other = open_context({**os.environ, "GB10_JOBS": "1"}, verbosity=0)
    (wheel,) = wheels_of(other, small_plan(other))
    measured = json.loads((wheel.path.parent / "measured.json").read_text(encoding="utf-8"))
    assert not wheel.hit
    assert measured["silu_and_mul"]["cpu_s"] < compiled["silu_and_mul"]["cpu_s"] / 2  # no nvcc, no ptxas


def test_an_image_whose_scan_was_emptied_is_proven_again(ctx: Context, image: Verified) -> None:
    scan = Path(image.proof) / "base.json"
    scan.write_text("")
    assert not ImageBuild(ctx, small_plan(ctx)).image().hit
    assert scan.stat().st_size > 0
    assert ImageBuild(ctx, small_plan(ctx)).image().hit


def test_an_image_of_known_layers_is_verified_without_a_build(ctx: Context, image: Verified) -> None:
    scan = inspect_image(ctx, image.tags[0]).found.scan
    assert {binary.path.rsplit("/", 1)[-1] for binary in scan.binaries if binary.codes} == {"silu_and_mul.so"}


def test_an_overlay_is_one_more_layer_and_moves_no_other(ctx: Context, image: Verified, tmp_path: Path) -> None:
    changed = tmp_path / "usr/local/lib/python3.13/dist-packages/jinja2/__init__.py"
    changed.parent.mkdir(parents=True)
    changed.write_text("raise SystemExit('patched')\n", encoding="utf-8")
    over = ImageBuild(ctx, small_plan(ctx, overlay=tmp_path)).image()
    engine = connect_or_start(ctx.env, ctx.store)
    before, after = (require_image(engine, verified.tags[-1]).diff_ids for verified in (image, over))
    assert len(set(after) - set(before)) <= 2  # the overlay and the plan
    _, content = read_file(ctx, over.tags[-1], f"/{changed.relative_to(tmp_path)}")
    assert content == changed.read_bytes()


@pytest.mark.slow
def test_python_loads_what_the_overlay_holds(ctx: Context, tmp_path: Path) -> None:
    """Every source in the image has bytecode that Python does not check; so must a changed one."""
    overlay = tmp_path / "overlay"
    site = overlay / "usr/local/lib/python3.13/dist-packages"
    (site / "packaging").mkdir(parents=True)
    (site / "packaging/__init__.py").write_text("ORIGIN = 'overlay'\n", encoding="utf-8")
    (site / "packaging/tags.py").write_text("this does not parse\n", encoding="utf-8")
    (site / "packaging/utils.py").symlink_to("__init__.py")
    over = ImageBuild(ctx, small_plan(ctx, overlay=overlay)).image()
    python = partial(run_python, connect_or_start(ctx.env, ctx.store), over.tags[-1], emulator(ctx.store), "-c")
    assert python("import packaging; print(packaging.ORIGIN, packaging.__cached__[-4:])") == "overlay .pyc\n"
    assert python("import packaging.utils as u; print(u.ORIGIN)") == "overlay\n"
    loading = "try:\n    import packaging.tags\nexcept SyntaxError as error:\n    print(error.filename[-7:])"
    assert python(loading) == "tags.py\n"


def test_a_damaged_wheel_is_told_and_compiled_again(ctx: Context, capfd: pytest.CaptureFixture[str]) -> None:
    whole = wheels_of(ctx, small_plan(ctx))[0]
    content = bytearray(whole.path.read_bytes())
    content[len(content) // 2] ^= 1
    spoil(whole.path, bytes(content))
    again = wheels_of(ctx, small_plan(ctx))[0]
    assert "damaged in the store" in capfd.readouterr().err
    assert (again.hit, again.sha256) == (False, whole.sha256)


def test_a_damaged_download_is_fetched_again(ctx: Context, capfd: pytest.CaptureFixture[str]) -> None:
    plan = small_plan(ctx)
    file = min(plan.step("layer-deps").files, key=lambda file: file.size)
    stored = ctx.store.entry("downloads", file.sha256) / file.filename
    ImageBuild(ctx, plan).image()
    spoil(stored, b"damaged")
    recipe, lock = small()
    other = plan_image(
        recipe.model_copy(update={"command": (uuid.uuid4().hex,)}), lock, ctx.catalog.toolkit, plan.options
    )
    ImageBuild(ctx, other).image()
    assert f"{file.filename} is damaged in the store" in capfd.readouterr().err
    assert stored.stat().st_size == file.size


@pytest.mark.slow
def test_a_module_that_holds_other_code_than_declared_is_refused(ctx: Context, tmp_path: Path) -> None:
    wheel = wheels_of(ctx, small_plan(ctx, "12.1a"))[0].path
    liar = tmp_path / wheel.name
    with zipfile.ZipFile(wheel) as honest, zipfile.ZipFile(liar, "w") as lying:
        for name in honest.namelist():
            content = honest.read(name)
            lying.writestr(name, content.replace(b"12.1a", b"12.1f") if name.endswith("manifest.json") else content)
    with pytest.raises(VerifyError) as caught:
        prove_wheel(liar)
    assert "silu_and_mul.so" in str(caught.value)
    assert "sm_121a" in str(caught.value)


@pytest.mark.slow
def test_a_build_that_fails_moves_no_tag(ctx: Context, image: Verified) -> None:
    plan = small_plan(ctx)
    engine = connect_or_start(ctx.env, ctx.store)
    before = require_image(engine, plan.tags[0]).id
    recipe, lock = small()
    broken = recipe.model_copy(update={"workdir": "/usr/local/cuda"})
    bad = plan_image(broken, lock, ctx.catalog.toolkit, replace(plan.options))
    with pytest.raises(BuildError, match="build step failed"):
        ImageBuild(ctx, bad).image()
    assert require_image(engine, plan.tags[0]).id == before
    assert image.tags[0] == plan.tags[0]


BUILD = """\
import os, sys
sys.path.insert(0, os.getcwd())
from tests.integration.test_pipeline import ImageBuild, named_plan, open_context
ctx = open_context(os.environ, verbosity=-1)
ImageBuild(ctx, named_plan(ctx, sys.argv[1]), {"flashinfer-jit-cache"}).image()
"""


def named_plan(ctx: Context, name: str) -> Plan:
    """A plan of its own: its image runs ``name``."""
    recipe, lock = small()
    changed = recipe.model_copy(update={"command": (name,)})
    return plan_image(changed, lock, ctx.catalog.toolkit, small_plan(ctx).options)


@pytest.mark.long
def test_killed_at_any_moment_the_next_run_is_right(ctx: Context) -> None:
    whole = wheels_of(ctx, small_plan(ctx))[0]
    name = uuid.uuid4().hex
    for moment in (0.7, 1.5, 2.5, 4.0, 6.0, 9.0):
        with subprocess.Popen([sys.executable, "-c", BUILD, name], cwd=ROOT, start_new_session=True) as run:
            time.sleep(moment)
            os.killpg(run.pid, signal.SIGKILL)
    built = ImageBuild(ctx, named_plan(ctx, name)).image()
    assert wheels_of(ctx, small_plan(ctx))[0].sha256 == whole.sha256
    assert built.verdict.counts[Fit.NATIVE] == 1
    assert (
        json.loads(read_file(ctx, built.tags[-1], "/usr/share/gb10/plan.json")[1])["key"] == named_plan(ctx, name).key
    )
