"""Sparks as folders: what the probe says of them, what joins them, what NCCL must know, and what is wrong with them."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from gb10.errors import UsageError
from gb10.models.render.rendering import OWN
from gb10.serving.cluster.adapters import adapter_remarks, pair_remarks, ports_of, remarks_on
from gb10.serving.cluster.cluster_file import cluster_text, read_cluster
from gb10.serving.cluster.fabric import fabric_of, rails_of, settings_of
from gb10.serving.cluster.fact_reading import read_facts
from gb10.serving.cluster.node_facts import Disk, Memory, NodeFacts, Reading
from tests.cluster_trees import Spark, facts_of, pair, probed, ring, said, switched, write_spark

Facts = dict[str, NodeFacts]


def remarks(hosts: Facts) -> list[str]:
    """Levels and texts of all that is said of the machines."""
    fabric = fabric_of(hosts)
    found = [*remarks_on({host: Reading(facts=facts) for host, facts in hosts.items()}, fabric), *pair_remarks(fabric)]
    found += [remark for host, facts in hosts.items() for remark in adapter_remarks(host, facts)]
    return [f"{remark.level}: {remark.text}" for remark in found]


def settings(hosts: Facts) -> dict[str, dict[str, str]]:
    fabric = fabric_of(hosts)
    return {host: settings_of(fabric, host) for host in hosts}


@pytest.fixture(scope="module")
def pair_of() -> Facts:
    return facts_of(*pair())


def test_the_probe_reads_a_spark(pair_of: Facts) -> None:
    facts = pair_of["spark-1"]
    assert (facts.kernel, facts.machine, facts.driver) == ("6.14.0-1013-nvidia", "aarch64", "580.95.05")
    assert (facts.gpus, facts.options) == (("NVIDIA GB10",), ("iommu.passthrough=1",))
    assert (facts.memory.total, facts.memory.available, facts.memory.swap) == (127600000 << 10, 110000000 << 10, 0)
    assert (facts.memory.cma, facts.memory.cma_free) == (131072 << 10, 90000 << 10)
    assert facts.clock == pytest.approx(1795558766.65)
    assert facts.rdma_devices == ("rdma_cm", "uverbs0")
    first, second = ports_of(facts)["p0"]
    assert (first.netdev.name, second.netdev.name) == ("enp1s0f0np0", "enP2p1s0f0np0")
    assert first.netdev.mtu == 9000
    assert first.netdev.speed == 200_000
    assert first.hca and first.hca.name == "rocep1s0f0" and first.hca.rate == "200 Gb/sec (4X HDR)"
    assert first.pcie and (first.pcie.speed, first.pcie.width) == (32.0, 4)
    assert [rail.gid and rail.gid.index for rail in (*first.rails, *second.rails)] == [3, 3]
    assert not any(half.rails for half in ports_of(facts)["p1"])


SHELLS = [shell for shell in ("sh", "dash", "bash", "busybox") if shutil.which(shell)]


@pytest.mark.parametrize(
    ("shell", "spark"),
    [
        *((shell, pair()[0]) for shell in SHELLS),
        ("sh", replace(ring()[0], virtual="10.9.0.1/24", gid_shift=2, down=frozenset({"enP2p1s0f1np1"}))),
        ("sh", replace(pair()[0], neighbors=[("enp1s0f0np0", "10.0.0.2", "4c:bb:47:00:02:00")])),
        ("sh", Spark(number=3, driver=None, rdma=False, lan=None, lanes={"0000:01:00.1": 2}, machine="x86_64")),
    ],
)
def test_the_script_says_of_a_folder_what_the_other_tests_read(tmp_path: Path, shell: str, spark: Spark) -> None:
    root = write_spark(tmp_path / "spark", spark)
    heard = probed(root, *(["busybox", "sh"] if shell == "busybox" else [shell])).splitlines()
    heard = ["memlock\tunlimited" if line.startswith("memlock") else line for line in heard]
    heard = [line for line in heard if not line.startswith("service")]
    assert sorted(heard) == sorted(said(spark).splitlines())


def test_two_sparks_and_a_cable(pair_of: Facts) -> None:
    assert fabric_of(pair_of).kind == "pair"
    found = settings(pair_of)
    assert found["spark-1"] == {
        "VLLM_HOST_IP": "10.0.0.1",
        "SGLANG_HOST_IP": "10.0.0.1",
        "NCCL_SOCKET_IFNAME": "=enp1s0f0np0",
        "GLOO_SOCKET_IFNAME": "enp1s0f0np0",
        "TP_SOCKET_IFNAME": "enp1s0f0np0",
        "MN_IF_NAME": "enp1s0f0np0",
        "UCX_NET_DEVICES": "enp1s0f0np0",
        "OMPI_MCA_btl_tcp_if_include": "enp1s0f0np0",
        "NCCL_NET": "IB",
        "NCCL_IB_DISABLE": "0",
        "NCCL_IB_HCA": "=rocep1s0f0,roceP2p1s0f0",
        "NCCL_IB_MERGE_NICS": "1",
    }
    assert found["spark-2"] == {**found["spark-1"], "VLLM_HOST_IP": "10.0.0.2", "SGLANG_HOST_IP": "10.0.0.2"}
    assert remarks(pair_of) == []


def test_other_ports_on_each_host_and_a_gid_that_moved() -> None:
    one, two = pair()
    hosts = facts_of(one, replace(two, cables={"p1": two.cables["p0"]}, gid_shift=1))
    found = settings(hosts)
    assert found["spark-1"]["NCCL_IB_HCA"] == "=rocep1s0f0,roceP2p1s0f0"
    assert found["spark-2"]["NCCL_IB_HCA"] == "=rocep1s0f1,roceP2p1s0f1"
    assert found["spark-2"]["GLOO_SOCKET_IFNAME"] == "enp1s0f1np1"
    assert [rail.gid and rail.gid.index for rail in fabric_of(hosts).rails["spark-2"]] == [4, 4]
    assert not {"NCCL_IB_GID_INDEX"} & set(found["spark-2"])
    assert {name for name in found["spark-1"] if found["spark-1"][name] != found["spark-2"][name]} <= set(OWN)


def test_a_ring_of_three_meets_on_the_ordinary_network() -> None:
    hosts = facts_of(*ring())
    assert fabric_of(hosts).kind == "mesh"
    for number, found in enumerate(settings(hosts).values(), 1):
        assert found["NCCL_IB_HCA"] == "=rocep1s0f0,rocep1s0f1,roceP2p1s0f0,roceP2p1s0f1"
        assert (found["NCCL_SOCKET_IFNAME"], found["VLLM_HOST_IP"]) == ("=enP7s7", f"192.168.1.{number}")
        mesh = ("NCCL_NET_PLUGIN", "NCCL_IB_SUBNET_AWARE_ROUTING", "NCCL_IB_MERGE_NICS")
        assert [found[name] for name in mesh] == ["none", "1", "0"]
    assert remarks(hosts) == []


@pytest.mark.parametrize("count", [4, 6, 8])
def test_sparks_at_a_switch(count: int) -> None:
    hosts = facts_of(*switched(count))
    assert fabric_of(hosts).kind == "switch"
    found = settings(hosts)
    assert found[f"spark-{count}"]["NCCL_IB_HCA"] == "=rocep1s0f1,roceP2p1s0f1"
    assert [one["VLLM_HOST_IP"] for one in found.values()] == [f"10.0.0.{at}" for at in range(1, count + 1)]
    assert remarks(hosts) == []


def test_link_local_addresses_join_a_pair_and_not_two_cables() -> None:
    one, two = (Spark(number=at, cables={"p0": (f"169.254.7.{at}/16", "")}) for at in (1, 2))
    assert fabric_of(facts_of(one, two)).kind == "pair"
    both = [replace(spark, cables={**spark.cables, "p1": (f"169.254.8.{spark.number}/16", "")}) for spark in (one, two)]
    assert fabric_of(facts_of(*both)).kind == "lan"


def test_without_roce_the_ordinary_network_is_named() -> None:
    hosts = facts_of(Spark(number=1), Spark(number=2))
    found = settings(hosts)["spark-2"]
    assert (found["NCCL_NET"], found["GLOO_SOCKET_IFNAME"], found["VLLM_HOST_IP"]) == (
        "Socket",
        "enP7s7",
        "192.168.1.2",
    )
    assert remarks(hosts) == []
    assert settings(facts_of(Spark(number=3, lan=None), Spark(number=4, lan=None))) == {
        "spark-3": {},
        "spark-4": {},
    }


WRONG: tuple[tuple[dict[str, object], str], ...] = (
    (
        {"cables": {"p0": ("10.0.0.2/24", "")}},
        "warning: spark-2: enP2p1s0f0np0 has a link and no IPv4 address, so half",
    ),
    ({"cables": {"p0": ("", "")}}, "warning: the ConnectX ports of spark-1, spark-2 are up and join no nodes"),
    ({"mtu": 1500}, "warning: spark-2: enp1s0f0np0 has MTU 1500; 9000 is some 20 % faster"),
    ({"mtu": 1500}, "warning: the interfaces of 10.0.0.0/24 have different MTUs: spark-1 enp1s0f0np0 9000, spark-2"),
    ({"lanes": {"0002:01:00.0": 2}}, "warning: spark-2: enP2p1s0f0np0 has 2 PCIe lanes of 4"),
    ({"down": frozenset({"enP2p1s0f0np0"})}, "warning: spark-2: half of the port p0 is down: enP2p1s0f0np0"),
    ({"driver": "570.1.2"}, "error: the nodes have different NVIDIA drivers: spark-1 580.95.05, spark-2 570.1.2"),
    ({"driver": None}, "error: the nodes have different NVIDIA drivers: spark-1 580.95.05, spark-2 none found"),
    ({"machine": "x86_64"}, "error: the nodes have different processors: spark-1 aarch64, spark-2 x86_64"),
    ({"cables": {}, "lan": None}, "error: no network joins all nodes"),
    ({"rdma": False}, "warning: spark-2: /dev/infiniband has no device, so containers cannot use RoCE"),
    ({"virtual": ""}, "note: spark-2: virtual functions without an IPv4 address have no RoCE v2 GID: enp1s0f0v0"),
)


@pytest.mark.parametrize(("change", "words"), WRONG, ids=[words[:60] for _, words in WRONG])
def test_what_is_wrong_is_said(change: dict[str, object], words: str) -> None:
    one, two = pair()
    hosts = facts_of(one, replace(two, **change))  # type: ignore[arg-type]
    assert any(remark.startswith(words) for remark in remarks(hosts)), remarks(hosts)


def test_one_machine_by_two_names_is_an_error(pair_of: Facts) -> None:
    hosts = {"spark-1": pair_of["spark-1"], "10.0.0.1": pair_of["spark-1"]}
    assert "error: spark-1 and 10.0.0.1 are one machine" in remarks(hosts)


@pytest.mark.parametrize(("ahead", "said"), [(40.0, "40.0 s ahead of"), (-3.5, "3.5 s behind"), (1.9, ""), (None, "")])
def test_a_clock_is_wrong_by_more_than_the_way_takes(pair_of: Facts, ahead: float | None, said: str) -> None:
    readings = {host: Reading(facts=facts, ahead=ahead, within=0.4) for host, facts in pair_of.items()}
    found = [remark.text for remark in remarks_on(readings, fabric_of(pair_of))]
    assert len(found) == (2 if said else 0)
    assert all(said in text for text in found)


def test_a_node_that_says_less_or_lies_is_unknown_and_never_guessed() -> None:
    whole = "probe\t1\nend\t\n"
    assert read_facts(whole) == NodeFacts()
    for text in ("", "probe\t1\n", "probe\t2\nend\t\n", "\0" * 1000, "end\t\n"):
        assert read_facts(text) is None
    lines = (
        "kernel\t\x1b[31mred",
        "kernel\ta b",
        "clock\tnow",
        "driver\tNVRM 1",
        "memory\tMemTotal\t-1",
        "memory\tMemTotal\t" + "9" * 40,
        "net\teth0\t1",
        "net\t../x\t1\t1\t1\t-\t-\t-\t-\t-\t-",
        "address\teth0\tinet\t10.0.0.300/24",
        "hca\tx\tone\t-\t-\t-\t-\t-",
        "gid\tx\t1\t0\tnonsense\t-\t-",
        "disk\t/\tmany\t1",
        "rdma\t" + "x" * 1000,
    )
    assert read_facts("probe\t1\n" + "\n".join(lines) + "\nend\t\n") == NodeFacts()


def test_the_file_of_a_cluster() -> None:
    made = read_cluster(cluster_text("home", ("me@one", "me@two")), "home.toml")
    assert made.nodes == ("me@one", "me@two")
    text = 'nodes = ["a", "b"]\n[environment]\nX = "1"\n[node.b]\naddress = "10.0.0.2"\nenvironment = {Y = "2"}\n'
    found = read_cluster(text, "home.toml")
    assert found.environment == {"X": "1"}
    assert (found.own("b").address, found.own("b").environment, found.own("a").address) == (
        "10.0.0.2",
        {"Y": "2"},
        None,
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nodes = [", "is not TOML"),
        ("nodes = []", "has 1 mistakes"),
        ('nodes = ["a", "a"]', "listed twice"),
        ('nods = ["a"]', "did you mean"),
        ('nodes = ["a"]\n[node.b]\n', "speaks of 'b', which is none of its nodes"),
        ('nodes = ["a"]\n[node.a]\naddress = "spark"', "is no IPv4 address"),
        ('nodes = ["a"]\n[environment]\n"A B" = "1"', "must match"),
    ],
)
def test_a_wrong_file_says_what_is_wrong(text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_cluster(text, "home.toml")
    assert said in str(caught.value)


def test_a_virtual_function_carries_roce_only_where_no_physical_one_does() -> None:
    spark = replace(pair()[0], virtual="10.9.0.1/24")
    facts = read_facts(said(spark))
    assert facts
    rails = rails_of(facts)
    assert rails
    assert not any(rail.netdev.virtual for rail in rails)


def port_remarks(
    facts: NodeFacts, net: dict[str, object] | None = None, link: dict[str, object] | None = None
) -> list[str]:
    """What is said of a machine whose first interface, or its PCIe link, is another."""
    name = "enp1s0f0np0"
    pci = facts.netdevs[name].pci
    assert pci
    netdevs = {**facts.netdevs, name: replace(facts.netdevs[name], **(net or {}))}  # type: ignore[arg-type]
    pcie = {**facts.pcie, pci: replace(facts.pcie[pci], **(link or {}))}  # type: ignore[arg-type]
    return [remark.text for remark in adapter_remarks("h", replace(facts, netdevs=netdevs, pcie=pcie))]


@pytest.mark.parametrize(
    ("net", "link", "said"),
    [
        ({}, {}, []),
        ({"speed": 200_000}, {}, []),
        ({"speed": 199_999}, {}, ["h: the link of enp1s0f0np0 runs at 199 Gb/s of 200"]),
        ({"speed": None}, {}, []),
        ({"mtu": 8999}, {}, ["h: enp1s0f0np0 has MTU 8999; 9000 is some 20 % faster"]),
        ({"mtu": 9001}, {}, []),
        ({"mtu": None}, {}, []),
        ({}, {"width": 3}, ["h: enp1s0f0np0 has 3 PCIe lanes of 4"]),
        ({}, {"width": None}, []),
        ({}, {"width": 8}, []),
        ({}, {"speed": 16.0}, ["h: the PCIe link of enp1s0f0np0 runs at 16 GT/s of 32"]),
        ({}, {"speed": None}, []),
        ({}, {"speed": 64.0}, []),
    ],
)
def test_a_slow_link_is_told_and_an_unknown_one_is_not(
    pair_of: Facts, net: dict[str, object], link: dict[str, object], said: list[str]
) -> None:
    assert port_remarks(pair_of["spark-1"], net, link) == said


@pytest.mark.parametrize(
    ("ahead", "within", "skew"),
    [(None, 0.0, 0.0), (0.4, 0.4, 0.0), (-0.4, 0.4, 0.0), (0.5, 0.4, 0.5), (-0.5, 0.4, -0.5)],
)
def test_a_clock_is_known_as_exactly_as_it_was_read(ahead: float | None, within: float, skew: float) -> None:
    assert Reading(facts=NodeFacts(), ahead=ahead, within=within).skew == skew


@pytest.mark.parametrize(
    ("line", "field", "value"),
    [
        ("memlock\tunlimited", "memlock", -1),
        ("memlock\t64", "memlock", 64),
        ("memlock\tx", "memlock", None),
        ("disk\t/\t100\t7", "disks", (Disk(folder="/", total=102_400, free=7168),)),
        ("disk\t/\t0\t0", "disks", (Disk(folder="/", total=0, free=0),)),
        ("disk\t/\t100", "disks", ()),
        ("memory\tMemTotal\t2", "memory", Memory(total=2048)),
        ("clock\t1795558766.65", "clock", 1795558766.65),
    ],
)
def test_each_line_of_a_node_is_one_fact(line: str, field: str, value: object) -> None:
    found = read_facts(f"probe\t1\n{line}\nend\t\n")
    assert found is not None
    assert getattr(found, field) == value


def test_two_halves_in_one_network_are_said() -> None:
    sparks = [
        replace(one, cables={"p0": (f"10.0.0.{one.number}/24", f"10.0.0.{one.number + 10}/24")}) for one in pair()
    ]
    found = [text for text in remarks(facts_of(*sparks)) if "in one network" in text]
    names = "enp1s0f0np0, enP2p1s0f0np0 are in one network, 10.0.0.0/24"
    assert found == [f"warning: spark-{at}: {names}: packets may take the wrong one" for at in (1, 2)]
    for good in (pair(), ring(), switched(3)):
        assert not [text for text in remarks(facts_of(*good)) if "in one network" in text]
