"""Grafts: locked wheels with the patches of a plan, each kept in the store under its key."""

import zipfile
from functools import partial
from pathlib import Path

from gb10.model import PatchUse
from gb10.patches.graft import graft
from gb10.pipeline.patched import patched_files
from gb10.pipeline.prepare import fetch_files, store_paths
from gb10.pipeline.wheels import Wheel, kept_wheel, wheel_file
from gb10.pipeline.workshop import Workshop
from gb10.plan import Plan, Step
from gb10.store import seal


def make_grafts(shop: Workshop, plan: Plan) -> tuple[Wheel, ...]:
    """Every grafted wheel of a plan, made or found. Raises PatchError, FetchError."""
    return tuple(kept_wheel(shop, step, partial(_graft, shop, plan, step)) for step in plan.of_kind("graft"))


def try_patches(shop: Workshop, plan: Plan) -> None:
    """Hold patches given by hand against the wheels that are in the store already. Raises PatchError."""
    for step in plan.of_kind("graft"):
        (wheel,) = store_paths(shop, step.files)
        uses = _uses(plan, step)
        if not any(use.path for use in uses):
            continue
        if wheel.exists():
            patched_files(shop, wheel, uses)
        else:
            shop.talk.say(f"{wheel.name} is not in the store: its patches are tried when it is fetched")


def _uses(plan: Plan, step: Step) -> list[PatchUse]:
    return [use for use in plan.options.patches_of(step.project or "") if use.installable]


def graft_files(shop: Workshop, step: Step) -> dict[str, Path | bytes]:
    """What a graft changed, by name, read from the wheel itself: its METADATA, and each file that upstream's lacks."""
    (upstream,) = store_paths(shop, step.files)
    with (
        zipfile.ZipFile(upstream) as before,
        zipfile.ZipFile(wheel_file(shop.store.entry("wheels", step.key))) as after,
    ):
        same = {(entry.filename, entry.CRC, entry.file_size) for entry in before.infolist()}
        changed = [entry.filename for entry in after.infolist()
                   if (entry.filename, entry.CRC, entry.file_size) not in same]  # fmt: skip
        return {name: after.read(name) for name in changed if ".dist-info/" not in name or name.endswith("/METADATA")}


def _graft(shop: Workshop, plan: Plan, step: Step, work: Path) -> None:
    fetch_files(shop, (step,))
    (wheel,) = store_paths(shop, step.files)
    with shop.talk.task(step.name):
        seal(graft(wheel, patched_files(shop, wheel, _uses(plan, step)), step.key, work))
