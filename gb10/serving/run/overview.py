"""The services of some nodes, by the labels of their containers: what was found, and where nobody looked.

Labels say which nodes a service has. They are shown, and never asked: only nodes that the user named, or noted by
starting a service there, are.
"""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from gb10.core.host import Host
from gb10.core.printing import printable
from gb10.core.reporter import Reporter
from gb10.core.ssh import HERE
from gb10.errors import EmptySelectionError, EngineError, Gb10Error, UsageError
from gb10.serving.run.existing import Found, listed_on, of_service, sorted_by_rank
from gb10.serving.run.fleet import Fleet, on_all_nodes_collect_errors, reach_fleet, unreached
from gb10.serving.run.notes import Notes, forget, is_node, read_notes

HEAD: Final = "HEAD"
"""What stands in a line to paste for a node that only the machine which started the service can name."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Overview:
    """What the nodes showed. ``silent`` has the error of each that did not answer."""

    fleet: Fleet
    silent: Mapping[str, Gb10Error]
    found: tuple[Found, ...]
    notes: Notes
    reporter: Reporter
    named: bool
    """Whether the user named the nodes, so that others are no matter."""

    @property
    def services(self) -> dict[str, tuple[Found, ...]]:
        """The containers of each service."""
        names = dict.fromkeys(one.labels.service for one in self.found)
        return {name: of_service(self.found, name) for name in names}

    def unseen(self, own: Sequence[Found]) -> tuple[str, ...]:
        """The nodes of a service, by its labels, on which nobody looked; none where the user named the nodes."""
        if self.named:
            return ()
        ranks = {one.labels.rank for one in own}
        missing = (
            node
            for one in own
            for rank, node in enumerate(one.labels.hosts)
            if rank not in ranks and not self._asked(one, node)
        )
        return tuple(dict.fromkeys(missing))

    def _asked(self, one: Found, node: str) -> bool:
        """Whether a node was asked. ``localhost`` in a label is the machine that started the service, maybe another."""
        if node == HERE:
            return one.host != HERE or one.labels.hosts[one.labels.rank :][:1] == (HERE,)
        return node in self.fleet or node in self.silent

    def lost(self, own: Sequence[Found]) -> tuple[str, ...]:
        """The nodes of a service that were asked and did not answer."""
        ranks = {one.labels.rank for one in own}
        nodes = (node for one in own for rank, node in enumerate(one.labels.hosts) if rank not in ranks)
        return tuple(dict.fromkeys(node for node in nodes if node in self.silent))

    def require(self, name: str) -> tuple[Found, ...]:
        """The containers of a service. Raises EmptySelectionError, and EngineError where a node did not answer."""
        own = of_service(self.found, name)
        if own:
            return own
        where = f"services there: {', '.join(self.services) or 'none'}"
        message = f"no service {name!r} on {', '.join(self.fleet)}"
        if self.silent:
            raise EngineError(f"{message}; other nodes do not answer", where=f"{where}\n{self.silence()}")
        self.clear_notes(of=name)
        raise EmptySelectionError(message, where=where, hint="on other nodes: --nodes HEAD,WORKER")

    def silence(self) -> str:
        """A line for each node that did not answer."""
        return "\n".join(f"{node}: {why(error)}" for node, error in self.silent.items())

    def clear_notes(self, *, of: str | None, ended: Sequence[Found] = ()) -> None:
        """Forget the notes of services that are on none of their nodes any more, of one service or of all."""
        left = {one.labels.service for one in self.found} - {one.labels.service for one in ended}
        for note in self.notes.notes:
            if of in (None, note.service) and note.service not in left and set(note.nodes) <= set(self.fleet):
                problem = forget(note)
                if problem:
                    self.reporter.say(problem)


def why(error: Gb10Error) -> str:
    """An error in one line."""
    return " ".join(": ".join(filter(None, (error.message, error.where))).split())[:300]


@contextmanager
def look_at(host: Host, named: Sequence[str], name: str | None) -> Iterator[Overview]:
    """The services of the nodes that are named, else of this machine and of the nodes that were noted.

    ``name`` is the service that is wanted, None for all. A node that does not answer is no error, unless none answers:
    then EngineError is raised.
    """
    notes = read_notes(host.env)
    hosts = tuple(named) or tuple(dict.fromkeys((HERE, *notes.nodes_of(name))))
    if not named:
        for sentence in notes.unread:
            host.reporter.say(sentence)
    with reach_fleet(host, hosts) as (reached, unheard):
        answers = on_all_nodes_collect_errors(listed_on, reached)
        silent = {**unheard, **{node: one for node, one in answers.items() if isinstance(one, Gb10Error)}}
        if len(silent) == len(hosts):
            raise unreached(silent)
        listed = {node: one for node, one in answers.items() if not isinstance(one, Gb10Error)}
        yield Overview(
            fleet={node: reached[node] for node in listed},
            silent={node: silent[node] for node in hosts if node in silent},
            found=sorted_by_rank(_once(one for part in listed.values() for one in part)),
            notes=notes,
            reporter=host.reporter,
            named=bool(named),
        )


def _once(found: Iterator[Found]) -> list[Found]:
    """Each container once: a machine may be named twice, as ``localhost`` and by ssh. The name of its labels stays."""
    kept: dict[str, Found] = {}
    for one in found:
        before = kept.get(one.state.id)
        if before is None or before.host not in before.labels.hosts:
            kept[one.state.id] = one
    return list(kept.values())


def not_looked_at(verb: str, services: Mapping[str, Sequence[Found]], seen: Overview) -> UsageError | None:
    """The error of services that are seen in part, with the lines to paste; None where there is none."""
    parts = {name: nodes for name, own in services.items() if (nodes := seen.unseen(own))}
    if not parts:
        return None
    where = [f"{name}: {', '.join(map(printable, nodes))}" for name, nodes in parts.items()]
    lines = [_line(verb, name, services[name]) for name in parts]
    hint = "\n".join(["name all nodes of it, if you know them:", *lines])
    return UsageError(
        f"not looked at: nodes that only the labels of {'a service' if len(parts) == 1 else 'services'} name",
        where="\n".join(where),
        hint=hint,
    )


def _line(verb: str, name: str, own: Sequence[Found]) -> str:
    """The call that looks at all nodes of a service; what cannot be a node is left to the user."""
    ranks = own[0].labels.hosts
    foreign = own[0].host == HERE and ranks[own[0].labels.rank :][:1] != (HERE,)
    nodes = [HEAD if node == HERE and foreign else node if is_node(node) else "NODE" for node in ranks]
    return f"./build.py {verb} {shlex.quote(name)} --nodes {shlex.quote(','.join(nodes))}"
