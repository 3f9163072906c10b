"""Folders of the nodes that a service gets: whether they are there, and where links lead, before it is mounted."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from gb10.containers.container_options import HostMount
from gb10.core.reporter import Reporter
from gb10.errors import Gb10Error, UsageError
from gb10.models.registries.trust import is_below
from gb10.serving.cluster.probing import each_machine, not_whole, script_output
from gb10.serving.run.fleet import unreached
from gb10.serving.run.service import Service
from gb10.serving.run.service_nodes import SOCKET, SOCKETS

SCRIPT: Final = Path(__file__).with_name("paths.sh")
FIELDS: Final = 3
TCP: Final = tuple(scheme for scheme in SOCKETS if scheme != SOCKET)


def read_paths(host: str, paths: Sequence[str]) -> dict[str, str]:
    """Where each path leads on a node, its links followed; one that is not there is left out.

    Raises EngineError for a node that cannot be read, UsageError for a name of none.
    """
    text = script_output(host, SCRIPT, *paths)
    rows = [line.split("\t") for line in text.splitlines()]
    if not rows or rows[-1] != ["end"]:
        raise not_whole(host, text)
    return {row[1]: row[2] for row in rows if len(row) == FIELDS and row[0] == "path" and row[2].startswith("/")}


def with_node_paths(reporter: Reporter, service: Service, *, allowed: Sequence[str] | None) -> Service:
    """The service with the folders that its nodes have.

    An optional one that no node has is left out, and said: the image must hold it. ``allowed`` are the folders that a
    recipe of somebody else may get; None allows every one. What it gets is mounted by its real path, so that no link
    leads elsewhere. Raises UsageError for a folder that only some nodes have, or that leads out of those allowed, and
    EngineError for a node that cannot be read.
    """
    binds = [mount for mount in service.settings.host.mounts if not mount.is_volume]
    if not binds or (allowed is None and not any(mount.optional for mount in binds)):
        return service
    hosts = [rank.node.host for rank in service.ranks]
    far = [host for host in hosts if host.startswith(TCP)]
    if far:
        if allowed is not None:
            hint = "name the node by ssh: --nodes USER@NAME"
            raise UsageError(f"{far[0]} is not named by ssh, so links in its folders cannot be followed", hint=hint)
        reporter.say(f"{', '.join(far)}: not named by ssh, so it is not looked at; folders of the model are mounted")
        return service
    asked = [*(mount.source for mount in binds), *(allowed or ())]
    found = each_machine(hosts, lambda host: read_paths(host, asked))
    failed = {host: error for host, error in found.items() if isinstance(error, Gb10Error)}
    if failed:
        raise unreached(failed)
    nodes = {host: paths for host, paths in found.items() if isinstance(paths, dict)}
    mounts = service.settings.host.mounts
    kept = (mount if mount.is_volume else _allowed_mount(reporter, mount, nodes, allowed) for mount in mounts)
    access = replace(service.settings.host, mounts=tuple(mount for mount in kept if mount))
    return replace(service, settings=replace(service.settings, host=access))


def _allowed_mount(
    reporter: Reporter, mount: HostMount, nodes: dict[str, dict[str, str]], allowed: Sequence[str] | None
) -> HostMount | None:
    lacking = [host for host, real in nodes.items() if mount.source not in real]
    if mount.optional and len(lacking) == len(nodes):
        reporter.say(f"no node has {mount.source}: it is not mounted, and the image must hold it")
        return None
    if lacking:
        hint = "copy it there, to the same path" if len(lacking) < len(nodes) else "make it, or correct the recipe"
        raise UsageError(f"{', '.join(lacking)}: no {mount.source}", hint=hint)
    if allowed is None:
        return mount
    for host, real in nodes.items():
        if not is_below(real[mount.source], [real[folder] for folder in allowed if folder in real]):
            raise UsageError(
                f"{host}: {mount.source} leads to {real[mount.source]}, which you have not allowed",
                hint=f"look at it there; then: --allow-path {real[mount.source]}",
            )
    ways = {real[mount.source] for real in nodes.values()}
    if len(ways) > 1:
        raise UsageError(f"{mount.source} leads to another folder on each node", where="\n".join(sorted(ways)))
    return replace(mount, source=ways.pop())
