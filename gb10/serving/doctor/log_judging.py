"""The findings of the logs of one node or several: the first occurrence of each, in the order of time. Pure."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Final

from gb10.core.log_words import PREFIX
from gb10.serving.doctor.diagnosis import Finding
from gb10.serving.doctor.doctor_rule import DoctorRule
from gb10.serving.doctor.log_scan import Line, Moment, Scan, Scanner
from gb10.serving.doctor.rule_files import load_doctor_rules

NUMBERS: Final = re.compile(r"0x[0-9a-f]+|\d+", re.IGNORECASE)
SHAPE: Final = 120
MOST_UNKNOWN: Final = 12
"""Kinds of unknown errors that are shown: those that came first."""


@dataclass(frozen=True, slots=True)
class _Event:
    """A line of one log that counts."""

    log: str
    line: Line
    rule: DoctorRule | None
    value: str

    @property
    def order(self) -> tuple[bool, Moment, int]:
        """By the clocks of the nodes; what has no time comes last, by its line."""
        moment = self.line.moment
        return moment is None, moment or Moment(0, 0, 0.0), self.line.number

    @property
    def kind(self) -> str:
        """Events of one kind are one finding."""
        return self.rule.code if self.rule else f"?{shape(self.line.text)}"


def shape(text: str) -> str:
    """A line without its prefix and its numbers."""
    before = PREFIX.match(text)
    return NUMBERS.sub("0", text[before.end() if before else 0 :])[:SHAPE].strip()


def judge_logs(scans: Mapping[str, Scan]) -> tuple[Finding, ...]:
    """What the logs show, by log; the first of each kind, in the order of time over all of them."""
    events: list[_Event] = []
    for log, scan in scans.items():
        events += [_Event(log, hit.line, hit.rule, hit.value) for hit in scan.hits]
        events += [_Event(log, line, None, line.text) for line in scan.trouble]
    events.sort(key=lambda one: one.order)
    kinds: dict[str, list[_Event]] = {}
    for event in events:
        kinds.setdefault(event.kind, []).append(event)
    known = [kind for kind in kinds if not kind.startswith("?")]
    unknown = list(islice((kind for kind in kinds if kind.startswith("?")), MOST_UNKNOWN))
    chosen = {*known, *unknown}
    return tuple(_seen(events) for kind, events in kinds.items() if kind in chosen)


def _seen(events: list[_Event]) -> Finding:
    first = events[0]
    logs: dict[str, int] = {}
    for event in events:
        logs[event.log] = logs.get(event.log, 0) + 1
    return Finding(
        rule=first.rule,
        place="log",
        where=first.log,
        value=first.value,
        line=first.line.number,
        moment=first.line.moment,
        count=logs.pop(first.log),
        others=logs,
    )


def remedy_of(lines: Iterable[str]) -> str | None:
    """What the first error means that a rule knows, and what to do; None when no rule knows one."""
    scanner = Scanner(load_doctor_rules())
    scanner.feed("".join(f"{line}\n" for line in lines).encode())
    for one in judge_logs({"log": scanner.scan()}):
        if one.rule and one.level == "error":
            return f"{one.words(one.rule.meaning)}\n{one.words(one.rule.action)}"
    return None
