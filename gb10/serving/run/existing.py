"""What already runs on the nodes: services by their labels, and whether a new one fits beside them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gb10.containers.connection import Engine, EngineHost
from gb10.errors import UsageError
from gb10.serving.run.fleet import Fleet, on_all_nodes
from gb10.serving.run.service import SERVICE, Labels, Service, read_labels

if TYPE_CHECKING:
    from gb10.containers.docker_containers import ContainerState
    from gb10.containers.images import ImageInfo

SYSTEM = 8 << 30
"""Bytes that a node keeps for its system beside all containers."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """A container of a service on a node."""

    host: str
    state: "ContainerState"
    labels: Labels


def services_on(fleet: Fleet) -> tuple[Found, ...]:
    """Every container of a service, by service and rank. Raises EngineError."""
    listed = on_all_nodes(listed_on, fleet)
    return sorted_by_rank(one for part in listed.values() for one in part)


def sorted_by_rank(found: Iterable[Found]) -> tuple[Found, ...]:
    """Containers by service and rank."""
    return tuple(sorted(found, key=lambda one: _order(one.labels)))


def listed_on(host: str, engine: Engine) -> list[Found]:
    """Every container of a service on one node. Raises EngineError."""
    from gb10.containers.docker_containers import containers_with  # noqa: PLC0415 - for engines that are asked

    return [
        Found(host=host, state=state, labels=read_labels(state.labels)) for state in containers_with(engine, SERVICE)
    ]


def _order(labels: Labels) -> tuple[str, int]:
    return labels.service, labels.rank


def of_service(found: Iterable[Found], name: str) -> tuple[Found, ...]:
    """The containers of one service, by rank."""
    return tuple(one for one in found if one.labels.service == name)


def runs_unchanged(service: Service, found: Iterable[Found], images: "Mapping[str, ImageInfo]") -> bool:
    """Whether every rank runs, on its node, from the image that its name means now, with the same digest. Pure."""
    running = {(one.host, one.labels.rank): one for one in found if one.state.runs}
    wanted = {(rank.node.host, rank.number) for rank in service.ranks}
    return set(running) == wanted and all(
        one.labels.digest == service.digest and one.state.image == images[one.host].id for one in running.values()
    )


def check_memory(service: Service, found: Iterable[Found], machines: Mapping[str, EngineHost]) -> None:
    """Raise UsageError when all services of a node claim more than it has beside its system. Pure.

    A service claims its limit, or, where the sizes of its model are not known, the part that its command names.
    """
    for host, total in ((host, machine.memory) for host, machine in machines.items()):
        own = claimed(service, total)
        others = [one for one in found if one.host == host and one.state.runs and one.labels.service != service.name]
        taken = sum(one.labels.memory or int(one.labels.share * total) for one in others)
        known = own if service.settings.memory or taken else 0  # alone, a part of the GPU's memory says nothing here
        if known and taken + own > memory_for_services(total):
            names = ", ".join(sorted({one.labels.service for one in others}))
            raise UsageError(
                f"{host} has {_gib(total)}, and the services there may then use {_gib(taken + own)}",
                where=f"already there: {names}, {_gib(taken)}" if others else None,
                hint="stop one of them, or let each use less: --set gpu_memory_utilization=0.4, --memory GIB",
            )


def claimed(service: Service, total: int) -> int:
    """Bytes of a node that a service claims: its limit, else the part that its command names; zero for neither."""
    return service.settings.memory or int(service.share * total)


def memory_for_services(total: int) -> int:
    """Bytes of a node beside its system."""
    return total - min(SYSTEM, total // 8)


def _gib(amount: int) -> str:
    return f"{amount / (1 << 30):.1f} GiB"
