"""The whole image, by the command that README names; minutes to an hour, so apart from `make test`."""

import json
import os
import sys
from contextlib import closing
from pathlib import Path

import pytest

from gb10.catalog import ROOT
from gb10.debian.pool import fetch_debs
from gb10.debian.resolve import resolve_set
from gb10.engine.connection import Engine, client
from gb10.engine.find import find
from gb10.fetch import open_session
from gb10.pipeline.workshop import build_architecture
from gb10.proc import capture
from gb10.store import Store, open_store

pytestmark = pytest.mark.e2e
EMULATOR = {"amd64": "qemu-aarch64", "arm64": "qemu-x86_64"}[build_architecture()]
KERNELS = """
import importlib.util, json, pathlib, sys
sys.path.insert(0, "/usr/local/lib/python3.13/dist-packages")
import flashinfer_jit_cache
from importlib.metadata import version
folder = pathlib.Path(flashinfer_jit_cache.__file__).parent
manifest = json.loads((folder / "manifest.json").read_text())
import tvm_ffi
loaded = []
for name in sorted(manifest["modules"]):
    tvm_ffi.load_module(str(folder / "modules" / name / f"{name}.so"))
    loaded.append(name)
print(json.dumps({"version": version("flashinfer-jit-cache"), "loaded": loaded}))
"""


def build(*arguments: str) -> dict[str, object]:
    text = capture([sys.executable, str(ROOT / "build.py"), "image", "--json", "--quiet", *arguments], env=os.environ)
    document: dict[str, object] = json.loads(text)
    return document


@pytest.fixture(scope="module")
def store() -> Store:
    return open_store(os.environ)


@pytest.fixture(scope="module")
def engine(store: Store) -> Engine:
    return find(os.environ, store)


@pytest.fixture(scope="module")
def image() -> dict[str, object]:
    return build("--engine", "vllm", "--arch", "12.1f")


@pytest.fixture(scope="module")
def emulator(store: Store, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Debian's static qemu-user, called by its path: nothing is registered with the kernel."""
    debs = resolve_set(store, os.environ, suite="trixie", architecture=build_architecture(), packages=("qemu-user",))
    wanted = [deb for deb in debs if deb.name == "qemu-user"]
    with open_session(os.environ) as session:
        (deb,) = fetch_debs(session, store, os.environ, wanted)
    folder = tmp_path_factory.mktemp("qemu")
    capture(["dpkg-deb", "--extract", str(deb), str(folder)])
    return folder / "usr/bin" / EMULATOR


def test_the_image_is_proven_and_named_by_its_key(image: dict[str, object]) -> None:
    assert image["schema"] == "gb10/image/v1"
    codes = image["gpu_code"]
    assert isinstance(codes, dict)
    assert codes["damaged"] == 0
    assert codes["native"] >= 10


def test_the_same_again_is_a_hit_with_the_same_digest(image: dict[str, object]) -> None:
    again = build("--engine", "vllm", "--arch", "12.1f")
    assert (again["hit"], again["digest"]) == (True, image["digest"])


def test_every_kernel_loads_in_the_image_under_qemu(engine: Engine, image: dict[str, object], emulator: Path) -> None:
    tags = image["tags"]
    assert isinstance(tags, list)
    with closing(client(engine)) as sdk:
        output = sdk.containers.run(
            tags[-1], ["/usr/bin/python3.13", "-c", KERNELS], entrypoint=["/qemu"], platform="linux/arm64", remove=True,
            network_mode="none", volumes={str(emulator): {"bind": "/qemu", "mode": "ro"}},
        )  # fmt: skip
    found = json.loads(output.splitlines()[-1])
    assert "fp4_quantization_120f" in found["loaded"]
    assert found["version"].startswith("0.7.2.post1+gb10.")
