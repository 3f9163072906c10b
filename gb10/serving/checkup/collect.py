"""The whole of a check-up: machines, containers, logs and endpoints are read at the same time, then judged."""

import dataclasses
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from gb10.core.checked import NotChecked
from gb10.core.host import Host
from gb10.errors import Gb10Error
from gb10.serving.checkup.bundle import as_text, file_name
from gb10.serving.checkup.collected import CollectedContainers, merge_visits, scanner_for, unread
from gb10.serving.checkup.engine_source import explained
from gb10.serving.checkup.saved_logs import SavedLog
from gb10.serving.cluster.probing import each_machine, not_whole, read_node, script_output
from gb10.serving.doctor.container_checks import ContainerState
from gb10.serving.doctor.diagnosing import EndpointOutcomes, Evidence, diagnose, silent_logs
from gb10.serving.doctor.diagnosis import Diagnosis, Verdict
from gb10.serving.doctor.host_checks import unseen
from gb10.serving.doctor.host_state import Look, Machine, read_look
from gb10.serving.doctor.log_scan import Scan
from gb10.serving.doctor.rule_files import load_doctor_rules
from gb10.serving.run.service_url import is_this_machine, url_on

SCRIPT: Final = Path(__file__).with_name("look.sh")


def collect_host(host: str) -> Machine:
    """What a machine shows; this one for ``localhost``. Raises EngineError that names it, UsageError."""
    with ThreadPoolExecutor(2) as pool:
        facts, now = pool.submit(read_node, host), pool.submit(_now, host)
    return Machine(host=host, facts=facts.result().facts, look=now.result())


def _now(host: str) -> Look:
    text = script_output(host, SCRIPT)
    found = read_look(text)
    if found is None:
        raise not_whole(host, text)
    return found


KERNEL: Final = "kernel"
OWN: Final = ("TOKEN", "API_KEY", "PASSWORD", "SECRET")
"""How variables of the user end that this tool, or an engine, sends to others."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """What to look at."""

    hosts: tuple[str, ...] = ()
    logs: tuple[SavedLog, ...] = ()
    probe: bool = False
    urls: tuple[str, ...] = ()
    """Endpoints to ask; empty: those of the services that run."""
    model: str | None = None
    source: Path | None = None
    """A folder with the files of the engine that wrote the logs."""
    explain: bool = False
    """Whether the archive of the engine's release may be fetched to explain an error."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Checkup:
    """The diagnosis, and the files of a bundle by their names."""

    diagnosis: Diagnosis
    shown: Evidence
    files: Mapping[str, bytes | str] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()
    """Of variables and commands of containers, and of the user: masked in a bundle wherever they stand."""
    unchecked: tuple[NotChecked, ...] = ()
    """What could not be read, logs that the user named and that are none, and empty ones of containers."""


def collect(host: Host, request: Request, seed: str) -> Checkup:
    """Look at all that was asked for. What cannot be read is a row "not checked"; raises UsageError."""
    with ThreadPoolExecutor(max(2, 2 * len(request.hosts))) as pool:
        machines = pool.submit(each_machine, request.hosts, collect_host)
        visited = merge_visits(_containers(host, request.hosts, pool))
    found = machines.result()
    seen = {name: one for name, one in found.items() if isinstance(one, Machine)}
    failed = [unread(one, "machine", name) for name, one in found.items() if isinstance(one, Gb10Error)]
    containers = tuple(replace(one, machine=seen.get(one.host)) for one in visited.containers)
    saved = {log.name: log.scan for log in request.logs}
    asked, unasked = _probe_endpoints(host, request, containers, seed) if request.probe else ((), ())
    shown = Evidence(
        logs={**visited.logs, **saved, **_kernel_logs(seen)},
        machines=tuple(seen.values()),
        containers=containers,
        endpoints=asked,
        notes=visited.notes,
        remarks=(*visited.remarks, *_cut(visited.logs | saved)),
    )
    tails = visited.tails | {log.name: log.tail for log in request.logs}
    files = _files(shown, replace(visited, tails=tails))
    secrets = _secrets(host.env, containers)
    found_of_logs = diagnose(load_doctor_rules(), shown)
    diagnosis, unread_engines = explained(host, found_of_logs, shown, request.source, fetch=request.explain)
    diagnosis = _without_secrets(diagnosis, secrets)
    rows = (row for one in seen.values() for row in unseen(one))
    unchecked = (
        *failed,
        *rows,
        *visited.unchecked,
        *silent_logs(saved, diagnosis, visited.logs),
        *unread_engines,
        *unasked,
    )
    return Checkup(diagnosis=diagnosis, shown=shown, files=files, secrets=secrets, unchecked=unchecked)


def _containers(host: Host, names: Sequence[str], pool: ThreadPoolExecutor) -> list[CollectedContainers]:
    """The containers of each machine, all read at the same time."""
    if not names:
        return []
    from gb10.serving.checkup.collect_containers import collect_containers  # noqa: PLC0415 - Docker's library

    return [one.result() for one in [pool.submit(collect_containers, host, name) for name in names]]


