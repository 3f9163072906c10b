"""What was collected of the containers of machines; how a log is scanned, and what could not be read is said."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from gb10.core.checked import NotChecked
from gb10.errors import Gb10Error
from gb10.serving.doctor.container_checks import ContainerState
from gb10.serving.doctor.diagnosing import fitting
from gb10.serving.doctor.image_record import ImageRecord
from gb10.serving.doctor.log_scan import Scan, Scanner
from gb10.serving.doctor.rule_files import is_tool_error, left_out, load_doctor_rules, load_slim_rules, load_stages

TAIL: Final = 2 << 20
"""Bytes of the end of a log that are kept for a bundle."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CollectedContainers:
    """What was found on a machine. ``plans``, ``tails`` are texts by the name of the container, for a bundle."""

    containers: tuple[ContainerState, ...] = ()
    logs: dict[str, Scan] = field(default_factory=dict)
    plans: dict[str, str] = field(default_factory=dict)
    tails: dict[str, bytes] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    """About a tuned file that an engine asked for."""
    remarks: tuple[str, ...] = ()
    unchecked: tuple[NotChecked, ...] = ()
    """What could not be read."""


def scanner_for(image: ImageRecord | None) -> Scanner:
    """A scanner of a log of this image: for the rules that can be about it."""
    return Scanner(
        fitting(load_doctor_rules(), image)[0],
        lambda library: left_out(library, image.slim, load_slim_rules()) if image else None,
        load_stages().mark,
        image,
        is_tool_error,
    )


def unread(error: Gb10Error, what: str, where: str) -> NotChecked:
    """The row of what could not be read because of an error."""
    reason = ": ".join(filter(None, (error.message, " ".join((error.where or "").split()))))
    return NotChecked(what=what, reason=reason, where=where)


def merge_visits(parts: Sequence[CollectedContainers]) -> CollectedContainers:
    """Several visits as one."""
    return CollectedContainers(
        containers=tuple(one for part in parts for one in part.containers),
        logs={log: scan for part in parts for log, scan in part.logs.items()},
        plans={one: text for part in parts for one, text in part.plans.items()},
        tails={one: text for part in parts for one, text in part.tails.items()},
        notes={asked: text for part in parts for asked, text in part.notes.items()},
        remarks=tuple(remark for part in parts for remark in part.remarks),
        unchecked=tuple(row for part in parts for row in part.unchecked),
    )
