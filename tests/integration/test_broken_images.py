"""Images that are broken as people's images were, built for real: `verify` catches each, and only what is broken."""

import io
import json
import os
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from gb10.cli import main
from gb10.containers.connection import Engine, asking
from gb10.core.files import Artifact
from gb10.core.http_session import open_session
from gb10.errors import UsageError
from gb10.image.build.image_build import ImageBuild
from gb10.image.build.stage import ready_engine
from gb10.image.context import Context
from gb10.image.lock.lockfile import load_lock, lock_path
from gb10.image.rootfs.unpack import write_rootfs
from gb10.sources.debian.mirror import fetch_debs
from gb10.sources.index.client import fetch_all
from tests.integration.debian_roots import resolved
from tests.integration.nodes import load_image, random_image
from tests.integration.test_pipeline import RECIPE, small_plan
from tests.integration.test_pipeline import ctx as ctx  # noqa: PLC0414 - a fixture

pytestmark = [pytest.mark.integration, pytest.mark.slow]

SITE = "usr/local/lib/python3.13/dist-packages"
MADE_BY_NVCC = Path(__file__).parents[1] / "unit" / "data" / "scan"
SETTINGS = {"User": "10001", "Env": ["PATH=/usr/bin"]}
Files = dict[str, bytes]
LIBRARY, EXTENSION = "torch/lib/libtvm_ffi.so", "vllm/_C.abi3.so"
"""A real pair: xgrammar's library, which needs the one of apache-tvm-ffi, in the places of vLLM's and torch's."""


def information(name: str, version: str, *requires: str) -> Files:
    """The dist-info folder of a distribution."""
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    lines += [f"Requires-Dist: {one}" for one in requires]
    folder = f"{name.replace('-', '_')}-{version}.dist-info"
    tags = "Wheel-Version: 1.0\nTag: cp313-cp313-manylinux_2_28_aarch64\n"
    return {f"{folder}/METADATA": ("\n".join(lines) + "\n").encode(), f"{folder}/WHEEL": tags.encode()}


def member(wheels: Mapping[str, Path], project: str, name: str) -> bytes:
    """A file of a locked wheel."""
    wheel = next(path for path in wheels.values() if path.name.startswith(project))
    with zipfile.ZipFile(wheel) as archive:
        return archive.read(name)


@pytest.fixture(scope="module")
def good(ctx: Context) -> Files:
    """The packages of an image that is as it should be, below site-packages."""
    locked = load_lock(lock_path(RECIPE)).wheels.image["arm64"]
    wanted = [one for one in locked if one.name in ("apache-tvm-ffi", "xgrammar")]
    wheels = fetch_all([Artifact(one.filename, one.sha256, one.size) for one in wanted], ctx.store, ctx.env)
    return {
        **information("torch", "2.14.0"),
        "torch/version.py": b"__version__ = '2.14.0+cu130'\ncuda: Optional[str] = '13.0'\n",
        LIBRARY: member(wheels, "apache_tvm_ffi", "tvm_ffi/lib/libtvm_ffi.so"),
        **information("vllm", "0.33.0", "torch==2.14.0", "flashinfer-python==0.7.2.post1"),
        EXTENSION: member(wheels, "xgrammar", "xgrammar/libxgrammar_bindings.so"),
        **information("flashinfer-python", "0.7.2.post1"),
        **information("flashinfer-jit-cache", "0.7.2.post1+cu130"),
        **information("flashinfer-cubin", "0.7.2.post1"),
    }


