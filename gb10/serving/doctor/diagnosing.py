"""One way in: rules, logs, machines, containers and endpoints become a diagnosis. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

from gb10.core.checked import NotChecked
from gb10.models.issue import LEVELS
from gb10.serving.doctor.container_checks import ContainerState, sign_of
from gb10.serving.doctor.diagnosis import Diagnosis, Finding
from gb10.serving.doctor.doctor_rule import DoctorRule, Outcome
from gb10.serving.doctor.host_checks import host_signs
from gb10.serving.doctor.host_state import Machine
from gb10.serving.doctor.image_record import ImageRecord
from gb10.serving.doctor.log_judging import judge_logs
from gb10.serving.doctor.log_scan import Scan
from gb10.serving.doctor.rule_files import load_stages


@dataclass(frozen=True, kw_only=True, slots=True)
class EndpointOutcomes:
    """What an endpoint showed."""

    url: str
    outcomes: Mapping[Outcome, str] = field(default_factory=dict)
    """With what was seen."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Evidence:
    """All that was read."""

    logs: Mapping[str, Scan] = field(default_factory=dict)
    machines: tuple[Machine, ...] = ()
    containers: tuple[ContainerState, ...] = ()
    endpoints: tuple[EndpointOutcomes, ...] = ()
    remarks: tuple[str, ...] = ()
    notes: Mapping[str, str] = field(default_factory=dict)
    """What more there is to say of a finding, by its value."""


def fitting(rules: Sequence[DoctorRule], image: ImageRecord | None) -> tuple[tuple[DoctorRule, ...], dict[str, str]]:
    """The rules that can be about an image, and why each of the others cannot."""
    outside = {rule.code: why for rule in rules if (why := rule.outside(image))}
    return tuple(rule for rule in rules if rule.code not in outside), outside


def diagnose(rules: Sequence[DoctorRule], shown: Evidence) -> Diagnosis:
    """The diagnosis. Logs were scanned for the rules that fit their images."""
    dropped = {one.label: fitting(rules, one.record)[1] for one in shown.containers if one.record}
    others = chain(
        (seen for machine in shown.machines for seen in _of_machine(rules, machine)),
        (seen for container in shown.containers for seen in _of_container(rules, container)),
        (
            Finding(rule=rule, place="endpoint", where=asked.url, value=asked.outcomes[outcome])
            for asked in shown.endpoints
            for rule in rules
            for outcome in rule.endpoint
            if outcome in asked.outcomes
        ),
    )
    live = frozenset(one.label for one in shown.containers if one.runs)
    rest = sorted(_once(others), key=lambda one: LEVELS.index(one.level))
    seen = (
        replace(one, note=shown.notes.get(one.value, one.note))
        for one in (*judge_logs(shown.logs, load_stages(), live), *rest)
    )
    return Diagnosis(seen=tuple(seen), dropped=dropped, remarks=shown.remarks)


def _once(found: Iterable[Finding]) -> Iterator[Finding]:
    """Each sign of a rule at a place once: several values are the first."""
    known = set()
    for one in found:
        if (one.code, one.where) not in known:
            known.add((one.code, one.where))
            yield one


def _of_machine(rules: Sequence[DoctorRule], machine: Machine) -> Iterator[Finding]:
    signs = tuple(host_signs(machine))
    for rule in rules:
        for check in rule.host:
            for name, value in signs:
                if name == check:
                    yield Finding(rule=rule, place="machine", where=machine.host, value=value)


def _of_container(rules: Sequence[DoctorRule], container: ContainerState) -> Iterator[Finding]:
    for rule in rules:
        if rule.container is None or rule.outside(container.record) or (rule.releases and container.record is None):
            continue
        values = [sign_of(sign, container) for sign in rule.container]
        if all(value is not None for value in values):
            value = next((one for one in values if one), container.name)
            yield Finding(rule=rule, place="container", where=container.label, value=value)


def silent_logs(
    logs: Mapping[str, Scan], diagnosis: Diagnosis, containers: Mapping[str, Scan] | None = None
) -> tuple[NotChecked, ...]:
    """A row for each log in which nothing was found because no line of it is an engine's or a kernel's.

    Of ``containers`` only logs without any line are such: their programs are known to be engines.
    """
    covered = {name for one in diagnosis.seen for name in (one.where, *one.others)}
    empty = {name: scan for name, scan in (containers or {}).items() if not scan.size}
    return tuple(
        NotChecked(
            what="log", reason=f"no line of an engine or a kernel{'' if scan.size else ': it is empty'}", where=name
        )
        for name, scan in (*logs.items(), *empty.items())
        if name not in covered and not scan.spoken and not scan.start.ranks
    )
