"""An image of others, made up, and plans on it."""

import hashlib
from collections.abc import Mapping
from dataclasses import replace

from gb10.core.fields import Architecture
from gb10.image.lock.base_lock import on_image_digest
from gb10.image.lock.lockfile import load_lock, load_recipe, lock_path
from gb10.image.plan.base_plan import lock_on, plan_on_image
from gb10.image.plan.catalog import ROOT
from gb10.image.plan.options import Mod, Options, Overlay, PatchUse
from gb10.image.plan.values import Plan
from gb10.image.recipe.arch import parse_arch
from gb10.image.recipe.base_image import BaseImage, BaseLayer, Installed
from gb10.image.recipe.locked import LockedWheel
from gb10.image.recipe.on_image import ImageBase, OnImage
from tests.recipes import SHIPPED

SITE = "/usr/local/lib/python3.12/dist-packages"
RECIPE = ROOT / "recipes/images/vllm.yaml"
PATCH = PatchUse(source="vllm", project="vllm", name="fix.diff", sha256="1" * 64, path="/somewhere/fix.diff")
MOD = Mod(name="one", path="/m", digest="2" * 64)
OVERLAY = Overlay(path="/o", digest="3" * 64)
WHEEL = LockedWheel(
    name="einops", version="0.8.1", filename="einops-0.8.1-py3-none-any.whl", sha256="4" * 64, size=1000
)


def sha256(text: str) -> str:
    """The digest of a text, as registries write it."""
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def base(
    name: str = "registry.example/vllm/vllm-openai", versions: Mapping[str, str] | None = None, **other: object
) -> BaseImage:
    """An image with vLLM in the system's Python."""
    found = {"vllm": "0.34.0.dev12+gabc", "torch": "2.10.0+cu130", "flashinfer-python": "0.6.7"} | dict(versions or {})
    made = BaseImage(
        reference=f"{name}@{sha256(name)}",
        platform="linux/arm64",
        layers=tuple(BaseLayer(digest=sha256(f"{one}z"), diff_id=sha256(one), size=1_000_000) for one in "abc"),
        environment={"PATH": "/usr/local/bin:/usr/bin", "VLLM_USAGE_SOURCE": "production"},
        user="2000:0",
        workdir="/vllm-workspace",
        entrypoint=("vllm", "serve"),
        command=(),
        interpreter="/usr/bin/python3.12",
        python="3.12",
        site_packages=(SITE, "/usr/lib/python3/dist-packages"),
        glibc="2.39",
        installed={name: Installed(name=name, version=version, folder=SITE) for name, version in found.items()},
        engine="vllm",
        cuda="13.0",
    )
    return replace(made, **other)  # type: ignore[arg-type]


def plan_on(
    image: BaseImage,
    *,
    patches: tuple[PatchUse, ...] = (),
    mods: tuple[Mod, ...] = (),
    overlay: Overlay | None = None,
    added: tuple[LockedWheel, ...] = (),
    env: Mapping[str, str] | None = None,
    build: Architecture = "amd64",
) -> Plan:
    """A plan on an image of others."""
    given = OnImage(base=ImageBase(image=image.reference), env=dict(env or {}))
    options = Options(
        arch=parse_arch("12.1f"),
        platform=image.platform,
        build=build,
        patches=patches,
        mods=mods,
        overlay=overlay,
        slim="none",
    )
    lock = lock_on(image, load_lock(lock_path(RECIPE)), on_image_digest(given), added)
    return plan_on_image(given, load_recipe(RECIPE), lock, SHIPPED.toolkit, options)
