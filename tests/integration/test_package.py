"""A real CUDA package of the index, for real: written into a recipe, locked, compiled across, read back by NVIDIA."""

import json
import os
import shutil
from pathlib import Path

import pytest

from gb10.containers.reach import connect_or_start
from gb10.core.proc import capture
from gb10.errors import BuildError
from gb10.image.build.wheels import Wheel, build_wheels
from gb10.image.context import Context, open_context
from gb10.image.lock.lockfile import load_lock, load_recipe, lock_path, write_lock
from gb10.image.lock.relock import resolve_lock
from gb10.image.plan.catalog import ROOT
from gb10.image.plan.values import Plan
from gb10.image.proof.reading import scan_path
from gb10.image.publish.licences import wheel_licence_problem
from gb10.image.request.planning import Request, make_plan
from gb10.image.upgrade.added_packages import add_packages

pytestmark = [pytest.mark.integration, pytest.mark.slow]

PACKAGE = "warp-rnnt"
RELEASE = f"{PACKAGE}==0.7.0"
"""Three files of CUDA and one of C++, 40 CPU seconds on x86-64."""


@pytest.fixture(scope="module")
def ctx() -> Context:
    return open_context(os.environ, verbosity=0)


@pytest.fixture(scope="module")
def recipe(ctx: Context, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the shipped recipe without wheels of its own, and the package added to it."""
    path = tmp_path_factory.mktemp("recipes") / "mine.yaml"
    text = (ROOT / "recipes/images/vllm.yaml").read_text(encoding="utf-8")
    kept, _, rest = text.partition("\nsources:\n")
    patches, _, layers = rest.partition("\npatches: ")[2].partition("\n")
    assert patches.startswith("[")
    own = "sources:\n  flashinfer: {sdist: flashinfer-python==0.7.2.post1}\n"
    path.write_text(f"{kept}\n{own}{layers}".replace("gb10/vllm", "gb10/test"), encoding="utf-8")
    old = load_lock(lock_path(ROOT / "recipes/images/vllm.yaml"))
    write_lock(lock_path(path), resolve_lock(load_recipe(path), old, store=ctx.store, env=ctx.env))
    added = add_packages(ctx, path, [RELEASE])
    assert f"+  {PACKAGE}: {{sdist: {RELEASE}}}" in added.difference
    added.write()
    return path


def planned(ctx: Context, recipe: Path, arch: str = "12.1f") -> Plan:
    return make_plan(ctx, Request(engine=str(recipe), arch=arch)).wheels_only()


def compiled(ctx: Context, recipe: Path) -> Wheel:
    return build_wheels(ctx, planned(ctx, recipe), lambda: connect_or_start(ctx.env, ctx.store), rebuild=())[0]


@pytest.fixture(scope="module")
def installed(ctx: Context, recipe: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    wheel = compiled(ctx, recipe)
    assert wheel.path.name.startswith(
        f"warp_rnnt-0.7.0+gb10.{int(wheel.key[:8]) if wheel.key[:8].isdigit() else wheel.key[:8]}"
    )
    assert "-cp313-cp313-manylinux_2_" in wheel.path.name
    assert wheel_licence_problem(wheel.path) == ""
    site = tmp_path_factory.mktemp("site")
    shutil.unpack_archive(wheel.path, site, "zip")
    return site


def test_the_extension_is_for_the_images_machine_and_python(installed: Path) -> None:
    (library,) = scan_path(installed / "warp_rnnt").binaries
    assert (library.machine, library.error) == ("aarch64", "")
    assert library.path == "_C.cpython-313-aarch64-linux-gnu.so"
    assert {"libtorch_cpu.so", "libtorch_python.so", "libcudart.so.13"} <= set(library.needed)


def test_nvidias_own_tool_reads_the_arch_back(installed: Path, cuda_tools: Path) -> None:
    """The package's own list of GPUs is not compiled: the arch alone is."""
    library = next((installed / "warp_rnnt").glob("_C.*.so"))
    text = capture([str(cuda_tools / "bin/cuobjdump"), "-elf", str(library)])
    assert {line.split("=")[1].strip() for line in text.splitlines() if line.startswith("arch =")} == {"sm_121a"}
    assert "Fatbin ptx code" not in capture([str(cuda_tools / "bin/cuobjdump"), "-ptx", str(library)])


def test_the_wheel_declares_what_it_holds(installed: Path) -> None:
    (manifest,) = installed.glob("*.dist-info/manifest.json")
    (module,) = json.loads(manifest.read_text(encoding="utf-8"))["modules"].values()
    assert (module["cubins"], module["units"]) == (["sm_121a"], 3)


def test_the_same_again_is_a_hit(ctx: Context, recipe: Path, installed: Path) -> None:
    assert installed.is_dir()
    assert compiled(ctx, recipe).hit


def test_a_build_requirement_that_is_not_named_is_one_error(ctx: Context, recipe: Path, tmp_path: Path) -> None:
    """uv builds nothing: the stage has it, and not setuptools."""
    path = tmp_path / "other.yaml"
    text = recipe.read_text(encoding="utf-8")
    assert "    tools: [setuptools]\n" in text
    path.write_text(text.replace("    tools: [setuptools]\n", "    tools: [wheel]\n"), encoding="utf-8")
    write_lock(
        lock_path(path), resolve_lock(load_recipe(path), load_lock(lock_path(recipe)), store=ctx.store, env=ctx.env)
    )
    with pytest.raises(BuildError, match="built with setuptools, which this stage lacks") as caught:
        compiled(ctx, path)
    assert "name them in its tools in the recipe" in (caught.value.hint or "")
