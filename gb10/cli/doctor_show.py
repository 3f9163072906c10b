"""What `doctor` prints: what was seen in the order that counts, what it means, what to do, what could not be read."""

import textwrap
from collections.abc import Iterable, Sequence
from typing import Any, Final

from gb10.cli.common import print_json
from gb10.core.printing import printable, visible
from gb10.core.reporter import VERBOSE, Reporter
from gb10.serving.checkup.collect import Checkup
from gb10.serving.doctor.doctor_rule import DoctorRule
from gb10.serving.doctor.seen import Diagnosis, Seen

WIDTH: Final = 116
TITLES: Final = {
    "log": "Logs, in the order of time",
    "machine": "Machines",
    "container": "Containers",
    "endpoint": "Endpoints",
}
LINE: Final = 200


def print_checkup(reporter: Reporter, found: Checkup, rules: Sequence[DoctorRule]) -> None:
    """All of it, for people."""
    diagnosis = found.diagnosis
    for line in _looked_at(reporter, found, len(rules)):
        print(printable(line))
    for place, title in TITLES.items():
        seen = [one for one in diagnosis.seen if one.place == place]
        if seen:
            print(f"\n{title}")
        for one in seen:
            _print_seen(one, first=one is diagnosis.first and len(found.shown.logs) > 1)
    shown = found.shown
    if not diagnosis.seen and (shown.machines or shown.containers or shown.logs or shown.endpoints):
        print("nothing found")
    for remark in diagnosis.remarks:
        reporter.say(f"note: {remark}")


def _looked_at(reporter: Reporter, found: Checkup, rules: int) -> Iterable[str]:
    shown, dropped = found.shown, found.diagnosis.dropped
    machines, containers, logs = (len(one) for one in (shown.machines, shown.containers, shown.logs))
    parts = [_counted(machines, "machine"), _counted(containers, "container"), _counted(logs, "log")]
    parts.append(_counted(len(shown.endpoints), "endpoint"))
    yield f"{rules} rules; looked at {', '.join(filter(None, parts)) or 'nothing'}"
    for one in shown.containers:
        if one.record and one.label in dropped:
            what, left = f"{one.record.engine or 'no engine'} {one.record.release or ''}".strip(), dropped[one.label]
            yield f"  {one.label}: {what} by {one.record.source}; {len(left)} rules cannot be about it"
            if reporter.verbosity >= VERBOSE:
                yield from (f"    {code}: {why}" for code, why in sorted(left.items()))


def _counted(count: int, name: str) -> str:
    return f"{count} {name}{'s' * (count > 1)}" if count else ""


def _print_seen(one: Seen, *, first: bool) -> None:
    print(f"  {one.level}: {one.code}{'  (the first error)' if first else ''}")
    for line in (_place(one), *_sentences(one)):
        print(
            textwrap.fill(
                visible(line), WIDTH, initial_indent="    ", subsequent_indent="      ", break_long_words=False
            )
        )


def _place(one: Seen) -> str:
    """Where it was seen, and how often."""
    others = ", ".join(f"{name} {count} times" for name, count in one.others.items())
    parts = [
        one.where,
        f"line {one.line}" if one.line else "",
        str(one.moment) if one.moment else "",
        f"{one.count} times" if one.count > 1 else "",
        f"also {others}" if others else "",
    ]
    return ", ".join(filter(None, parts))


def _sentences(one: Seen) -> tuple[str, ...]:
    if one.rule is None:
        return (one.value[:LINE], "No rule knows this error.")
    note = (one.note,) if one.note else ()
    return (one.words(one.rule.meaning), *note, one.words(one.rule.action), f"({one.rule.evidence})")


def doctor_document(found: Checkup, rules: Sequence[DoctorRule]) -> dict[str, Any]:
    """All of it as data: docs/schemas/doctor-v1.schema.json."""
    diagnosis, shown = found.diagnosis, found.shown
    return {
        "schema": "gb10/doctor/v1",
        "rules": len(rules),
        "machines": [one.host for one in shown.machines],
        "containers": [
            {
                "host": one.host,
                "name": one.name,
                "image": one.image,
                "engine": one.record.engine if one.record else None,
                "release": one.record.release if one.record else None,
                "plan": one.record.key if one.record else None,
                "dropped": dict(diagnosis.dropped.get(one.label, {})),
            }
            for one in shown.containers
        ],
        "logs": [{"name": name, "bytes": scan.size} for name, scan in shown.logs.items()],
        "endpoints": [one.url for one in shown.endpoints],
        "findings": [_finding(one, diagnosis) for one in diagnosis.seen],
        "remarks": list(diagnosis.remarks),
    }


def _finding(one: Seen, diagnosis: Diagnosis) -> dict[str, Any]:
    rule = one.rule
    return {
        "code": one.code,
        "level": one.level,
        "place": one.place,
        "where": one.where,
        "line": one.line,
        "time": str(one.moment) if one.moment else None,
        "count": one.count,
        "others": dict(one.others),
        "first": one is diagnosis.first,
        "value": one.value[:LINE],
        "meaning": one.words(rule.meaning) if rule else None,
        "note": one.note or None,
        "action": one.words(rule.action) if rule else None,
        "evidence": rule.evidence if rule else None,
    }


def print_rules(rules: Sequence[DoctorRule], *, as_json: bool) -> None:
    """The rules, for people or as data."""
    if as_json:
        print_json({"schema": "gb10/doctor-rules/v1", "rules": [rule_document(rule) for rule in rules]})
        return
    for rule in rules:
        print(f"{rule.level:7} {rule.code:32} {', '.join(rule.needs):20} {_about(rule)}".rstrip())


def _about(rule: DoctorRule) -> str:
    return " or ".join(f"{name} {releases}" for name, releases in rule.releases.items()) or " ".join(rule.engines)


def rule_document(rule: DoctorRule) -> dict[str, Any]:
    """A rule as data."""
    return {
        "code": rule.code,
        "level": rule.level,
        "needs": list(rule.needs),
        "engines": list(rule.engines),
        "releases": dict(rule.releases),
        "mended_by": rule.mended_by,
        "meaning": rule.meaning,
        "action": rule.action,
        "evidence": rule.evidence,
        "seen": rule.seen.isoformat(),
    }
