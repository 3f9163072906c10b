"""Kernels for an image of others, compiled from the FlashInfer that it holds, and our patches by its releases."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from gb10.containers.connection import Engine
from gb10.containers.images import read_folders, require_image
from gb10.core.proc import capture
from gb10.image.build.stage import ready_engine
from gb10.image.context import Context
from tests.integration.bases import PACKAGES, Place, make_base
from tests.integration.nodes import Registry, registry
from tests.integration.services import called, ran

pytestmark = [pytest.mark.integration, pytest.mark.long]

FLASHINFER = "flashinfer-python==0.7.2.post1"
SITE = "/opt/venv/lib/python3.13/site-packages"
LIBRARY = f"{SITE}/flashinfer_jit_cache/modules/silu_and_mul/silu_and_mul.so"


@pytest.fixture(scope="module")
def place(ctx: Context, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    with registry(ctx.store, tmp_path_factory.mktemp("registry")) as found:
        yield found


@pytest.fixture(scope="module")
def engine(ctx: Context) -> Engine:
    return ready_engine(ctx)


@pytest.fixture(scope="module")
def base(ctx: Context, place: Registry, tmp_path_factory: pytest.TempPathFactory) -> str:
    """An image for a Spark with the whole FlashInfer of PyPI, in a venv."""
    own = Place(host=place.host, store=ctx.store, folder=tmp_path_factory.mktemp("base"))
    return make_base("venv", own, packages=(*PACKAGES, FLASHINFER, "apache-tvm-ffi==0.1.11"))


def test_a_kernel_is_compiled_from_what_the_base_holds_and_lies_where_its_python_looks(
    ctx: Context, engine: Engine, base: str, cuda_tools: Path, tmp_path: Path
) -> None:
    code, out, said = called("image", "--from", base, "--kernels", "smoke", "--json")
    assert code == 0, said
    tag = json.loads(out)["tags"][-1]
    found, _ = read_folders(engine, ctx.store, require_image(engine, tag), [LIBRARY])
    (tmp_path / "silu_and_mul.so").write_bytes(found[LIBRARY])
    listed = capture([str(cuda_tools / "bin/cuobjdump"), "-elf", str(tmp_path / "silu_and_mul.so")])
    archs = {line.split("=")[1].strip() for line in listed.splitlines() if line.startswith("arch =")}
    assert archs == {"sm_121f"}
    assert found[LIBRARY][18] == 183  # aarch64
    assert json.loads(ran("image", "--from", base, "--kernels", "smoke", "--json"))["hit"]
    parts = json.loads(ran("show", tag, "--sbom"))["packages"]
    versions = {part["name"]: part.get("versionInfo", "") for part in parts}
    assert versions["flashinfer-jit-cache"].startswith("0.7.2.post1+gb10.")
    assert "is reproduced" in called("rebuild", tag)[2]


def test_a_recipe_locks_the_sources_that_the_base_holds(base: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(f"base: {{image: '{base}'}}\nkernels: smoke\npatches: [vllm]\n", encoding="utf-8")
    ran("lock", "--engine", str(path))
    lock = json.loads(path.with_suffix(".lock.json").read_text(encoding="utf-8"))
    assert lock["sdists"]["flashinfer-python"]["base"] == base.rpartition("@")[2]
    assert ran("lock", "--engine", str(path), "--check") == ""
    code, out, said = called("plan", "--engine", str(path), "--json")
    assert code == 0, said
    plan = json.loads(out)
    assert "our patches for vllm 0.33.0: " in said
    assert {one["source"] for one in plan["patches"]} >= {"vllm", "flashinfer"}
    steps = {step["name"]: step for step in plan["steps"]}
    assert lock["sdists"]["flashinfer-python"]["sha256"] in {
        file["sha256"] for file in steps["flashinfer-jit-cache"]["files"]
    }
    wheel = steps["flashinfer-jit-cache"]["key"]
    assert wheel == next(
        step["key"]
        for step in json.loads(ran("plan", "--from", base, "--kernels", "smoke", "--json"))["steps"]
        if step["name"] == "flashinfer-jit-cache"
    )
