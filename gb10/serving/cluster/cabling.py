"""Cables between machines, as the addresses of their ports show them, and those that a whole network lacks. Pure."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

TRIANGLE: Final = 3
PORTS: Final = ("p0", "p1")
"""The fast ports of a Spark, as the adapter names them: p0 is the one beside the ordinary network's."""
End = tuple[str, str]
"""A host and its port."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Cable:
    """What joins two ports; ``networks`` are those of its halves, none for a cable that is missing."""

    ends: tuple[End, End]
    networks: tuple[str, ...] = ()

    @property
    def hosts(self) -> tuple[str, str]:
        """The machines at its ends."""
        return self.ends[0][0], self.ends[1][0]

    def __str__(self) -> str:
        (one, port), (other, way) = self.ends
        networks = f"  {', '.join(self.networks)}" if self.networks else ""
        return f"{one} {port} - {other} {way}{networks}"


def ring_order(hosts: Sequence[str], cables: Sequence[Cable]) -> tuple[str, ...]:
    """The hosts along the cables, the first one first, then the neighbour that comes first in ``hosts``.

    Empty unless the cables are one ring through all of four hosts or more.
    """
    near: dict[str, set[str]] = defaultdict(set)
    for cable in cables:
        one, other = cable.hosts
        near[one].add(other)
        near[other].add(one)
    if len(hosts) <= TRIANGLE or any(len(near[host]) != 2 for host in hosts):
        return ()
    order = [hosts[0]]
    while True:
        ways = [host for host in hosts if host in near[order[-1]] and host not in order]
        if not ways:
            return tuple(order) if len(order) == len(hosts) else ()
        order.append(ways[0])


def follows(hosts: Sequence[str], order: Sequence[str]) -> bool:
    """Whether each host's successor, and the last one's, is its neighbour in a ring."""
    places = {host: place for place, host in enumerate(order)}
    steps = {
        (places[other] - places[one]) % len(order) for one, other in zip(hosts, (*hosts[1:], hosts[0]), strict=True)
    }
    return steps in ({1}, {len(order) - 1})


def missing_cables(
    hosts: Sequence[str], cables: Sequence[Cable], ports: Mapping[str, Sequence[str]]
) -> tuple[Cable, ...]:
    """The cables that make the network whole: a triangle of three hosts, else a ring.

    What is plugged stays; a host without a free port gets none. Empty when no cable alone does it.
    """
    free = {host: list(ports.get(host) or PORTS) for host in hosts}
    for cable in cables:
        for host, port in cable.ends:
            if port in free.get(host, ()):
                free[host].remove(port)
    joined = {frozenset(cable.hosts) for cable in cables}
    if len(hosts) == TRIANGLE:
        wanted = [pair for pair in combinations(hosts, 2) if frozenset(pair) not in joined]
    else:
        wanted = _closing(hosts, cables)
    found = []
    for one, other in wanted:
        if not free[one] or not free[other]:
            return ()
        # a cable from the first port of one to the second of the next is the usual ring; both ways work
        found.append(Cable(ends=((one, free[one].pop(0)), (other, free[other].pop()))))
    return tuple(found)


def _closing(hosts: Sequence[str], cables: Sequence[Cable]) -> list[tuple[str, str]]:
    """The pairs that make one ring of chains of cabled hosts; none where a host has more than two neighbours."""
    near: dict[str, list[str]] = {host: [] for host in hosts}
    for one, other in dict.fromkeys(cable.hosts for cable in cables):
        near[one].append(other)
        near[other].append(one)
    if any(len(others) > 2 for others in near.values()):
        return []
    chains, seen = list[list[str]](), set[str]()
    for start in sorted(hosts, key=lambda host: (len(near[host]), hosts.index(host))):
        if start in seen:
            continue
        chain, at = list[str](), start
        while at not in seen:
            seen.add(at)
            chain.append(at)
            at = next((other for other in near[at] if other not in seen), at)
        chains.append(chain)
    if any(len(near[chain[0]]) == 2 for chain in chains):  # a part is closed already: a ring that leaves hosts out
        return []
    return [(chain[-1], after[0]) for chain, after in zip(chains, (*chains[1:], chains[0]), strict=True)]
