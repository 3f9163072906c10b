"""Looking at services and ending them, by the labels of their containers alone."""

from collections.abc import Sequence
from dataclasses import dataclass

from gb10.engine.engine_host import engine_host
from gb10.errors import EmptySelectionError, ServeError
from gb10.host.host import Host
from gb10.host.ssh import HERE
from gb10.serve.existing import Found, of_service, services_on
from gb10.serve.fleet import Fleet, on_each, open_fleet
from gb10.serve.starting import end_all
from gb10.serve.watching import Watched


@dataclass(frozen=True, kw_only=True, slots=True)
class Ended:
    """A service that was ended: its containers by node."""

    name: str
    containers: tuple[Found, ...]


def hosts_of(host: Host, named: Sequence[str], name: str | None) -> tuple[str, ...]:
    """The nodes to look at: those that are named, else this machine and the nodes of its services."""
    if named:
        return tuple(named)
    with open_fleet(host, (HERE,)) as fleet:
        found = services_on(fleet)
    wanted = of_service(found, name) if name else found
    return tuple(dict.fromkeys([HERE, *(other for one in wanted for other in one.labels.hosts)]))


def require(found: Sequence[Found], name: str, hosts: Sequence[str]) -> tuple[Found, ...]:
    """The containers of a service. Raises EmptySelectionError."""
    own = of_service(found, name)
    if not own:
        names = ", ".join(sorted({one.labels.service for one in found})) or "none"
        raise EmptySelectionError(
            f"no service {name!r} on {', '.join(hosts)}",
            where=f"services there: {names}",
            hint="on other nodes: --nodes HEAD,WORKER",
        )
    return own


def watched_service(fleet: Fleet, name: str, own: Sequence[Found]) -> Watched:
    """A service that runs, to be watched. Raises EngineError."""
    ranks = {one.host: fleet[one.host] for one in own}
    machines = on_each(lambda _, engine: engine_host(engine), ranks)
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
