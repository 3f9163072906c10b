"""``doctor``: what is wrong with a Spark, by rules with a reason."""

import textwrap
import uuid
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from gb10.cli.verb import AllowUncheckedOption, JsonOption, print_json, verb_app, with_host
from gb10.core.checked import documents_of, refuse_unchecked, rows_of
from gb10.core.files import read_plain_file
from gb10.core.host import Host
from gb10.core.printing import printable, visible
from gb10.core.reporter import VERBOSE, Reporter
from gb10.core.ssh import HERE
from gb10.errors import EngineError, ServeError, UncheckedError, UsageError
from gb10.serving.checkup.bundle import as_text, write_bundle
from gb10.serving.checkup.collect import Checkup, Request, collect
from gb10.serving.checkup.saved_logs import SavedLog, log_size, read_log
from gb10.serving.doctor.diagnosis import Diagnosis, Finding, Verdict
from gb10.serving.doctor.doctor_rule import DoctorRule
from gb10.serving.doctor.image_record import PLACE, ImageRecord, read_plan
from gb10.serving.doctor.rule_files import load_doctor_rules
from gb10.serving.run.service_nodes import MARK, find_cluster

WIDTH: Final = 116
TITLES: Final = {
    "log": "Logs, in the order of time",
    "machine": "Machines",
    "container": "Containers",
    "endpoint": "Endpoints",
}


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
    for row in rows_of(found.unchecked):
        print(row)
    if (
        not diagnosis.seen
        and not found.unchecked
        and (shown.machines or shown.containers or shown.logs or shown.endpoints)
    ):
        print(printable(f"nothing found; read: {', '.join(_names_read(found))}"))
    for remark in diagnosis.remarks:
        reporter.say(f"note: {remark}")


def _names_read(found: Checkup) -> Iterable[str]:
    """What was read, by its names: "nothing found" says nothing of anything else."""
    shown = found.shown
    yield from (f"{name} ({scan.size:,} bytes)" for name, scan in shown.logs.items())
    yield from (one.host for one in shown.machines)
    yield from (one.label for one in shown.containers)
    yield from (one.url for one in shown.endpoints)


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


def _print_seen(one: Finding, *, first: bool) -> None:
    print(f"  {one.level}: {one.code}{'  (the first error)' if first else ''}")
    for line in (_place(one), *_sentences(one)):
        print(
            textwrap.fill(
                visible(line), WIDTH, initial_indent="    ", subsequent_indent="      ", break_long_words=False
            )
        )


def _place(one: Finding) -> str:
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


def _sentences(one: Finding) -> tuple[str, ...]:
    note = (one.note,) if one.note else ()
    if one.rule is None:
        return (one.shown, *note, *_circumstances(one), "No rule knows this error.")
    meaning, action = one.words(one.rule.meaning), one.words(one.rule.action)
    quoted = (one.shown,) if isinstance(one.rule, Verdict) and one.value not in meaning else ()
    return (*quoted, meaning, *note, *_circumstances(one), action, f"({one.rule.evidence})")


def _circumstances(one: Finding) -> Iterable[str]:
    """Where and when an error was raised, and what came of it."""
    if one.raised_at:
        yield f"Raised at {one.raised_at}."
    yield from one.explained
    if one.chain:
        yield f"In one chain with: {' | '.join(one.chain)}"
    if one.stage and one.level == "error":
        yield f"The start was in the stage {one.stage}."
    if one.echoes:
        yield f"{one.echoes} later errors only follow from it."


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
        "unchecked": documents_of(found.unchecked),
    }


def _finding(one: Finding, diagnosis: Diagnosis) -> dict[str, Any]:
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
        "value": one.shown,
        "chain": list(one.chain),
        "echoes": one.echoes,
        "stage": one.stage or None,
        "raised_at": one.raised_at or None,
        "explained": list(one.explained),
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


LARGEST_PLAN = 4 << 20
LONG = 256 << 20
"""Bytes of a log whose reading shows its progress."""
app = verb_app("""Find what is wrong with a Spark: its machine, its containers, their logs, its endpoint.


\b
./build.py doctor                                        # this machine, its containers and their logs
./build.py doctor --host me@spark-1 --host me@spark-2    # others, by ssh; or --host @CLUSTER
./build.py doctor --log head=head.log --log worker=worker.log
./build.py doctor --log server.log --explain             # what printed an error, from the release's archive
./build.py doctor --probe --url http://spark-1:8000      # asks the endpoint: takes minutes
./build.py doctor --host me@spark-1 --bundle report.tar.gz

It reads, and changes nothing. Rules that cannot be about an image, by its plan.json, are left out; -v lists them.
Several logs are one story: the first error of all comes first. Errors that no rule knows are named as such,
with the statement of the engine that printed them.

Exit 12 when it found an error, 7 when no machine that you named can be read, 13 when a part could not be looked at:
without a driver the GPU, without an engine the containers, a log without a line of an engine or a kernel.
""")
HostOption = Annotated[
    list[str] | None,
    typer.Option("--host", metavar="HOST", help="A machine by ssh ([USER@]NAME), or @CLUSTER. Repeatable."),
]
LogOption = Annotated[
    list[str] | None,
    typer.Option("--log", metavar="[NODE=]FILE", help="A log, of a server or of NCCL; - is stdin. Repeatable."),
]
PlanOption = Annotated[
    Path | None, typer.Option("--plan", metavar="FILE", help="The plan.json of the image that wrote the logs.")
]
ProbeOption = Annotated[bool, typer.Option("--probe", help="Ask the endpoint: canaries, speeds, requests that stall.")]
UrlOption = Annotated[
    list[str] | None,
    typer.Option("--url", metavar="URL", help="The endpoint to ask. Default: those of running services. Repeatable."),
]
ModelOption = Annotated[str | None, typer.Option("--model", metavar="NAME", help="As the endpoint names it.")]
BundleOption = Annotated[
    Path | None,
    typer.Option("--bundle", metavar="FILE", help="Write all that was read into FILE (.tar.gz), without secrets."),
]
SourceOption = Annotated[
    Path | None,
    typer.Option(
        "--source", metavar="DIR", help="The engine's files (site-packages, venv, checkout) that wrote the logs."
    ),
]
ExplainOption = Annotated[
    bool,
    typer.Option("--explain", help="Fetch the archive of the engine's release, once, to show what printed an error."),
]
RulesOption = Annotated[bool, typer.Option("--rules", help="List the rules, and look at nothing.")]


