"""Inspecting: the scan of any image of the engine, from its layers' kept scans or by mounting it in a build stage."""

import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from gb10.build.bases import make_rootfs
from gb10.build.contexts import build_context
from gb10.build.scanner import scanner_files
from gb10.build.stage import engine_with_images, run_build
from gb10.engine.buildx.build import BuildRequest
from gb10.engine.connection import Engine
from gb10.engine.images import find_image
from gb10.errors import UsageError
from gb10.inside.scan import Scan
from gb10.plan.catalog import DEFAULT_ENGINE
from gb10.plan.labels import SLIM
from gb10.plan.render import scan_dockerfile
from gb10.plan.values import Plan
from gb10.proof.reading import read_scan
from gb10.proof.scans import known_layers
from gb10.request.planning import Request, make_plan
from gb10.workshop import Workshop

RULES, SAVED = re.compile(r"[a-z0-9-]+(?: [a-z0-9-]+){0,63}", re.ASCII), re.compile(r"[0-9]{1,6}", re.ASCII)
PLATFORM = re.compile(r"[a-z0-9._-]+(?:/[a-z0-9._-]+){1,3}")


def scan_image(shop: Workshop, reference: str) -> Scan:
    """The scan of an image. Raises UsageError when the engine has no such image."""
    engine = engine_with_images(shop)
    image = find_image(engine, reference) if engine else None
    if engine is None or image is None:
        raise no_image(engine, reference)
    check_platform(reference, image.platform)
    if told := slimmed(image.labels):
        shop.talk.say(told)
    kept = known_layers(shop, reference, image.diff_ids)
    if kept:
        return kept
    plan = make_plan(shop, Request(engine=DEFAULT_ENGINE, arch="12.1f"))  # for its build base alone
    return read_scan(_scan(shop, engine, plan, reference, image.platform), reference)


def slimmed(labels: Mapping[str, str]) -> str:
    """What an image says that its builder left out, nothing if it has no such labels, or others wrote them. Pure."""
    rules, saved = labels.get(SLIM, ""), labels.get(f"{SLIM}.mb", "")
    if RULES.fullmatch(rules) is None or SAVED.fullmatch(saved) is None:
        return ""
    return f"slimmed by {len(rules.split())} rules, {int(saved):,} MB less: {rules}"


def no_image(engine: Engine | None, reference: str) -> UsageError:
    """The error for what names no path, so an image, which the engine has not. Pure."""
    path = "no file or directory has this name, either; ./build.py pull REF pulls an image"
    if engine is None:
        return UsageError(f"no image {reference} on this machine: there is no Docker, and nothing was built", hint=path)
    listing = "docker images" if engine.kind == "user" else f"docker -H {engine.endpoint.host} images"
    return UsageError(f"{engine.name} has no image {reference}", hint=f"{listing} lists its images\n{path}")


def check_platform(reference: str, platform: str) -> None:
    """Raise UsageError for a malformed platform: it is written into a Dockerfile."""
    if PLATFORM.fullmatch(platform) is None:
        raise UsageError(
            f"the image {reference} names a platform that cannot be one: {platform!r}",
            hint="its author wrote that into the image: do not run it",
        )


def _scan(shop: Workshop, engine: Engine, plan: Plan, reference: str, platform: str) -> str:
    files: dict[str, Path | bytes] = {
        "Dockerfile": scan_dockerfile(plan, reference, platform, shop.catalog.templates).encode(),
        "base-build.tar": make_rootfs(shop, plan, plan.step("base-build")),
        **scanner_files(shop.catalog.contents),
    }
    out = shop.store.scratch("scan")
    try:
        with build_context(shop.store, files, {}) as context, shop.talk.task(f"scan {reference}"):
            request = BuildRequest(
                dockerfile=context.folder / "Dockerfile",
                target="result",
                context=context.folder,
                platform=f"linux/{plan.options.build}",
                out=out,
            )
            run_build(shop, engine, request, plan.step("proof"), lambda event: None)
        return (out / "scan.json").read_text(encoding="utf-8")
    finally:
        shutil.rmtree(out)
