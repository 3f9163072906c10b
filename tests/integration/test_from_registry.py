"""An image of others from its registry to a plan: read once, locked, with kernels; and what each odd image becomes."""

import base64
import gzip
import hashlib
import json
import re
import tarfile
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Final

import pytest
import yaml

from gb10.containers.registry.repository import INDEX, MANIFEST
from gb10.core.fetch import store_paths
from gb10.core.files import Artifact
from gb10.errors import Gb10Error, PublishError, UsageError, VerifyError
from gb10.image.base.base_reading import files_of, inspect_base, known_base
from gb10.image.base.base_sources import ready_sources
from gb10.image.context import Context, open_context
from gb10.image.lock.base_lock import lock_on_image
from gb10.image.lock.lockfile import load_any, load_lock, lock_path, write_lock
from gb10.image.plan.values import Plan
from gb10.image.recipe.locked import Lock, LockedPart, LockedTaken
from gb10.image.recipe.on_image import OnImage
from gb10.image.request.planning import Request, make_plan
from tests.integration.oci_server import Registry, oci_server
from tests.recipes import SHIPPED
from tests.unit.made_up_base import RECIPE
from tests.unit.made_up_bases import File, package, packed, python

pytestmark = pytest.mark.integration

DRIVES: Final = (
    "gb10.image.base.described",
    "gb10.image.base.file_tree",
    "gb10.image.base.found_packages",
    "gb10.image.base.kept_layers",
    "gb10.image.base.layer_index",
    "gb10.image.base.pythons",
    "gb10.image.request.from_image",
)
PLAIN: Final[Mapping[str, object]] = MappingProxyType({})
BOTH: Final = {"kernels": "core", "own_kernels": "moe"}
SITE: Final = "usr/lib/python3.12/site-packages"
LOADER: Final = "for one in flashinfer_jit_cache.get_jit_cache_providers(): FLASHINFER_AOT_DIR = one\n"
LIBC: Final = "GNU C Library (Debian GLIBC 2.41-12) stable release version 2.41.\n"
VERSION: Final = "#define CUTLASS_MAJOR 4\n#define CUTLASS_MINOR 5\n#define CUTLASS_PATCH 1\n"
TFFI: Final = "0.1.11"


def torch_headers() -> list[File]:
    """What the units of our kernels include of torch."""
    units = [text for name, text in SHIPPED.contents.items() if name.startswith("units/")]
    names = {found.decode() for text in units for found in re.findall(rb"^#include <(torch/[\w./-]+)>", text, re.M)}
    return [(f"{SITE}/torch/include/{name}", f"// {name}\n", "f") for name in sorted(names)]


def layers(cuda: str = "13.0", tvm: str = TFFI) -> list[list[File]]:
    """A Python with vLLM, torch and FlashInfer, in three layers."""
    return [
        [
            *python(),
            ("etc/os-release", "ID=debian\n", "f"),
            ("usr/lib/aarch64-linux-gnu/libc.so.6", LIBC, "f"),
        ],
        [
            *package(SITE, "torch", "2.14.0+cu130"),
            (f"{SITE}/torch/version.py", f"__version__ = '2.14.0'\ncuda = '{cuda}'\n", "f"),
            (f"{SITE}/torch/lib/libtorch_cpu.so", "cpu", "f"),
            (f"{SITE}/torch/lib/libtorch_cuda.so", "cuda", "f"),
            (f"{SITE}/torch/lib/other.so", "other", "f"),
            *torch_headers(),
            *package(SITE, "apache_tvm_ffi", tvm),
        ],
        [
            *package(SITE, "vllm", "0.33.0"),
            *package(SITE, "flashinfer_python", "0.7.2.post1"),
            (f"{SITE}/flashinfer/__init__.py", "", "f"),
            (f"{SITE}/flashinfer/aot.py", "a = 1\n", "f"),
            (f"{SITE}/flashinfer/jit/env.py", LOADER, "f"),
            (f"{SITE}/flashinfer/notes.txt", "no Python\n", "f"),
            (f"{SITE}/flashinfer/data/csrc/k.cu", "int k;\n", "f"),
            (f"{SITE}/flashinfer/data/data.py", "d = 1\n", "f"),
            (f"{SITE}/flashinfer/data/include/i.cuh", "int i;\n", "f"),
            (f"{SITE}/flashinfer/data/cutlass/include/cutlass/version.h", VERSION, "f"),
        ],
    ]