@pytest.fixture(scope="module")
def base(ctx: Context, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Debian's C and C++ libraries for the Spark's machine."""
    tar = tmp_path_factory.mktemp("base") / "root.tar"
    with open_session(os.environ) as session:
        debs = fetch_debs(session, ctx.store, os.environ, resolved("libstdc++6", architecture="arm64"))
        write_rootfs(debs, tar, epoch=0)
    return tar.read_bytes()


@pytest.fixture(scope="module")
def engine(ctx: Context) -> Engine:
    return ready_engine(ctx)


Made = Callable[..., dict[str, list[tuple[str, str]]]]


@pytest.fixture
def verified(engine: Engine, base: bytes, capsys: pytest.CaptureFixture[str]) -> Made:
    """Makes an image of files, modes and settings, verifies it, and gives the problems by check: file and finding."""

    def run(
        files: Files, modes: Mapping[str, int] | None = None, **settings: object
    ) -> dict[str, list[tuple[str, str]]]:
        layer = packed({f"{SITE}/{name}": content for name, content in files.items()}, modes or {})
        load_image(engine, "gb10/test:seeded", [base, layer], {**SETTINGS, **settings})
        code = main(["verify", "gb10/test:seeded", "--json", "--quiet"])
        document = json.loads(capsys.readouterr().out)
        found: dict[str, list[tuple[str, str]]] = {}
        for one in document["problems"]:
            found.setdefault(one["check"], []).append((one["file"].removeprefix(f"{SITE}/"), one["found"]))
        assert code == (9 if found else 0)
        return found

    return run


def packed(files: Files, modes: Mapping[str, int]) -> bytes:
    """A layer; a mode of a path that is no file makes a folder."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, content in files.items():
            one = tarfile.TarInfo(name)
            one.size, one.mode = len(content), modes.get(name, 0o644)
            tar.addfile(one, io.BytesIO(content))
        for name in modes.keys() - files.keys():
            folder = tarfile.TarInfo(name)
            folder.type, folder.mode = tarfile.DIRTYPE, modes[name]
            tar.addfile(folder)
    return out.getvalue()


def test_an_image_that_is_as_it_should_be(verified: Made, good: Files) -> None:
    assert verified(good) == {}


def test_a_torch_without_cuda(verified: Made, good: Files) -> None:
    """As an image that a resolver gave torch 2.10.0+cpu."""
    found = verified({**good, "torch/version.py": b"__version__ = '2.14.0+cpu'\ncuda: Optional[str] = None\n"})
    assert found == {"torch": [("torch-2.14.0.dist-info/METADATA", "torch 2.14.0 without CUDA")]}


def test_an_extension_for_another_abi(verified: Made, good: Files) -> None:
    """As a wheel for another CUDA's torch: one symbol has another name."""
    name = b"\0TVMFFITypeRegisterMetadata\0"
    assert name in good[LIBRARY]
    found = verified({**good, LIBRARY: good[LIBRARY].replace(name, name.replace(b"Register", b"Registry"))})
    assert list(found) == ["symbols"]
    assert {file for file, _ in found["symbols"]} == {EXTENSION}
    assert found["symbols"][0][1].startswith("undefined TVMFFITypeRegisterMetadata")


def test_two_sets_of_cubins(verified: Made, good: Files) -> None:
    found = verified({**good, **information("flashinfer-cubin", "0.6.13")})
    assert "0.6.13 (flashinfer_cubin-0.6.13.dist-info)" in found["distributions"][0][1]
    assert found.keys() <= {"distributions", "flashinfer"}


def test_no_flashinfer(verified: Made, good: Files) -> None:
    found = verified({name: content for name, content in good.items() if not name.startswith("flashinfer_python")})
    assert found == {"requirements": [("vllm-0.33.0.dist-info/METADATA", "no flashinfer-python")]}


def test_kernels_of_another_release(verified: Made, good: Files) -> None:
    skewed = {name: content for name, content in good.items() if not name.startswith("flashinfer_jit_cache")}
    found = verified({**skewed, **information("flashinfer-jit-cache", "0.7.1+cu130")})
    told = ("flashinfer_python-0.7.2.post1.dist-info/METADATA", "flashinfer-python 0.7.2.post1")
    assert found == {"flashinfer": [told]}


def test_rights_secrets_and_a_wheel_for_another_machine(verified: Made, good: Files) -> None:
    token = "hf_" + "aB" * 17
    wheel = information("numpy", "2.4.1")
    wheel["numpy-2.4.1.dist-info/WHEEL"] = b"Wheel-Version: 1.0\nTag: cp313-cp313-manylinux_2_28_x86_64\n"
    files = {**good, **wheel, "tool": b"#!/bin/sh\n", "notes.txt": f"token {token}\n".encode()}
    modes = {f"{SITE}/tool": 0o4755, "srv/open": 0o777}
    found = verified(files, modes, Env=["PATH=/usr/bin", f"HF_TOKEN={token}"])
    assert found["rights"] == [("srv/open", "writable"), ("tool", "setuid")]
    told = "a token of the Hugging Face Hub"
    assert found["secrets"] == [("notes.txt", told), ("ENV HF_TOKEN", told)]
    assert [file for file, _ in found["requirements"]] == ["numpy-2.4.1.dist-info/METADATA"]
    assert found.keys() == {"rights", "secrets", "requirements"}


def test_wheels_that_claim_an_arch_and_hold_another(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with zipfile.ZipFile(tmp_path / "vllm-0.33.0-cp313-cp313-manylinux_2_28_aarch64.whl", "w") as archive:
        archive.write(MADE_BY_NVCC / "cuda13.sm_121a.cubin", "vllm/right.cubin")
        archive.write(MADE_BY_NVCC / "cuda13.sm_120.cubin", "vllm/wrong.cubin")
    (tmp_path / ".vllm-arch").write_text("12.1a\n", encoding="ascii")
    assert main(["verify", str(tmp_path), "--json", "--quiet"]) == 9
    [problem] = json.loads(capsys.readouterr().out)["problems"]
    assert (problem["check"], problem["found"]) == ("claim", "sm_120 x1")
    assert problem["file"].endswith("vllm/wrong.cubin")


@pytest.mark.long
def test_a_patch_that_a_later_layer_hides(
    ctx: Context, engine: Engine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An image of ours on which somebody built: an install above it replaced a file that was changed on purpose."""
    path = f"{SITE}/jinja2/gb10_note.py"
    (tmp_path / path).parent.mkdir(parents=True)
    (tmp_path / path).write_text("WHY = 'patched'\n", encoding="utf-8")
    ours = ImageBuild(ctx, small_plan(ctx, overlay=tmp_path)).image()
    assert main(["verify", ours.tags[-1], "--json", "--quiet"]) == 0
    assert json.loads(capsys.readouterr().out)["problems"] == []
    with asking(engine) as sdk:
        container = sdk.containers.create(ours.tags[-1], command="-", platform="linux/arm64")
        try:
            container.put_archive("/", packed({path: b"WHY = 'upstream'\n"}, {}))
            container.commit("gb10/test", "above")
        finally:
            container.remove()
    assert main(["verify", "gb10/test:above", "--json", "--quiet"]) == 9
    [problem] = json.loads(capsys.readouterr().out)["problems"]
    assert (problem["check"], problem["file"]) == ("edits", path)
    assert "as overlay made it" in problem["expected"]


def test_an_image_with_triggers_is_not_read(engine: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    """A stage above it would run them."""
    random_image(engine, "gb10/test:plain", 1_000)
    with asking(engine) as sdk:
        container = sdk.containers.create("gb10/test:plain", command="-")
        try:
            container.commit("gb10/test", "triggers", changes="ONBUILD RUN touch /ran")
        finally:
            container.remove()
    assert main(["verify", "gb10/test:triggers", "--json", "--quiet"]) == UsageError.code
    assert "ONBUILD" in capsys.readouterr().out