@app.command(help=app.info.help)
@with_host
def doctor(
    *,
    host: Host,
    source: SourceOption = None,
    hosts: HostOption = None,
    logs: LogOption = None,
    plan: PlanOption = None,
    probe: ProbeOption = False,
    urls: UrlOption = None,
    model: ModelOption = None,
    bundle: BundleOption = None,
    explain: ExplainOption = False,
    rules: RulesOption = False,
    allow_unchecked: AllowUncheckedOption = False,
    as_json: JsonOption = False,
) -> None:
    """Find what is wrong with a Spark."""
    if rules:
        print_rules(load_doctor_rules(), as_json=as_json)
        return
    if (urls or model) and not probe:
        raise UsageError("--url and --model are for --probe", hint="./build.py doctor --probe --url URL")
    named = _hosts(host, hosts or ())
    only_saved = bool(logs) or (probe and bool(urls))
    request = Request(
        hosts=named or (() if only_saved else (HERE,)),
        logs=_logs(host, logs or (), plan),
        probe=probe,
        urls=tuple(urls or ()),
        model=model,
        source=source,
        explain=explain,
    )
    with host.reporter.task(f"looking at {', '.join(request.hosts)}") if request.hosts else nullcontext():
        found = collect(host, request, uuid.uuid4().hex)
    document = doctor_document(found, load_doctor_rules())
    written = _written(host, bundle, found, document) if bundle else None
    if as_json:
        print_json(document | ({"bundle": {"file": str(bundle), "sha256": written}} if bundle else {}))
    else:
        print_checkup(host.reporter, found, load_doctor_rules())
        if written:
            print(f"{bundle}  sha256:{written}")
    _end(request, named, found)
    if as_json and found.unchecked and not allow_unchecked:  # the document has the rows
        raise typer.Exit(UncheckedError.code)
    refuse_unchecked(found.unchecked, allowed=allow_unchecked)


def _written(host: Host, bundle: Path, found: Checkup, document: object) -> str:
    """The bundle's sha256."""
    with host.reporter.task(f"mask secrets, write {bundle}"):
        return write_bundle(bundle, {"findings.json": as_text(document), **found.files}, found.secrets)


def _hosts(host: Host, given: list[str] | tuple[()]) -> tuple[str, ...]:
    found: list[str] = []
    for one in given:
        found += find_cluster(host.env, one.removeprefix(MARK)).nodes if one.startswith(MARK) else [one]
    return tuple(dict.fromkeys(found))


def _logs(host: Host, given: list[str] | tuple[()], plan: Path | None) -> tuple[SavedLog, ...]:
    if plan is not None and not given:
        raise UsageError("--plan is for --log", hint="the plan.json of a running container is read by itself")
    image = _image(plan) if plan is not None else None
    found = tuple(_log(host, one, image) for one in given)
    names = [log.name for log in found]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice:
        raise UsageError(f"two logs are called {twice!r}", hint="name their nodes: --log head=FILE --log worker=FILE")
    return found


def _log(host: Host, text: str, image: ImageRecord | None) -> SavedLog:
    size = log_size(text)
    if size <= LONG:
        return read_log(text, image)
    with host.reporter.task(f"reading {text}", size) as task:
        return read_log(text, image, lambda count: host.reporter.update(task, count, size))


def _image(plan: Path) -> ImageRecord:
    hint = f"docker cp CONTAINER:{PLACE} plan.json"
    record = read_plan(read_plain_file(plan, LARGEST_PLAN, hint).decode("utf-8", "replace"))
    if record is None:
        raise UsageError(f"{plan} is no plan.json of an image", hint=hint)
    return record


def _end(request: Request, named: tuple[str, ...], found: Checkup) -> None:
    """The exit code: after the result is printed, nothing else is said."""
    if named and not found.shown.machines and not found.shown.containers and not request.logs:
        raise typer.Exit(EngineError.code)
    if found.diagnosis.worst == "error":
        raise typer.Exit(ServeError.code)
