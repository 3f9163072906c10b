"""What an image has ready for the first request of its model, and what is left for it: the report of the rehearsal."""

from collections import Counter
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gb10.containers.connection import Engine
from gb10.containers.image_reading import read_folders
from gb10.containers.images import ImageInfo
from gb10.core.printing import printable
from gb10.core.reporter import Reporter
from gb10.core.store import Store
from gb10.errors import VerifyError
from gb10.image.plan.values import Plan
from gb10.image.proof.scans import proof_path

REPORT: Final = "/usr/share/gb10/caches/report.json"
"""Where an image holds it."""
KEPT: Final = "first-request.json"
"""Its name beside the scans in the store."""
MANY: Final = 4096
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
