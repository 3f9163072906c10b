"""Sparks without a switch, or at two: the cables as their addresses show them, what NCCL gets, what is missing."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import permutations

import pytest

from gb10.serving.cluster.adapters import Remark, pair_remarks, remarks_on
from gb10.serving.cluster.cabling import Cable, follows, missing_cables, ring_order
from gb10.serving.cluster.fabric import fabric_of, settings_of
from gb10.serving.cluster.node_facts import NodeFacts, Reading
from tests.cluster_trees import Spark, circle, facts_of, ring, switched


def remarks(hosts: Mapping[str, NodeFacts]) -> tuple[Remark, ...]:
    return remarks_on({host: Reading(facts=facts) for host, facts in hosts.items()}, fabric_of(hosts))


@pytest.mark.parametrize("count", [4, 5, 8, 16])
def test_a_ring_keeps_rdma(count: int) -> None:
    hosts = facts_of(*circle(count))
    fabric = fabric_of(hosts)
    assert fabric.kind == "ring"
    assert fabric.order == tuple(hosts)
    assert str(fabric.cables[0]) == "spark-1 p0 - spark-2 p1  10.0.0.0/24, 10.1.0.0/24"
    assert len(fabric.cables) == count
    found = settings_of(fabric, "spark-2")
    assert found["NCCL_NET"] == "IB"
    assert found["NCCL_IB_HCA"] == "=rocep1s0f0,rocep1s0f1,roceP2p1s0f0,roceP2p1s0f1"
    ring_only = ("NCCL_ALGO", "NCCL_IB_SUBNET_AWARE_ROUTING", "NCCL_IB_MERGE_NICS")
    assert [found[name] for name in ring_only] == ["Ring", "1", "1"]
    assert found["NCCL_SOCKET_IFNAME"] == "=enP7s7"
    assert "NCCL_IB_SUBNET_PREFIX_LEN" not in found
    [note] = remarks(hosts)
    assert note.level == "note"
    assert "a ring: no way between spark-1 and spark-3" in note.text


def test_a_patched_library_wants_ports_that_are_not_merged() -> None:
    fabric = fabric_of(facts_of(*circle(4)))
    found = settings_of(fabric, "spark-1", patched=True)
    assert (found["NCCL_IB_MERGE_NICS"], found["NCCL_SKIP_TREE_CONNECT"], found["NCCL_CROSS_NIC"]) == ("0", "1", "1")
    assert found["NCCL_NET"] == "IB"
    pair = fabric_of(facts_of(*switched(2)))
    assert settings_of(pair, "spark-1", patched=True) == settings_of(pair, "spark-1")


def test_small_networks_are_told_apart() -> None:
    fabric = fabric_of(facts_of(*circle(4, length=30)))
    assert fabric.kind == "ring"
    assert settings_of(fabric, "spark-1")["NCCL_IB_SUBNET_PREFIX_LEN"] == "30"


def test_the_order_of_the_nodes_must_follow_the_cables() -> None:
    one, two, three, four = circle(4)
    hosts = facts_of(one, three, two, four)
    assert fabric_of(hosts).order == ("spark-1", "spark-2", "spark-3", "spark-4")
    error = remarks(hosts)[0]
    assert (error.level, error.hint) == ("error", "name them so: --nodes spark-1,spark-2,spark-3,spark-4")
    for way in ((four, three, two, one), (two, three, four, one)):
        assert [remark.level for remark in remarks(facts_of(*way))] == ["note"]


def test_which_orders_follow_a_ring() -> None:
    order = ("a", "b", "c", "d")
    good = {way for way in permutations(order) if follows(way, order)}
    assert good == {
        *(order[at:] + order[:at] for at in range(4)),
        *(order[::-1][at:] + order[::-1][:at] for at in range(4)),
    }


@pytest.mark.parametrize(
    ("plugged", "kind", "lacking"),
    [
        ("ab bc cd", "gaps", ["spark-1 p0 - spark-4 p0"]),
        ("ab cd", "gaps", ["spark-2 p0 - spark-3 p0", "spark-4 p0 - spark-1 p0"]),
        ("ab bc cd da", "ring", []),
        ("ab bc ca", "gaps", []),
    ],
)
def test_a_half_cabled_ring_says_which_cables_it_lacks(plugged: str, kind: str, lacking: list[str]) -> None:
    """Ports that are free are named; a ring that leaves a node out has no cable to add."""
    hosts = facts_of(*_wired(plugged))
    assert fabric_of(hosts).kind == kind
    found = [remark for remark in remarks(hosts) if "no RoCE between" in remark.text]
    if kind == "ring":
        assert found == []
        return
    [warning] = found
    assert "NCCL uses the slow network for all (some 2 GB/s where RoCE moved 9.8)" in warning.text
    assert settings_of(fabric_of(hosts), "spark-1")["NCCL_NET"] == "Socket"
    for one in lacking:
        assert one in str(warning.hint) or _turned(one) in str(warning.hint), warning.hint
    assert ("a switch joins them all" in str(warning.hint)) == (not lacking)


def _turned(cable: str) -> str:
    one, _, other = cable.partition(" - ")
    return f"{other} - {one}"


def _wired(plugged: str) -> list[Spark]:
    """Four Sparks with cables between some of them: the first cable of each is at port 1, the second at port 0."""
    cables: dict[str, dict[str, tuple[str, str]]] = {name: {} for name in "abcd"}
    for number, pair in enumerate(plugged.split()):
        for end, name in enumerate(pair, 1):
            port = "p0" if "p1" in cables[name] else "p1"
            cables[name][port] = (f"10.0.{number}.{end}/24", f"10.1.{number}.{end}/24")
    return [Spark(number=at, cables=own) for at, own in enumerate(cables.values(), 1)]


def test_a_triangle_that_lacks_a_cable_says_which() -> None:
    one, two, three = ring()
    hosts = facts_of(
        replace(one, cables={"p0": one.cables["p0"]}), two, replace(three, cables={"p1": three.cables["p1"]})
    )
    [warning] = remarks(hosts)
    assert "no RoCE between spark-1 and spark-3" in warning.text
    assert "for a triangle plug: spark-1 p1 - spark-3 p0" in str(warning.hint)


def test_two_switches() -> None:
    sparks = [
        replace(spark, cables={**spark.cables, "p0": (f"10.2.0.{spark.number}/24", f"10.2.1.{spark.number}/24")})
        for spark in switched(4)
    ]
    fabric = fabric_of(facts_of(*sparks))
    assert fabric.kind == "switches"
    found = settings_of(fabric, "spark-3")
    assert found["NCCL_IB_HCA"] == "=rocep1s0f0,rocep1s0f1,roceP2p1s0f0,roceP2p1s0f1"
    assert (found["NCCL_NET"], found["NCCL_IB_MERGE_NICS"]) == ("IB", "1")
    assert remarks(facts_of(*sparks)) == ()


def test_what_is_no_ring() -> None:
    def cable(one: str, other: str) -> Cable:
        return Cable(ends=((one, "p0"), (other, "p1")))

    triangle = [cable("a", "b"), cable("b", "c"), cable("c", "a")]
    assert ring_order("abc", triangle) == ()
    assert ring_order("abcd", triangle) == ()
    two = [*triangle, cable("d", "e"), cable("e", "f"), cable("f", "d")]
    assert ring_order("abcdef", two) == ()
    star = [cable("a", "b"), cable("a", "c"), cable("a", "d")]
    assert ring_order("abcd", star) == ()
    assert missing_cables("abcd", star, {}) == ()
    full = [cable("a", "b"), Cable(ends=(("c", "p0"), ("a", "p1")))]
    assert missing_cables("abc", full, {"b": ("p1",)}) == ()


def test_cables_in_swapped_ports_are_seen_by_the_adapters_that_answer() -> None:
    """The second of four has its two cables in each other's ports; the addresses are those of the ports, as before."""
    one, two, three, four = circle(4)
    macs = {name: dev.mac for name, dev in facts_of(two)["spark-2"].netdevs.items()}
    of_one = ("enp1s0f0np0", "10.0.0.2", str(macs["enp1s0f0np0"]))
    of_three = ("enp1s0f1np1", "10.0.1.1", str(macs["enp1s0f1np1"]))
    hosts = facts_of(replace(one, neighbors=[of_one]), two, replace(three, neighbors=[of_three]), four)
    assert fabric_of(hosts).kind == "ring", "as the addresses show it"
    [warning] = [remark for remark in remarks(hosts) if remark.level == "warning"]
    assert "spark-1 p0 leads to spark-2 p0, not p1; spark-3 p1 leads to spark-2 p1, not p0" in warning.text


