"""Watching services that run, and ending them."""

from collections.abc import Sequence
from dataclasses import dataclass

from gb10.containers.engine_host import engine_host
from gb10.errors import ServeError
from gb10.serving.run.existing import Found
from gb10.serving.run.fleet import Fleet, on_all_nodes
from gb10.serving.run.starting import end_all
from gb10.serving.run.watching import Watched


@dataclass(frozen=True, kw_only=True, slots=True)
class Ended:
    """A service that was ended: its containers by node."""

    name: str
    containers: tuple[Found, ...]


def watched_service(fleet: Fleet, name: str, own: Sequence[Found]) -> Watched:
    """A service that runs, to be watched. Raises EngineError."""
    ranks = {one.host: fleet[one.host] for one in own}
    machines = on_all_nodes(lambda _, engine: engine_host(engine), ranks)
    return Watched(
        name=name,
        fleet=ranks,
        containers={one.host: one.state.id for one in own},
        ahead={host: machine.ahead for host, machine in machines.items()},
    )


def end_service(fleet: Fleet, own: Sequence[Found], name: str) -> Ended:
    """End and remove all containers of a service. Raises ServeError that names the nodes where that failed."""
    errors = end_all(fleet, {host: [one.state.id for one in own if one.host == host] for host in fleet})
    if errors:
        where = "\n".join(f"{host}: {error.where or error.message}" for host, error in errors.items())
        raise ServeError(f"{name} is not stopped everywhere", where=where, hint="run the command again")
    return Ended(name=name, containers=tuple(own))
