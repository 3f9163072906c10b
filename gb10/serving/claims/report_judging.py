"""A report against our claims: which held, fell or were recorded, and which it says nothing about."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import chain
from pathlib import Path
from typing import Final

import yaml

from gb10.core.checked import NotChecked, refuse_unchecked
from gb10.core.document import parse_document
from gb10.core.files import write_whole
from gb10.core.installation import is_installed
from gb10.errors import UsageError, VerifyError
from gb10.serving.claims.claim_files import REPORTS, load_reports
from gb10.serving.claims.claim_schema import Claim, Report, Subject, outcome
from gb10.serving.claims.claims_page import claims_page
from gb10.serving.claims.selftest_report import Measured, SelftestReport, StepOfReport

GB10: Final = "GB10"
CAPABILITY: Final = "12.1"
PAGE: Final = "docs/claims.md"


@dataclass(frozen=True, kw_only=True, slots=True)
class Judged:
    """What a report makes of our claims.

    ``broken`` are steps that do not hold, each with its reason; ``beside`` figures that belong to no claim.
    """

    kept: Report
    fell: tuple[str, ...]
    broken: tuple[tuple[str, str], ...]
    unchecked: tuple[NotChecked, ...]
    beside: tuple[str, ...]


def judge_report(
    report: SelftestReport, sha256: str, subjects: Sequence[Subject], *, where: str, machine: str | None = None
) -> Judged:
    """Hold a report against the claims. Raises UsageError when it is of another chip, or not about these claims.

    ``machine`` names the machine in the claims' page, in place of its GPU.
    """
    gpu = (report.machine.gpu if report.machine else None) or "an unknown GPU"
    capability = report.machine.capability if report.machine else None
    if GB10 not in gpu or capability != CAPABILITY:
        raise UsageError(
            f"{where} is of {gpu!r}, capability {capability or 'not known'}: claims are about a GB10, {CAPABILITY}",
            hint="run selftest on a Spark",
        )
    claims = {claim.id: claim for claim in chain.from_iterable(one.claims for one in subjects)}
    results: dict[str, dict[str, object]] = {}
    problems: list[str] = []
    beside: list[str] = []
    for step in report.steps:
        for identity, measured in step.claims.items():
            claim = claims.get(identity)
            if claim is None:
                beside.append(identity)
                continue
            try:
                _check_place(claim, step.id, measured)
                came = outcome(claim, measured.value)
            except ValueError as error:
                problems.append(f"step {step.id}, {identity}: {error}")
                continue
            if step.result != "not checked":
                unit = {} if measured.unit is None else {"unit": measured.unit}
                results[identity] = {"came": came, "value": measured.value, **unit}
    if problems:
        count = "1 error" if len(problems) == 1 else f"{len(problems)} errors"
        raise UsageError(
            f"{where} does not fit the claims of this gb10: {count}",
            where="\n".join(problems),
            hint=f"it is of gb10 {report.gb10}: read it with that release, or run selftest of this one",
        )
    kept = {
        "report": sha256,
        "date": date.fromisoformat(report.when[:10]),
        "machine": machine or gpu,
        "gb10": report.gb10,
        **({"image": report.image.digest} if report.image and report.image.digest else {}),
        "results": results,
    }
    text = yaml.safe_dump(kept, sort_keys=False, width=120)
    steps = {step.id: step for step in report.steps}
    return Judged(
        kept=parse_document(text, Report, where=where, what="report of a machine"),
        fell=tuple(identity for identity, result in results.items() if result["came"] == "fell"),
        broken=tuple((step.id, step.why) for step in report.steps if step.result == "does not hold"),
        unchecked=tuple(
            NotChecked(what=claim.id, reason=_why_not(claim, steps.get(claim.step)))
            for claim in claims.values()
            if claim.step and claim.id not in results
        ),
        beside=tuple(beside),
    )


def _check_place(claim: Claim, step: str, measured: Measured) -> None:
    """Raise ValueError for a figure of another step than its claim's, or in another unit."""
    if claim.step != step:
        raise ValueError(f"it is of {f'the step {claim.step}' if claim.step else 'no step'}")
    if claim.must.unit is not None and measured.unit != claim.must.unit:
        raise ValueError(f"its unit must be {claim.must.unit!r}, found {measured.unit!r}")


def _why_not(claim: Claim, step: StepOfReport | None) -> str:
    if step is None:
        return f"the step {claim.step} did not run"
    if not step.asked:
        return f"the step {claim.step} was not asked for{step.why.removeprefix('not asked for')}"
    if step.result == "not checked":
        return f"the step {claim.step} could not be checked: {step.why or 'no reason is given'}"
    return f"the step {claim.step} reports no such figure"


def keep_report(root: Path, judged: Judged, subjects: Sequence[Subject]) -> Path | None:
    """Write what is kept of a report, and the page of claims anew; None when the report is there. Raises UsageError.

    When the page cannot be written, the report is taken back.
    """
    if is_installed(root):
        raise UsageError("an installed gb10 keeps no reports", hint="run it in a checkout, and send the pull request")
    kept, reports = judged.kept, load_reports(root)
    if any(one.report == kept.report for one in reports):
        return None
    path = root / REPORTS / f"{kept.date}-{kept.report[:12]}.yaml"
    page = claims_page(subjects, (*reports, kept))
    try:
        path.parent.mkdir(exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot write {path}", where=str(error)) from error
    write_whole(path, yaml.safe_dump(kept.model_dump(by_alias=True, exclude_none=True), sort_keys=False, width=120))
    try:
        write_whole(root / PAGE, page, "the page of claims")
    except UsageError:
        path.unlink()
        raise
    return path


def check_release(judged: Judged, *, image: str, leave_out: Collection[str], subjects: Sequence[Subject]) -> None:
    """Raise VerifyError unless an image may get its moving tag by this report, UncheckedError for what is left out.

    ``leave_out`` names steps that this machine cannot run.
    """
    if not re.fullmatch(r"sha256:[0-9a-f]{64}", image):
        raise UsageError(f"{image!r} is no digest", hint="write sha256:… as selftest and `image` print it")
    steps = {claim.step for claim in chain.from_iterable(one.claims for one in subjects) if claim.step}
    unknown = sorted(set(leave_out) - steps)
    if unknown:
        raise UsageError(f"no step {unknown[0]!r} checks a claim", hint=f"the steps: {', '.join(sorted(steps))}")
    if judged.kept.image != image:
        raise VerifyError(
            "the report is of another image",
            where=f"image:  {image}\nreport: {judged.kept.image or 'no digest'}",
            hint="run selftest on the image that is to be released",
        )
    if judged.fell or judged.broken:
        fallen = [f"{identity} fell: {judged.kept.results[identity].value}" for identity in judged.fell]
        broken = [f"step {step} does not hold: {why}" for step, why in judged.broken]
        raise VerifyError(
            f"{len(judged.fell)} claims fell, {len(judged.broken)} steps do not hold: the tag stays where it is",
            where="\n".join((*fallen, *broken)),
        )
    excused = {claim.id for claim in chain.from_iterable(one.claims for one in subjects) if claim.step in leave_out}
    refuse_unchecked([row for row in judged.unchecked if row.what not in excused])