def _secrets(env: Mapping[str, str], containers: Sequence[ContainerState]) -> tuple[str, ...]:
    own = {name: value for name, value in env.items() if name.endswith(OWN)}
    if not (own or containers):
        return ()
    from gb10.serving.doctor.masking import secrets_in, secrets_of  # noqa: PLC0415 - its patterns, for who has secrets

    found = [*secrets_of(own)]
    for one in containers:
        found += [*secrets_of(one.environment), *secrets_in(one.command)]
    return tuple(dict.fromkeys(found))


def _without_secrets(diagnosis: Diagnosis, secrets: Sequence[str]) -> Diagnosis:
    """The same findings: a line that is quoted, and a value of an option, may have a token or a password in it."""
    if not diagnosis.seen:
        return diagnosis
    from gb10.serving.doctor.masking import masked  # noqa: PLC0415 - its patterns, for what is quoted

    def clean(text: str) -> str:
        return masked(text, secrets)

    return replace(
        diagnosis,
        seen=tuple(
            replace(
                one,
                rule=replace(one.rule, meaning=clean(one.rule.meaning), action=clean(one.rule.action))
                if isinstance(one.rule, Verdict)
                else one.rule,
                value=clean(one.value),
                note=clean(one.note),
                chain=tuple(map(clean, one.chain)),
                explained=tuple(map(clean, one.explained)),
            )
            for one in diagnosis.seen
        ),
        remarks=tuple(map(clean, diagnosis.remarks)),
    )


def _kernel_logs(machines: Mapping[str, Machine]) -> dict[str, Scan]:
    """The lines of each kernel, scanned like a log."""
    found = {}
    for name, machine in machines.items():
        if machine.look.kernel:
            scanner = scanner_for(None)
            scanner.feed("".join(f"{line}\n" for line in machine.look.kernel).encode())
            found[f"{name} {KERNEL}"] = replace(scanner.scan(), trouble=())
    return found


def _cut(logs: Mapping[str, Scan]) -> list[str]:
    return [
        f"{name}: of lines with {text!r} only the first were looked at"
        for name, scan in logs.items()
        for text in scan.cut
    ]


def _probe_endpoints(
    host: Host, request: Request, containers: Sequence[ContainerState], seed: str
) -> tuple[tuple[EndpointOutcomes, ...], tuple[NotChecked, ...]]:
    """The endpoints that are named, else those of the services that run.

    A service is asked on the node where its container was found. Only an endpoint that the user named, and one of this
    machine, gets the user's key.
    """
    found, failed = (dict.fromkeys(request.urls), []) if request.urls else _running(containers)
    if not found:
        return (), (*failed, NotChecked(what="endpoint", reason="no service runs here; name one with --url"))
    from gb10.serving.checkup.endpoint_probe import probe_endpoint  # noqa: PLC0415 - a tenth of a second for logs
    from gb10.serving.load_generator.endpoint import KEY, reach  # noqa: PLC0415 - the same

    asked = []
    for url in found:
        keyed = bool(request.urls) or is_this_machine(url)
        try:
            endpoint = reach(url, request.model, host.env, keyed=keyed, direct=not request.urls)
            with host.reporter.task(f"{url}: asking canaries"):
                asked.append(probe_endpoint(endpoint, host.env, seed))
        except Gb10Error as error:
            row = unread(error, "endpoint", url)
            keyless = not keyed and bool(host.env.get(KEY))
            more = f"; it got no key: name it with --url {url}" if keyless else ""
            failed.append(replace(row, reason=row.reason + more))
    return tuple(asked), tuple(failed)


def _running(containers: Sequence[ContainerState]) -> tuple[dict[str, None], list[NotChecked]]:
    """The URLs of services that run, each once, and a row for each that has none."""
    from gb10.serving.run.service import read_labels  # noqa: PLC0415 - how services run, to ask one

    urls: dict[str, None] = {}
    failed = []
    for one in containers:
        labels = read_labels(one.labels)
        if one.runs and labels.endpoint and labels.rank == 0:
            url = url_on(one.host, labels.endpoint)
            if url:
                urls[url] = None
            else:
                reason = "its label names no endpoint of a service"
                failed.append(NotChecked(what="endpoint", reason=reason, where=one.label))
    return urls, failed


def _files(shown: Evidence, visited: CollectedContainers) -> dict[str, bytes | str]:
    """What a bundle has of it."""
    machines = {f"machines/{file_name(one.host)}.json": as_text(plain(one)) for one in shown.machines}
    containers = {
        f"containers/{file_name(one.host)}-{file_name(one.name)}.json": as_text(_container(one))
        for one in shown.containers
    }
    plans = {f"plans/{file_name(name)}.json": text for name, text in visited.plans.items()}
    logs = {f"logs/{file_name(name)}.log": data for name, data in visited.tails.items()}
    return {**machines, **containers, **plans, **logs}


def _container(one: ContainerState) -> dict[str, Any]:
    from gb10.serving.doctor.masking import masked, masked_environment  # noqa: PLC0415 - for a container

    found = plain(replace(one, machine=None, record=None))
    return {**found, "environment": masked_environment(one.environment), "command": masked(one.command)}


def plain(value: Any) -> Any:  # noqa: ANN401 - any frozen value of the rooms below
    """A value as data."""
    return dataclasses.asdict(value)
