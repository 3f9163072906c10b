"""What the verbs about running services share: the nodes of a command line, and a service as a document."""

import shlex
from typing import Any

import typer

from gb10.cli import tell
from gb10.containers.container_options import docker_call
from gb10.errors import EngineError, Gb10Error
from gb10.image.context import Context
from gb10.models.memory.estimating import cap_of
from gb10.serving.run.existing import Found
from gb10.serving.run.overview import Overview, why
from gb10.serving.run.service import Service, container_name, container_options, curl_line
from gb10.serving.run.service_nodes import parse_nodes


def parse_hosts(ctx: Context, text: str | None) -> tuple[str, ...]:
    """The nodes of ``--nodes``; none when it is not given. Raises UsageError."""
    cluster = parse_nodes(ctx.env, text)
    return cluster.nodes if cluster else ()


def document(service: Service, *, ran: bool) -> dict[str, Any]:
    """A service as data, schema gb10/service/v1. ``ran`` is False for a dry run."""
    return {
        "schema": "gb10/service/v1",
        "name": service.name,
        "model": service.model,
        "runtime": service.runtime,
        "image": service.image,
        "endpoint": service.endpoint,
        "curl": curl_line(service.endpoint, service.model, service.answers),
        "torch_cap": cap_of(service.ranks[0].container.environment),
        "dry_run": not ran,
        "ranks": [
            {
                "rank": rank.number,
                "host": rank.node.host,
                "container": container_name(service, rank),
                "launch": list(docker_call(container_options(service, rank))),
            }
            for rank in service.ranks
        ],
    }


def found_document(one: Found) -> dict[str, Any]:
    """A container of a service as data."""
    return {
        "rank": one.labels.rank,
        "host": one.host,
        "container": one.state.name,
        "status": one.state.status,
        "code": one.state.code,
        "started": one.state.started,
        "image": one.state.image,
        "memory": one.labels.memory,
    }


def silent_document(seen: Overview) -> list[dict[str, str]]:
    """The nodes that did not answer, as data."""
    return [{"host": node, "error": why(error)} for node, error in seen.silent.items()]


def silence_of(seen: Overview) -> EngineError | None:
    """The error of nodes that did not answer; None when all did."""
    if not seen.silent:
        return None
    notes = [note.path for note in seen.notes.notes if set(note.nodes) & set(seen.silent)] if not seen.named else []
    hint = next((error.hint for error in seen.silent.values() if error.hint), None)
    gone = f"a node that is gone for good: rm {shlex.join(map(str, notes))}" if notes else None
    count = len(seen.silent)
    return EngineError(
        f"{count} node{'s do' if count > 1 else ' does'} not answer",
        where=seen.silence(),
        hint="\n".join(filter(None, (hint, gone))) or None,
    )


def end_with(*problems: Gb10Error | None, code: int = 0) -> None:
    """After the result is printed: print each problem, and end with ``code``, else with that of the first one."""
    codes = [tell(problem, as_json=False) for problem in problems if problem]
    if code or codes:
        raise typer.Exit(code or codes[0])
