"""Inspecting: the scan of any image of the engine, from its layers' kept scans or by mounting it in a build stage."""

import shutil
from pathlib import Path

from gb10.engine.buildx import BuildRequest
from gb10.engine.find import find
from gb10.engine.images import find_image
from gb10.errors import UsageError
from gb10.inside.scan import Scan
from gb10.pipeline.builder import run_build
from gb10.pipeline.planning import Request, make_plan
from gb10.pipeline.prepare import build_context, make_rootfs
from gb10.pipeline.proof import known_layers
from gb10.pipeline.workshop import Workshop
from gb10.render import scan_dockerfile
from gb10.verify.read import read_scan


def scan_image(shop: Workshop, reference: str) -> Scan:
    """What an image holds; raises UsageError when the engine has no such image."""
    engine = find(shop.env, shop.store)
    image = find_image(engine, reference)
    if image is None:
        raise UsageError(f"neither a path nor an image of the engine: {reference!r}",
                         hint="pull the image first, or check the path")  # fmt: skip
    kept = known_layers(shop, reference, image.diff_ids)
    if kept:
        return kept
    plan = make_plan(shop, Request(engine="vllm", arch="12.1f"))
    files: dict[str, Path | str] = {
        "Dockerfile": scan_dockerfile(plan, reference, shop.catalog.templates),
        "base-build.tar": make_rootfs(shop, plan, plan.step("base-build")),
        "scan.py": shop.catalog.root / "gb10/inside/scan.py",
    }
    out = shop.store.scratch("scan")
    with build_context(shop, files, {}, {}) as context, shop.talk.task(f"scan {reference}"):
        request = BuildRequest(dockerfile=context.folder / "Dockerfile", target="result", context=context.folder,
                               platform=f"linux/{plan.options.build}", output=f"type=local,dest={out}")  # fmt: skip
        run_build(shop, engine, request, "scan", lambda event: None)
    text = (out / "scan.json").read_text(encoding="utf-8")
    shutil.rmtree(out)
    return read_scan(text, reference)