@dataclass(kw_only=True)
class Place:
    """The registry, a user who is logged in there, and a folder for recipes."""

    registry: Registry
    ctx: Context
    folder: Path
    names: list[str] = field(default_factory=list)

    def push(self, files: list[list[File]], tag: str = "1", changed: Mapping[str, object] = PLAIN) -> str:
        """An image; returns its name with the tag. ``changed``: fields of the config, or of the manifest's layers."""
        tars = [packed(*layer) for layer in files]
        blobs = [gzip.compress(tar, mtime=0) for tar in tars]
        rows = [self.blob(blob) for blob in blobs]
        config = {
            "os": "linux",
            "architecture": "arm64",
            "config": {"User": "1000", "Env": ["PATH=/usr/bin", "A=b"]},
            "rootfs": {"type": "layers", "diff_ids": [digest_of(tar) for tar in tars]},
            **changed,
        }
        text = json.dumps({"schemaVersion": 2, "config": self.blob(json.dumps(config).encode()), "layers": rows})
        self.manifest(text.encode(), tag)
        return f"{self.registry.host}/some/base:{tag}"

    def blob(self, content: bytes) -> dict[str, object]:
        self.registry.blobs[digest_of(content)] = content
        return {"mediaType": "x", "digest": digest_of(content), "size": len(content)}

    def manifest(self, content: bytes, tag: str, kind: str = MANIFEST) -> str:
        for name in (digest_of(content), tag):
            self.registry.manifests[name] = (kind, content)
        return digest_of(content)

    def locked(
        self, name: str, recipe: Mapping[str, object] = PLAIN, upgrade: tuple[str, ...] = ()
    ) -> tuple[Path, Lock]:
        """A recipe file on an image, and its lock, written beside it."""
        path = self.folder / "my.yaml"
        path.write_text(yaml.safe_dump({"base": {"image": name}, **recipe}), encoding="utf-8")
        given = load_any(path)
        assert isinstance(given, OnImage)
        made = lock_on_image(self.ctx, given, path, upgrade)
        write_lock(lock_path(path), made)
        return path, made

    def blobs_asked(self) -> int:
        """Requests for layers and configs since the last call."""
        found = len({line for line in self.registry.asked if "/blobs/" in line})  # one may be asked again with a token
        self.registry.asked.clear()
        return found


