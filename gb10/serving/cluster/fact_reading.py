"""The answer of ``probe.sh`` becomes facts. It comes from another machine: a line that is not as it must be is no fact.

Pure.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from ipaddress import IPv4Interface, IPv6Address
from typing import Final, TypeVar

from gb10.serving.cluster.node_facts import Disk, Gid, Hca, Memory, Neighbor, Netdev, NodeFacts, Pcie

T = TypeVar("T")
Row = Sequence[str]
Rows = Mapping[str, Sequence[Row]]
NONE: Final = "-"
MOST: Final = 4096
"""Lines of one key."""
LONGEST: Final = 300
"""Characters of a field."""
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@+/=-]{0,127}")


def rows_of(text: str) -> Rows:
    """The fields of each line, by its key; a line that is too long, or cannot be printed, is left out."""
    found: dict[str, list[Row]] = defaultdict(list)
    for line in text.split("\n"):
        key, *fields = line.split("\t")
        if fields and len(found[key]) < MOST and all(len(one) <= LONGEST and one.isprintable() for one in fields):
            found[key].append(fields)
    return found


def each(rows: Rows, key: str, fields: int, read: Callable[[Row], T | None]) -> tuple[T, ...]:
    """What ``read`` makes of each line of a key that has so many fields; a line that it refuses is left out."""
    values = (read(row) for row in rows.get(key, ()) if len(row) == fields)
    return tuple(value for value in values if value is not None)


def one(rows: Rows, key: str, read: Callable[[str], T | None]) -> T | None:
    """The first line of a key with one field."""
    found = each(rows, key, 1, lambda row: read(row[0]))
    return found[0] if found else None


def name_in(text: str) -> str | None:
    """A name of a device, a kernel, a word."""
    return text if NAME.fullmatch(text) else None


def count_in(text: str) -> int | None:
    """A number without a sign."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else None


VERSION: Final = "1"
DRIVER: Final = re.compile(r"\b(\d{3}\.\d{1,4}(?:\.\d{1,4})?)\b")
GPU: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._/()-]{0,80}")
RATE: Final = re.compile(r"\d{1,5}(?:\.\d)? Gb/sec(?: \([A-Za-z0-9 ]{1,20}\))?")
SPEED: Final = re.compile(r"(\d{1,3}(?:\.\d)?) GT/s\b")
MAC: Final = re.compile(r"[0-9a-f]{2}(?::[0-9a-f]{2}){5}")
KINDS: Final = ("RoCE v2", "RoCE v1", "IB/RoCE v1")


def read_facts(text: str) -> NodeFacts | None:
    """The facts of an answer; None when it is not whole, or not one of this script."""
    rows = rows_of(text)
    if not rows.get("end") or one(rows, "probe", name_in) != VERSION:
        return None
    return NodeFacts(
        kernel=one(rows, "kernel", name_in),
        machine=one(rows, "machine", name_in),
        clock=one(rows, "clock", _clock),
        memlock=one(rows, "memlock", lambda text: -1 if text == "unlimited" else count_in(text)),
        driver=one(rows, "driver", lambda text: found[1] if (found := DRIVER.search(text)) else None),
        gpus=each(rows, "gpu", 1, lambda row: row[0] if GPU.fullmatch(row[0]) else None),
        memory=_memory(rows),
        options=_names(rows, "option"),
        disks=each(rows, "disk", 3, _disk),
        services=frozenset(_names(rows, "service")),
        rdma_devices=_names(rows, "rdma"),
        netdevs={netdev.name: netdev for netdev in each(rows, "net", 10, lambda row: _netdev(row, rows))},
        pcie={link.pci: link for link in each(rows, "pcie", 6, _pcie)},
        hcas=each(rows, "hca", 7, lambda row: _hca(row, rows)),
        neighbors=each(rows, "neighbor", 3, _neighbor),
    )


def _names(rows: Rows, key: str) -> tuple[str, ...]:
    return each(rows, key, 1, lambda row: name_in(row[0]))


def _clock(text: str) -> float | None:
    return float(text) if re.fullmatch(r"\d{9,11}(?:\.\d{1,9})?", text) else None


def _address(text: str) -> IPv4Interface | None:
    try:
        return IPv4Interface(text)
    except ValueError:
        return None


def _memory(rows: Rows) -> Memory:
    amounts = {row[0]: count_in(row[1]) for row in rows.get("memory", ()) if len(row) == 2}
    names = {
        "total": "MemTotal",
        "available": "MemAvailable",
        "swap": "SwapTotal",
        "cma": "CmaTotal",
        "cma_free": "CmaFree",
    }
    return Memory(**{key: kib << 10 for key, name in names.items() if (kib := amounts.get(name)) is not None})


def _disk(row: Row) -> Disk | None:
    total, free = count_in(row[1]), count_in(row[2])
    return Disk(folder=row[0], total=total << 10, free=free << 10) if total is not None and free is not None else None


def _netdev(row: Row, rows: Rows) -> Netdev | None:
    name, mtu, carrier, speed, mac, port, pci, driver, master, virtual = row
    if name_in(name) is None:
        return None
    return Netdev(
        name=name,
        mtu=count_in(mtu),
        carrier={"1": True, "0": False}.get(carrier),
        speed=count_in(speed),
        mac=mac if MAC.fullmatch(mac) else None,
        port=name_in(port),
        pci=name_in(pci),
        driver=name_in(driver),
        master=name_in(master),
        virtual=virtual != NONE,
        addresses=_addresses(name, rows),
    )


def _addresses(netdev: str, rows: Rows) -> tuple[IPv4Interface, ...]:
    """Its IPv4 addresses, but not those that lead to the machine itself."""
    texts = (row[2] for row in rows.get("address", ()) if len(row) == 3 and row[:2] == [netdev, "inet"])
    found = (_address(text) for text in texts)
    return tuple(one for one in found if one is not None and not one.is_loopback)


def _neighbor(row: Row) -> Neighbor | None:
    name, address, mac = row
    found = _address(address)
    known = name_in(name) is not None and MAC.fullmatch(mac) is not None and found is not None
    return Neighbor(netdev=name, address=found.ip, mac=mac) if known and found else None


def _pcie(row: Row) -> Pcie | None:
    pci, speed, width, max_speed, max_width, _ = row
    if name_in(pci) is None:
        return None
    return Pcie(
        pci=pci,
        speed=_transfers(speed),
        width=count_in(width),
        max_speed=_transfers(max_speed),
        max_width=count_in(max_width),
    )


def _transfers(text: str) -> float | None:
    found = SPEED.match(text)
    return float(found[1]) if found else None


def _hca(row: Row, rows: Rows) -> Hca | None:
    name, port, state, rate, layer, pci, netdevs = row
    number = count_in(port)
    if name_in(name) is None or number is None:
        return None
    gids = [one for one in rows.get("gid", ()) if len(one) == 6 and list(one[:2]) == [name, port]]
    return Hca(
        name=name,
        port=number,
        active=None if state == NONE else state == "4: ACTIVE",
        rate=rate if RATE.fullmatch(rate) else None,
        ethernet={"Ethernet": True, "InfiniBand": False}.get(layer),
        pci=name_in(pci),
        netdevs=tuple(one for one in netdevs.split(",") if one != NONE and name_in(one)),
        gids=tuple(gid for one in gids if (gid := _gid(one))),
    )


def _gid(row: Row) -> Gid | None:
    index = count_in(row[2])
    try:
        address = IPv6Address(row[3])
    except ValueError:
        return None
    kind = row[4] if row[4] in KINDS else None
    return None if index is None else Gid(index=index, address=address, kind=kind, netdev=name_in(row[5]))
