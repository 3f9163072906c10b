"""Grafts: locked wheels with the patches of a plan, each kept in the store under its key."""

import zipfile
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from gb10.core.store import Store, file_sha256, seal
from gb10.image.build.wheels import Wheel, kept_wheel, wheel_file
from gb10.image.context import Context
from gb10.image.locked_files import fetch_files, store_paths
from gb10.image.plan.options import PatchUse
from gb10.image.plan.values import Plan, Step
from gb10.image.proof.wheel_files import read_manifest
from gb10.patches.graft import check_changes, graft
from gb10.patches.patched import patched_files

COMPILED = "compiled"
"""In a graft's entry: what was compiled for it, by sha256."""


def early_grafts(ctx: Context, plan: Plan, *, rebuild_id: bool = False) -> tuple[Wheel, ...]:
    """The grafts without compiled libraries, from the store or made now. The patches of the others are only tried.

    So a patch that does not fit stops before anything is compiled. Raises PatchError, FetchError.
    """
    steps = [step for step in plan.of_kind("graft") if not _compiles(plan, step)]
    made = make_grafts(ctx, plan, steps, rebuild_id=rebuild_id)
    for step in plan.of_kind("graft"):
        if _compiles(plan, step) and not ctx.store.entry("wheels", step.key).exists():
            fetch_files(ctx, (step,))
            _hold(ctx, plan, step, ctx.reporter.detail)
    return made


def late_grafts(ctx: Context, plan: Plan, *, rebuild_id: bool = False) -> tuple[Wheel, ...]:
    """The grafts with compiled libraries, from the store or made now. The libraries must be in the store."""
    return make_grafts(
        ctx, plan, [step for step in plan.of_kind("graft") if _compiles(plan, step)], rebuild_id=rebuild_id
    )


def make_grafts(ctx: Context, plan: Plan, steps: Iterable[Step], *, rebuild_id: bool = False) -> tuple[Wheel, ...]:
    """The grafted wheels of these steps. One with other libraries than the store's is made again."""
    return tuple(
        kept_wheel(ctx, step, partial(_graft, ctx, plan, step), rebuild=rebuild_id or not _holds(ctx.store, plan, step))
        for step in steps
    )


def _hold(ctx: Context, plan: Plan, step: Step, tell: Callable[[str], None]) -> None:
    (wheel,) = store_paths(ctx.store, step.files)
    if uses := _uses(plan, step):
        check_changes(wheel, patched_files(ctx.catalog.patches, wheel, uses, tell))


def try_patches(ctx: Context, plan: Plan) -> None:
    """Try patches from the command line on the wheels in the store. Raises PatchError."""
    for step in plan.of_kind("graft"):
        (wheel,) = store_paths(ctx.store, step.files)
        if not any(use.path for use in _uses(plan, step)):
            continue
        if wheel.exists():
            _hold(ctx, plan, step, ctx.reporter.say)
        else:
            ctx.reporter.say(f"not checked yet: the patches of {step.project} (its wheel is not in the store)")


def _uses(plan: Plan, step: Step) -> list[PatchUse]:
    return [use for use in plan.options.patches_of(step.project or "") if use.installable]


def graft_files(store: Store, step: Step) -> dict[str, Path | bytes]:
    """What a graft changed, by name, read from the wheel itself: its METADATA, and each file that upstream's lacks."""
    (upstream,) = store_paths(store, step.files)
    with (
        zipfile.ZipFile(upstream) as before,
        zipfile.ZipFile(wheel_file(store.entry("wheels", step.key))) as after,
    ):
        same = {(entry.filename, entry.CRC, entry.file_size) for entry in before.infolist()}
        changed = [
            entry.filename for entry in after.infolist() if (entry.filename, entry.CRC, entry.file_size) not in same
        ]
        return {name: after.read(name) for name in changed if ".dist-info/" not in name or name.endswith("/METADATA")}


def _graft(ctx: Context, plan: Plan, step: Step, work: Path) -> None:
    fetch_files(ctx, (step,))
    (wheel,) = store_paths(ctx.store, step.files)
    with ctx.reporter.task(step.name):
        uses = _uses(plan, step)
        changes = patched_files(ctx.catalog.patches, wheel, uses, ctx.reporter.say) if uses else {}
        seal(graft(wheel, {**changes, **_libraries(ctx.store, plan, step)}, step.key, work))
        (work / COMPILED).write_text(_compiled(ctx.store, plan, step), encoding="ascii")


def _libraries(store: Store, plan: Plan, step: Step) -> dict[str, bytes]:
    """What the targets of the engine's own project installed, by its name in the wheel."""
    found: dict[str, bytes] = {}
    for path in _sources(store, plan, step):
        with zipfile.ZipFile(path) as archive:
            found |= {name: archive.read(name) for name in read_manifest(path).modules}
    return found


def _compiles(plan: Plan, step: Step) -> list[Step]:
    """The steps that compile a graft's libraries."""
    return [need for need in map(plan.step, step.needs) if need.kind == "wheel"]


def _sources(store: Store, plan: Plan, step: Step) -> list[Path]:
    """The compiled wheels that a graft takes libraries from."""
    return [wheel_file(store.entry("wheels", need.key)) for need in _compiles(plan, step)]


def _compiled(store: Store, plan: Plan, step: Step) -> str:
    """The sha256 of each file that was compiled for a graft, one per line."""
    return "".join(f"{file_sha256(path)}\n" for path in _sources(store, plan, step))


def _holds(store: Store, plan: Plan, step: Step) -> bool:
    """Whether the graft in the store holds the store's current libraries; a rebuild may change them."""
    note = store.entry("wheels", step.key) / COMPILED
    return not note.exists() or note.read_text(encoding="ascii") == _compiled(store, plan, step)