@pytest.mark.parametrize(
    ("interface", "address", "mac"),
    [
        ("enp1s0f0np0", "10.0.0.2", "4c:bb:47:00:02:02"),  # the port that has the address
        ("enp1s0f0np0", "10.0.0.2", "4c:bb:47:00:09:00"),  # of no node that was read
        ("enp1s0f0np0", "10.0.0.99", "4c:bb:47:00:02:00"),  # of nobody's address
        ("enP7s7", "192.168.1.2", "4c:bb:47:00:02:09"),
        ("enp1s0f0np0", "no address", "4c:bb:47:00:02:00"),
        ("enp1s0f0np0", "10.0.0.2", "nothing"),
    ],
)
def test_an_answer_that_is_no_proof_says_nothing(interface: str, address: str, mac: str) -> None:
    one, *others = circle(4)
    found = remarks(facts_of(replace(one, neighbors=[(interface, address, mac)]), *others))
    assert [remark.level for remark in found] == ["note"]


def test_ports_that_hear_two_others_are_at_a_switch() -> None:
    """Two nodes, both ports of each in one network of a switch: either port answers for an address of the other's."""
    one, two, three, four = circle(4)
    macs = {name: str(dev.mac) for name, dev in facts_of(two)["spark-2"].netdevs.items()}
    heard = [("enp1s0f0np0", "10.0.0.2", macs[name]) for name in ("enp1s0f0np0", "enp1s0f1np1")]
    assert [remark.level for remark in remarks(facts_of(replace(one, neighbors=heard), two, three, four))] == ["note"]