def digest_of(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with oci_server(Registry()) as registry:
        auth = base64.b64encode(b"me:secret").decode()
        (tmp_path / "config.json").write_text(json.dumps({"auths": {registry.host: {"auth": auth}}}))
        env = {"DOCKER_CONFIG": str(tmp_path), "GB10_CACHE_DIR": str(tmp_path / "store"), "HOME": str(tmp_path)}
        yield Place(registry=registry, ctx=open_context(env, verbosity=0), folder=tmp_path)


def refused(place: Place, name: str, recipe: Mapping[str, object] = PLAIN) -> str:
    """The error of a lock, without digests and ports."""
    with pytest.raises(Gb10Error) as caught:
        place.locked(name, recipe)
    text = f"{caught.value.code}: {caught.value}".replace(place.registry.host, "HOST")
    return re.sub(r"sha256:[0-9a-f]{64}", "DIGEST", text)


def plan_of(place: Place, path: Path | str, **asked: object) -> Plan:
    return make_plan(place.ctx, Request(engine=str(path), arch="12.1f", **asked))  # type: ignore[arg-type]


def test_an_image_is_read_once_and_its_digest_asks_nobody(place: Place) -> None:
    name = place.push(layers())
    assert known_base(place.ctx, name, "linux/arm64") is None
    place.registry.asked.clear()
    found = inspect_base(place.ctx, name, "linux/arm64")
    assert place.blobs_asked() == 3
    assert (found.engine, found.version, found.cuda, found.glibc, found.python) == (
        "vllm",
        "0.33.0",
        "13.0",
        "2.41",
        "3.12",
    )
    assert (found.user, found.environment, found.site_packages) == (
        "1000",
        {"PATH": "/usr/bin", "A": "b"},
        (f"/{SITE}",),
    )
    assert sorted(found.installed) == ["apache-tvm-ffi", "flashinfer-python", "torch", "vllm"]
    assert known_base(place.ctx, name, "linux/arm64") == found
    place.registry.asked.clear()
    assert inspect_base(place.ctx, found.reference, "linux/arm64") == found
    assert place.registry.asked == []
    paths = (
        f"/{SITE}/flashinfer/aot.py",
        f"/{SITE}/flashinfer",
        "/nothing",
        "/usr/bin/python3",
        f"/{SITE}/vllm/__init__.py",
    )
    read = files_of(place.ctx, found, paths)
    assert {path: len(content) for path, content in read.items()} == {paths[0]: 6, paths[3]: 64, paths[4]: 0}
    assert place.blobs_asked() == 2  # the layers that hold them
    again = place.push([*layers(), [("etc/new", "1", "f")]], "2")
    assert len(inspect_base(place.ctx, again, "linux/arm64").layers) == 4
    assert place.blobs_asked() == 2  # the new layer and the config


def test_kernels_are_compiled_from_what_the_image_holds(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    name = place.push(layers())
    path, lock = place.locked(name, BOTH)
    part = lock.sdists["flashinfer-python"]
    assert lock.base and isinstance(part, LockedPart)
    assert (part.version, part.cutlass, part.modules, part.base) == ("0.7.2.post1", "4.5.1", "", lock.base.digest)
    (archive,) = store_paths(place.ctx.store, [Artifact(part.filename, part.sha256, part.size)])
    with tarfile.open(archive) as tar:
        assert sorted(name.partition("/")[2] for name in tar.getnames()) == [
            *("3rdparty/cutlass/include/cutlass/version.h", "csrc/k.cu", "flashinfer/__init__.py", "flashinfer/aot.py"),
            *("flashinfer/jit/env.py", "include/i.cuh"),
        ]
    *headers, torch = lock.headers or ()
    assert [one.name for one in headers] == [
        *("nvidia-cublas", "nvidia-cuda-cccl", "nvidia-cuda-crt", "nvidia-cuda-nvrtc", "nvidia-cuda-runtime"),
        "nvidia-curand",
    ]
    assert isinstance(torch, LockedTaken)
    (wheel,) = store_paths(place.ctx.store, [Artifact(torch.filename, torch.sha256, torch.size)])
    with zipfile.ZipFile(wheel) as archived:
        names = {one.partition("/")[2] for one in archived.namelist() if one.startswith("torch/")}
    assert {name for name in names if name.startswith("lib/")} == {"lib/libtorch_cpu.so", "lib/libtorch_cuda.so"}
    assert len(names) == 2 + len(torch_headers())
    ours = load_lock(lock_path(RECIPE)).wheels.tools
    own = {"apache-tvm-ffi", "ninja", "nvidia-cuda-nvcc", "uv"}
    assert {one.name for one in lock.wheels.tools["arm64"]} <= {one.name for one in ours["arm64"]}
    assert own <= {one.name for one in lock.wheels.tools["amd64"]}
    assert len(lock.wheels.tools["arm64"]) == len({one.name for one in lock.wheels.tools["arm64"]})
    place.blobs_asked()
    assert place.locked(name, BOTH)[1] == lock
    assert place.registry.asked == []
    plan = plan_of(place, path, patches=("vllm",))
    assert [step.name for step in plan.of_kind("added")] == ["layer-flashinfer-jit-cache", "layer-gb10-kernels"]
    capsys.readouterr()
    of_tag = plan_of(place, "vllm", base=name, kernels="core", named_engine=True)
    assert [step.name for step in of_tag.of_kind("added")] == ["layer-flashinfer-jit-cache"]
    said = capsys.readouterr().err.replace(lock.base.reference, "BASE").splitlines()
    assert said[0] == f"--from {name} is BASE"
    for file, locked in ((archive, part), (wheel, torch)):
        before = file.read_bytes()
        ready_sources(place.ctx, lock.base, locked)
        file.write_bytes(before[:-1] + b"x")
        ready_sources(place.ctx, lock.base, locked)
        assert file.read_bytes() == before
        file.unlink()
        with pytest.raises(UsageError, match=f"gives other files of {locked.name} than the lock names"):
            ready_sources(place.ctx, lock.base, locked.model_copy(update={"sha256": "0" * 64}))
    damaged = capsys.readouterr().err.splitlines()
    assert [line for line in damaged if "is damaged" in line] == [
        f"{file.name} is damaged in the store: made again" for file in (archive, wheel)
    ]


def test_a_tag_that_moves_is_followed_only_when_it_is_asked_for(place: Place) -> None:
    name = place.push(layers())
    old = place.locked(name)[1].base
    place.push([*layers(), [("etc/new", "1", "f")]])
    assert place.locked(name, {"env": {"A": "b"}})[1].base == old
    new = place.locked(name, upgrade=("base",))[1].base
    assert old and new and old.digest != new.digest
    assert place.locked(name, {"engine": "vllm"})[1].base == new  # asked otherwise, the digest stays


def without(files: list[list[File]], *parts: str) -> list[list[File]]:
    """The layers without files whose paths have one of these parts."""
    return [[one for one in layer if not any(part in one[0] for part in parts)] for layer in files]


CORE: Final = {"kernels": "core"}
MOE: Final = {"own_kernels": "moe"}
NO_KERNELS: Final = "hint: build on an image with CUDA 13.0 or a later 13.x, or leave out --kernels"
NONE: Final = "hint: build on an image with FlashInfer, or leave out --kernels"
NO_OWN: Final = "hint: build on an image with a whole torch, or leave out our kernels (gb10-…)"
BASE: Final = "HOST/some/base@DIGEST"
OTHER_CUDA: Final = f"2: error: kernels are compiled by CUDA 13.0, and the torch of {BASE} has"


@pytest.mark.parametrize(
    ("files", "recipe", "said"),
    [
        (
            layers(cuda="12.9"),
            CORE,
            f"{OTHER_CUDA} CUDA 12.9\n{NO_KERNELS}",
        ),
        (
            layers(cuda="14.0"),
            CORE,
            f"{OTHER_CUDA} CUDA 14.0\n{NO_KERNELS}",
        ),
        (
            without(layers(), "torch/version.py"),
            CORE,
            f"{OTHER_CUDA} no CUDA that could be read\n{NO_KERNELS}",
        ),
        (
            without(layers(), "tvm_ffi"),
            CORE,
            f"2: error: {BASE} holds no apache-tvm-ffi, which loads FlashInfer's kernels\nhint: leave out --kernels",
        ),
        (
            without(layers(), "flashinfer_python"),
            CORE,
            f"2: error: {BASE} holds no FlashInfer: no kernels are compiled for it\n{NONE}",
        ),
        (
            without(layers(), "aot.py", "i.cuh"),
            CORE,
            f"2: error: the FlashInfer of {BASE} has no sources: flashinfer/aot.py, include\n  /{SITE}\n{NONE}",
        ),
        (
            without(layers(), "libtorch_cpu", "stable/ops.h"),
            MOE,
            f"2: error: the torch 2.14.0+cu130 of {BASE} lacks what our kernels are compiled with\n"
            f"  /{SITE} has no torch/lib/libtorch_cpu.so, torch/include/torch/csrc/stable/ops.h\n{NO_OWN}",
        ),
        (
            without(layers(), "libc.so"),
            {"requirements": ["einops"]},
            f"2: error: {BASE} has no glibc that could be read: no wheel is known to fit\nhint: leave out requirements",
        ),
    ],
)
def test_an_image_that_kernels_or_wheels_cannot_be_made_for(
    place: Place, files: list[list[File]], recipe: Mapping[str, object], said: str
) -> None:
    assert refused(place, place.push(files), recipe) == said


def test_a_later_cuda_of_the_same_major_will_do(place: Place) -> None:
    assert place.locked(place.push(layers(cuda="13.2")), CORE)[1].base


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"architecture": "amd64"}, "10: error: HOST/some/base:1 is not for linux/arm64\n  it is for linux/amd64"),
        ({"os": ""}, "10: error: HOST/some/base:1 is not for linux/arm64"),
        ({"rootfs": {"diff_ids": []}}, "9: error: HOST/some/base:1 has 3 layers, and its config names 0"),
        ({"rootfs": None}, "9: error: HOST/some/base:1 has 3 layers, and its config names 0"),
        (
            {"rootfs": {"diff_ids": [digest_of(b"")] * 3}},
            f"9: error: {BASE} names other layers than it has\n"
            "  DIGEST unpacks to DIGEST, which its config does not name there",
        ),
        (
            {"config": {"OnBuild": [f"RUN {number}" for number in range(7)]}},
            "2: error: HOST/some/base:1 has ONBUILD instructions: building on it would run them\n"
            + "\n".join(f"  RUN {number}" for number in range(5))
            + "\nhint",
        ),
    ],
)
def test_an_image_that_contradicts_itself_or_is_for_others(place: Place, changed: dict[str, object], said: str) -> None:
    assert refused(place, place.push(layers(), changed=changed)).startswith(said)


def test_of_an_index_the_platform_is_read_and_a_damaged_layer_is_refused(place: Place) -> None:
    name = place.push(layers())
    own = next(key for key, (kind, _) in place.registry.manifests.items() if key.startswith("sha256:"))
    rows = [
        {"digest": digest_of(b"x"), "platform": {"os": "linux", "architecture": "amd64"}},
        {"digest": own, "platform": {"os": "linux", "architecture": "arm64"}},
    ]
    place.manifest(json.dumps({"manifests": rows}).encode(), "2", INDEX)
    assert inspect_base(place.ctx, name.replace(":1", ":2"), "linux/arm64").digest == own
    with pytest.raises(PublishError, match="is not for linux/s390x"):
        inspect_base(place.ctx, name.replace(":1", ":2"), "linux/s390x")
    odd = place.push([[("etc/odd", "1", "f")]], "3")
    last = list(place.registry.blobs)[-2]
    place.registry.blobs[last] = place.registry.blobs[last][:-1] + b"x"
    with pytest.raises((PublishError, VerifyError)):
        inspect_base(place.ctx, odd, "linux/arm64")
