"""A small recipe and its lock, of files that exist nowhere: what is rendered moves with templates and code alone."""

import datetime
import hashlib
from dataclasses import replace
from functools import cache

from gb10.core.document import parse_document
from gb10.image.lock.lockfile import base_digest, input_digest
from gb10.image.plan.dag import plan_image
from gb10.image.plan.options import Options
from gb10.image.plan.values import Plan
from gb10.image.recipe.image_recipe import Recipe
from gb10.image.recipe.locked import Lock, LockedDebs, LockedSdist, LockedWheel, LockedWheels
from gb10.sources.debian.mirror import LockedDeb
from tests.recipes import SHIPPED

RECIPE = """\
engine: small
version: 1.2.3
repository: mine/small
python: "3.13"
cuda: "13.0"
base:
  suite: trixie
  packages: {image: [python3-dev], build: [ccache, g++], cross: {amd64: [g++-aarch64-linux-gnu]}}
requirements: [small==1.2.3, flashinfer-python==4.5.6]
tools: [uv]
sources:
  flashinfer: {sdist: flashinfer-python==4.5.6}
  small: {sdist: small==1.2.3}
wheels:
  jit-cache: {method: aot, source: flashinfer, kernels: few, headers: [nvidia-cuda-cccl]}
  kernels: {method: extension, source: flashinfer, kernels: few, headers: [torch]}
  small:
    method: source
    source: small
    targets: [_C_one, _C_two]
    cutlass: {source: flashinfer, instead-of: v1.0.0, why: it is bundled}
    headers: [torch]
    tools: [cmake]
layers:
  - {name: torch, packages: [torch]}
  - {name: rest, rest: true}
env: {PATH: /usr/bin, HOME: /var/cache/small}
user: 10001
workdir: /srv
command: [python3, -m, small]
"""
IMAGE = {"torch": "9.0", "flashinfer-python": "4.5.6", "small": "1.2.3", "cmake": "3.0"} | dict.fromkeys(
    ("nvidia-cuda-cccl", "nvidia-cuda-crt", "nvidia-cuda-runtime"), "13.0.1"
)


SETS = {
    "flashinfer-few": {"name": "few", "module": [{"name": "one", "factory": "flashinfer.jit:one"}]},
    "gb10-few": {"name": "few", "version": "1", "module": [{"name": "two"}]},
}


@cache
def recipe() -> Recipe:
    return parse_document(RECIPE, Recipe, where="small.yaml", what="image recipe")


def plan_for(options: Options) -> Plan:
    """The small image's plan, with the real templates and scripts."""
    toolkit = SHIPPED.toolkit
    own = replace(toolkit, digests={**toolkit.digests, "units/few/two.cu": "0" * 64}, kernel_sets=SETS)
    return plan_image(recipe(), lock(), own, options)


@cache
def lock() -> Lock:
    """Two packages of Debian, a few wheels and two archives; each hash is that of its file's name."""
    debs = {arch: (deb("base-files", arch), deb("libpython3.13-dev", arch)) for arch in ("amd64", "arm64")}
    image = {arch: tuple(wheel(*project) for project in IMAGE.items()) for arch in ("amd64", "arm64")}
    tools = {arch: (wheel("cmake", "3.0"), wheel("uv", "1.0")) for arch in ("amd64", "arm64")}
    sdists = {name: sdist(name, IMAGE[name]) for name in ("flashinfer-python", "small")}
    return Lock.model_validate(
        {
            "input_digest": input_digest(recipe()),
            "base_digest": base_digest(recipe()),
            "created": datetime.date(2026, 1, 2),
            "debs": LockedDebs.model_validate({"image": debs, "build": debs}),
            "wheels": LockedWheels.model_validate({"image": image, "tools": tools}),
            "sdists": sdists,
        }
    )


def deb(name: str, arch: str) -> LockedDeb:
    path = f"pool/main/{name[0]}/{name}/{name}_1_{arch}.deb"
    return LockedDeb(name=name, version="1", architecture=arch, path=path, sha256=sha256(path), size=1000)


def wheel(name: str, version: str) -> LockedWheel:
    filename = f"{name.replace('-', '_')}-{version}-py3-none-any.whl"
    return LockedWheel(name=name, version=version, filename=filename, sha256=sha256(filename), size=1000)


def sdist(name: str, version: str) -> LockedSdist:
    filename = f"{name.replace('-', '_')}-{version}.tar.gz"
    return LockedSdist(name=name, version=version, filename=filename, sha256=sha256(filename), size=1000)


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