def test_a_port_with_a_link_and_no_address_is_not_to_be_plugged() -> None:
    one, two, three, four = circle(4)
    hosts = facts_of(one, two, replace(three, cables={**three.cables, "p1": ("", "")}), four)
    [warning] = [remark for remark in remarks(hosts) if "plug" in str(remark.hint) or "cable is in" in str(remark.hint)]
    assert "if a cable is in spark-3 p1 - spark-2 p0, give its ends one network: they have no address" in str(
        warning.hint
    )


def test_a_wrong_address_at_a_cable_is_no_missing_cable() -> None:
    one, two, three, four = circle(4)
    wrong = replace(three, cables={**three.cables, "p1": ("10.0.99.2/24", "10.1.99.2/24")})
    [warning] = remarks(facts_of(one, two, wrong, four))
    assert "if a cable is in spark-3 p1 - spark-2 p0, give its ends one network" in str(warning.hint)
    assert "10.0.99.2/24, 10.1.99.2/24 (spark-3) and 10.0.1.1/24, 10.1.1.1/24 (spark-2)" in str(warning.hint)
    assert "plug" not in str(warning.hint)


def test_many_pairs_are_counted() -> None:
    [note] = remarks(facts_of(*circle(16)))
    assert "spark-1 and spark-5, 101 more pairs. NCCL's" in note.text


def test_a_missing_cable_is_no_missing_address() -> None:
    one, two, three, four = circle(4)
    open_ring = (
        replace(one, cables={"p0": one.cables["p0"]}),
        two,
        three,
        replace(four, cables={"p1": four.cables["p1"]}),
    )
    fabric = fabric_of(facts_of(*open_ring))
    assert (fabric.kind, [*pair_remarks(fabric)]) == ("gaps", [])
    half = replace(two, cables={**two.cables, "p0": (two.cables["p0"][0], "")})
    [uneven] = pair_remarks(fabric_of(facts_of(one, half, three, four)))
    assert "different numbers of RDMA devices: spark-1 4, spark-2 3, spark-4 4, spark-3 3" in uneven.text
