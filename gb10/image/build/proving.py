"""Proving an image: the scans that it holds of its layers, against its plan and what changed its files."""

import hashlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gb10.containers.connection import Engine
from gb10.containers.images import ImageInfo, copy_files, read_folders
from gb10.core.printing import printable
from gb10.core.reporter import Reporter
from gb10.core.store import Store, file_sha256
from gb10.errors import VerifyError
from gb10.image.build.base_build import stored_files
from gb10.image.build.inspect import Wrong, tuned_problems
from gb10.image.build.wheels import graft_files, wheel_file
from gb10.image.context import Context
from gb10.image.moe.tuned_name import SPELLED
from gb10.image.plan.base_plan import module_folder_of
from gb10.image.plan.values import Plan
from gb10.image.proof.arch_match import Verdict, judge
from gb10.image.proof.check import Subject
from gb10.image.proof.checking import Finding
from gb10.image.proof.scans import (
    SCANS,
    Below,
    Record,
    as_received,
    below_of,
    planned_subject,
    proof_path,
    prove_layers,
    read_layers,
    require_layers,
    write_record_in,
)
from gb10.image.proof.wheel_files import Manifest, read_manifest
from gb10.inside.scan.code_fit import Fit

REPORT: Final = "/usr/share/gb10/caches/report.json"
"""Where an image holds it."""
KEPT: Final = "first-request.json"
"""Its name beside the scans in the store."""
MANY: Final = 4096
LISTED: Final = 12
"""Problems of a base that are printed."""
SHOWN: Final = 3
"""Files of a base that are named as such that cannot run."""
Text = Annotated[str, Field(max_length=1000)]


class Left(BaseModel):
    """A kernel or a choice that the image does not have ready."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    what: Text
    why: Text


class Report(BaseModel):
    """``made``: a row per kernel; ``stopped``: the engine's error, if its rehearsal did not come to its end."""

    model_config = ConfigDict(frozen=True, strict=True)

    stopped: Text | None
    made: list[dict[str, Any]] = Field(max_length=MANY)
    left: list[Left] = Field(max_length=MANY)
    flashinfer: list[Text] = Field(max_length=MANY)


def keep_report(engine: Engine, store: Store, plan: Plan, image: ImageInfo, folder: Path) -> None:
    """Keep the report of an image beside its scans, if it has one. Raises EngineError, VerifyError."""
    if not plan.of_kind("rehearsal"):
        return
    files, _ = read_folders(engine, store, image, [REPORT])
    read_report(files.get(REPORT, b""))
    (folder / KEPT).write_bytes(files[REPORT])


def read_report(content: bytes) -> Report:
    """The report; raises VerifyError for something else."""
    try:
        return Report.model_validate_json(content)
    except ValidationError as error:
        hint = "build it again: ./build.py image --rebuild"
        raise VerifyError("the image has no report of its rehearsal", where=str(error)[:400], hint=hint) from error


def say_report(reporter: Reporter, store: Store, plan: Plan) -> None:
    """Print how many kernels are ready, and each thing that is left with its reason."""
    path = proof_path(store, plan) / KEPT
    if not plan.of_kind("rehearsal") or not path.exists():
        return
    report = read_report(path.read_bytes())
    counts = Counter(str(row.get("compiler")) for row in report.made)
    ready = [f"{counts.pop('triton', 0)} kernels of Triton", f"{len(report.flashinfer)} modules of FlashInfer"]
    if count := counts.pop("cute", 0):
        ready.append(f"{count} kernels of b12x")
    own = [f"{count} of the engine's own, by {compiler}" for compiler, count in sorted(counts.items())]
    reporter.say(f"ready for the first request: {', '.join([*ready, *map(printable, own)])}")
    if report.stopped:
        reporter.say(f"the rehearsal stopped, so later kernels are not known: {printable(report.stopped)}")
    for left in report.left:
        reporter.say(f"left: {printable(left.what)}: {printable(left.why)}")


def prove_image(ctx: Context, engine: Engine, plan: Plan, image: ImageInfo, record: Record) -> None:
    """Read the scans that the image holds of its own layers, and keep them; raises VerifyError, then keeps none."""
    recorded = changed_files(ctx.store, plan)

    def make(work: Path) -> None:
        copy_files(engine, ctx.store, image, SCANS, work)
        keep_report(engine, ctx.store, plan, image, work)
        require_layers(plan, record.layers)
        # files of tiles are judged if patches, mods or the overlay bring some: upstream's were judged before
        changed = read_layers(work, plan).scan.contents
        brought = any(path.endswith(".json") and SPELLED.lower() in path.lower() for path in changed)
        tuned = tuned_problems(ctx, engine, image, plan.tags[-1], changed) if brought else ()
        prove_layers(work, plan, _subject(ctx, plan, recorded, tuned), _below(ctx, plan))
        write_record_in(work, record)

    ctx.store.replace(proof_path(ctx.store, plan), make)


