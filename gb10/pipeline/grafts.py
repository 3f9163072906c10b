"""Grafts: locked wheels with the patches of a plan, each kept in the store under its key with the files it changed."""

import zipfile
from pathlib import Path
from typing import Final

from gb10.patches.graft import graft
from gb10.pipeline.patched import patched_files
from gb10.pipeline.prepare import SEAL, fetch_files, store_paths
from gb10.pipeline.wheels import Wheel, stored_wheel
from gb10.pipeline.workshop import Workshop
from gb10.plan import Plan, Step
from gb10.store import file_sha256

FILES: Final = "files"


def make_grafts(shop: Workshop, plan: Plan) -> tuple[Wheel, ...]:
    """Every grafted wheel of a plan, made or found. Raises PatchError, FetchError."""
    return tuple(_graft(shop, plan, step) for step in plan.of_kind("graft"))


def graft_files(shop: Workshop, step: Step) -> Path:
    """The folder of the files that a graft changed, METADATA among them."""
    return shop.store.entry("wheels", step.key) / FILES


def _graft(shop: Workshop, plan: Plan, step: Step) -> Wheel:
    final = shop.store.entry("wheels", step.key)
    with shop.store.locked(f"wheel-{step.key}", lambda: shop.talk.say(f"another run makes {step.name}: waiting")):
        path = stored_wheel(shop, step)
        if path:
            shop.talk.hit(step.name)
        else:
            fetch_files(shop, (step,))
            with shop.talk.task(step.name):
                shop.store.replace(final, lambda work: _make(shop, plan, step, work))
        found = path or next(final.glob("*.whl"))
        return Wheel(name=step.name, key=step.key, path=found, sha256=file_sha256(found), hit=path is not None)


def _make(shop: Workshop, plan: Plan, step: Step, work: Path) -> None:
    (wheel,) = store_paths(shop, step.files)
    uses = [use for use in plan.options.patches_of(step.project or "") if use.installable]
    changes = patched_files(shop, wheel, uses)
    made = graft(wheel, changes, step.key, work)
    with zipfile.ZipFile(made) as archive:
        metadata = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        for name in (metadata, *changes):
            archive.extract(name, work / FILES)
    (work / SEAL).write_text(file_sha256(made), encoding="ascii")
