"""The engines of a service's nodes, reached at the same time and for as long as they are needed."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import TypeVar

from gb10.containers.connection import Engine
from gb10.containers.node import reached
from gb10.containers.reach import connect_or_start
from gb10.core.host import Host
from gb10.core.ssh import HERE
from gb10.errors import EngineError, Gb10Error

T = TypeVar("T")
AT_ONCE = 64
"""Nodes that are asked at the same time: as many as a service may have."""
Fleet = Mapping[str, Engine]
"""The engine of each node, by how the node is reached; the head first."""


@contextmanager
def open_fleet(host: Host, hosts: Sequence[str]) -> Iterator[Fleet]:
    """The engines of the nodes. Raises EngineError that names the nodes that cannot be reached."""
    with reach_fleet(host, hosts) as (fleet, silent):
        if silent:
            raise unreached(silent)
        yield fleet


@contextmanager
def reach_fleet(host: Host, hosts: Sequence[str]) -> Iterator[tuple[Fleet, dict[str, Gb10Error]]]:
    """The engines of the nodes that answer, and the error of each other one."""
    with ExitStack() as stack, ThreadPoolExecutor(min(AT_ONCE, len(hosts))) as pool:
        opened = {name: pool.submit(stack.enter_context, _engine(host, name)) for name in hosts}
        fleet: dict[str, Engine] = {}
        silent: dict[str, Gb10Error] = {}
        for name, work in opened.items():
            error = work.exception()
            if isinstance(error, Gb10Error):
                silent[name] = error
            elif error:
                raise error
            else:
                fleet[name] = work.result()
        yield fleet, silent


def unreached(failed: Mapping[str, Gb10Error]) -> EngineError:
    """One error for nodes that cannot be reached."""
    errors = list(failed.values())
    if len(errors) == 1:
        return EngineError(errors[0].message, where=errors[0].where, hint=errors[0].hint)
    where = "\n".join(": ".join(filter(None, (error.message, error.where))) for error in errors)
    return EngineError(f"{len(errors)} nodes cannot be reached", where=where, hint=errors[0].hint)


@contextmanager
def _engine(host: Host, name: str) -> Iterator[Engine]:
    if name == HERE:
        yield connect_or_start(host.env, host.store)
        return
    with reached(name) as engine:
        yield engine


def on_all_nodes(work: Callable[[str, Engine], T], fleet: Fleet) -> dict[str, T]:
    """The result of ``work`` on every node, done at the same time. Raises the error of the first node that failed."""
    done = on_all_nodes_collect_errors(work, fleet)
    for result in done.values():
        if isinstance(result, Gb10Error):
            raise result
    return {name: result for name, result in done.items() if not isinstance(result, Gb10Error)}


def on_all_nodes_collect_errors(work: Callable[[str, Engine], T], fleet: Fleet) -> dict[str, T | Gb10Error]:
    """The result of ``work`` on every node, or its error; other exceptions are bugs, and raised."""

    def one(name: str) -> T | Gb10Error:
        try:
            return work(name, fleet[name])
        except Gb10Error as error:
            return error

    with ThreadPoolExecutor(min(AT_ONCE, max(1, len(fleet)))) as pool:
        return dict(zip(fleet, pool.map(one, fleet), strict=True))