def stored_verdict(ctx: Context, plan: Plan) -> Verdict:
    """Check a plan's stored scans. Raises VerifyError as the first check does."""
    return prove_layers(proof_path(ctx.store, plan), plan, _subject(ctx, plan, {}, ()), _below(ctx, plan))


@dataclass(frozen=True, kw_only=True, slots=True)
class Received:
    """What is wrong with an image of others, as it was received; ``read``: whether its files were looked at.

    ``cannot_run``: its files whose GPU code is for other GPUs alone.
    """

    reference: str
    read: bool
    findings: tuple[Finding, ...]
    cannot_run: tuple[str, ...] = ()


def received(ctx: Context, plan: Plan) -> Received | None:
    """The problems of the image that a plan builds on, by what is known of it here; None for an image of ours."""
    if plan.base is None:
        return None
    below = below_of(ctx, plan.base)
    # of the image alone: what is compiled for it says nothing of it, and may not exist yet
    found = as_received(below, planned_subject(plan, [], ctx.catalog.allowances))
    judged = judge(below.scan, plan.options.arch).judged
    cannot_run = tuple(one.binary.path for one in judged if one.fit is Fit.NOTHING)
    return Received(reference=plan.base.reference, read=below.read, findings=tuple(found), cannot_run=cannot_run)


def say_received(reporter: Reporter, one: Received | None) -> None:
    """Print what is wrong with the base, which blocks nothing; and whether its files were looked at."""
    if one is None:
        return
    for check, problem in one.findings[:LISTED]:
        reporter.say(f"base, as received: {check.name}: {str(problem).replace(chr(10), ' ')}")
    more = len(one.findings) - LISTED
    if more > 0:
        reporter.say(f"base, as received: {more} more problems: ./build.py verify {one.reference} lists them")
    if one.cannot_run:
        some = ", ".join(map(printable, one.cannot_run[:SHOWN]))
        reporter.say(
            f"base, as received: {len(one.cannot_run)} files hold code for other GPUs only: {some};"
            f" ./build.py verify {one.reference} --fit nothing lists them"
        )
    if not one.read:
        reporter.say(f"base: its files were not scanned; ./build.py verify {one.reference} does that, once")


def _below(ctx: Context, plan: Plan) -> Below | None:
    return below_of(ctx, plan.base) if plan.base else None


def _subject(ctx: Context, plan: Plan, recorded: Mapping[str, tuple[str, str]], tuned: Wrong) -> Subject:
    subject = planned_subject(plan, manifests(ctx.store, plan), ctx.catalog.allowances)
    return replace(subject, image=replace(subject.image, recorded=recorded, tuned=tuned)) if subject.image else subject


def manifests(store: Store, plan: Plan) -> list[Manifest]:
    """What the wheels built here declare."""
    found = ((step, read_manifest(wheel_file(store.entry("wheels", step.key)))) for step in plan.of_kind("wheel"))
    return [_as_placed(one, module_folder_of(plan, step.name) if plan.base else "") for step, one in found]


def _as_placed(manifest: Manifest, folder: str) -> Manifest:
    """The manifest by the paths at which ``move_modules`` puts its modules."""
    if not folder:
        return manifest
    placed = {f"{folder.strip('/')}/{name.partition('/modules/')[2]}": it for name, it in manifest.modules.items()}
    return replace(manifest, modules=placed)


def changed_files(store: Store, plan: Plan) -> dict[str, tuple[str, str]]:
    """Path in the image -> sha256, and the step that puts it there; an overlay lies above the patches."""
    found: dict[str, tuple[str, str]] = {}
    for step in (*plan.of_kind("added"), *plan.of_kind("patched")):
        found |= {name: (file_sha256(path), step.name) for name, path in stored_files(store, step).items()}
    site = f"usr/local/lib/python{plan.recipe.python}/dist-packages"
    for step in plan.of_kind("graft"):
        for name, one in graft_files(store, step).items():
            if ".dist-info/" not in name:  # METADATA is installed below the name of upstream's release
                sha256 = hashlib.sha256(one).hexdigest() if isinstance(one, bytes) else file_sha256(one)
                found[f"{site}/{name}"] = (sha256, step.name)
    if plan.options.overlay:
        root = Path(plan.options.overlay.path)
        files = (path for path in root.rglob("*") if path.is_file() and not path.is_symlink())
        found |= {path.relative_to(root).as_posix(): (file_sha256(path), "overlay") for path in files}
    return found
