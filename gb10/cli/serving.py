"""What the verbs about running services share: the nodes of a command line, and a service as a document."""

from typing import Annotated, Any

import typer

from gb10.cli.cluster_files import nodes_named
from gb10.engine.container_options import docker_call
from gb10.serve.existing import Found
from gb10.serve.labelled import container_name
from gb10.serve.node_launch import container_options
from gb10.serve.service import Service, curl_line
from gb10.workshop import Workshop

NodesOption = Annotated[
    str | None,
    typer.Option(
        "--nodes", metavar="A,B", help="Nodes by ssh ([USER@]NAME), the head first; or @CLUSTER. Default: this machine."
    ),
]


def hosts_named(shop: Workshop, text: str | None) -> tuple[str, ...]:
    """The nodes of ``--nodes``; none when it is not given. Raises UsageError."""
    cluster = nodes_named(shop.env, text)
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
        "curl": curl_line(service.endpoint, service.model),
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
