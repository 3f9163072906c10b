"""``cluster``: machines as one: are they ready, what joins them, what does NCCL have to know."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Final

import typer
from rich.table import Table

from gb10.cli.common import JsonOption, print_json, reported, verb_app, with_context
from gb10.cli.verb import print_table
from gb10.core.ssh import HERE
from gb10.errors import UsageError
from gb10.image.context import Context
from gb10.serving.cluster.adapters import Half, ports_of
from gb10.serving.cluster.cluster_file import cluster_text
from gb10.serving.cluster.fabric import WORDS, Rail, settings_of
from gb10.serving.cluster.node_facts import NodeFacts, Reading
from gb10.serving.run.service_nodes import MARK, NodeSurvey, cluster_file, find_cluster, parse_nodes, survey_nodes

UNKNOWN: Final = "unknown"
DOCKER: Final = "/var/lib/docker"
GIB: Final = 1 << 30


def print_survey(env: Mapping[str, str], survey: NodeSurvey) -> None:
    """All that is known of some machines, for people."""
    if len(survey.readings) > 1:
        print(f"{len(survey.readings)} nodes: {WORDS[survey.fabric.kind]}\n")
    _print_rows(env, ("node", "processor", "driver", "Docker", "memory free", "disk free", "clock"), _machines(survey))
    halves = [
        (host, port, *_half(half))
        for host, reading in survey.readings.items()
        for port, halves in ports_of(reading.facts).items()
        for half in halves
    ]
    if halves:
        print()
        _print_rows(env, ("node", "port", "interface", "RDMA", "link", "MTU", "address", "GID", "PCIe"), halves)
    if survey.fabric.cables:
        print("\ncables")
        print("\n".join(f"  {cable}" for cable in survey.fabric.cables))
    if survey.fabric.order:
        print(f"\nranks follow the cables\n  --nodes {','.join(survey.fabric.order)}")
    _print_settings(survey)
    for remark in survey.remarks:
        print(f"\n{remark.level}: {remark.text}" + (f"\n  {remark.hint}" if remark.hint else ""))


def _print_rows(env: Mapping[str, str], titles: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    table = Table(box=None, pad_edge=False)
    for title in titles:
        table.add_column(title, no_wrap=True)
    for row in rows:
        table.add_row(*row)
    print_table(env, table, least=200)


def _machines(survey: NodeSurvey) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for host, reading in survey.readings.items():
        facts, view = reading.facts, survey.engines.get(host)
        memory, disk = facts.memory, disk_of(facts)
        rows.append(
            (
                host,
                facts.machine or UNKNOWN,
                facts.driver or UNKNOWN,
                view.version if view else UNKNOWN,
                _share(memory.available, memory.total),
                _share(*disk) if disk else UNKNOWN,
                _clock(reading),
            )
        )
    return rows


def disk_of(facts: NodeFacts) -> tuple[int, int] | None:
    """Free and all bytes of the disk with Docker's images; of the root where Docker keeps them elsewhere."""
    found = {disk.folder: (disk.free, disk.total) for disk in facts.disks}
    return found.get(DOCKER, found.get("/"))


def _share(free: int | None, total: int | None) -> str:
    return f"{free / GIB:,.0f} of {total / GIB:,.0f} GiB" if free is not None and total else UNKNOWN


def _clock(reading: Reading) -> str:
    return UNKNOWN if reading.ahead is None else f"{reading.skew:+.1f} s"


def _half(half: Half) -> tuple[str, ...]:
    netdev, pcie = half.netdev, half.pcie
    link = {True: "up", False: "down", None: UNKNOWN}[netdev.carrier]
    if netdev.carrier and netdev.speed:
        link += f" {netdev.speed // 1000} Gb/s"
    return (
        netdev.name,
        half.hca.name if half.hca else UNKNOWN,
        link,
        str(netdev.mtu or UNKNOWN),
        ", ".join(str(one) for one in netdev.addresses) or "none",
        ", ".join(map(_gid, half.rails)) or "none",
        f"{pcie.speed:g} GT/s x{pcie.width}" if pcie and pcie.speed and pcie.width else UNKNOWN,
    )


def _gid(rail: Rail) -> str:
    return f"{rail.gid.index} {rail.gid.kind}" if rail.gid else "none"


def _print_settings(survey: NodeSurvey) -> None:
    """The variables that are the same everywhere, then what each machine has of its own."""
    found = settings(survey)
    if not any(found.values()):
        return
    common = dict(set.intersection(*(set(one.items()) for one in found.values())))
    print("\nvariables of each container (sources: docs/cluster.md)")
    for name in sorted(common):
        print(f"  {name}={common[name]}")
    for host, own in found.items():
        more = [f"    {name}={value}" for name, value in own.items() if name not in common]
        if more:
            print("\n".join([f"  {host}", *more]))


def settings(survey: NodeSurvey) -> dict[str, dict[str, str]]:
    """The variables of each machine; of one alone there are none."""
    several = len(survey.readings) > 1
    return {host: settings_of(survey.fabric, host) if several else {} for host in survey.readings}


def survey_document(survey: NodeSurvey) -> dict[str, object]:
    """The same as data, schema gb10/cluster/v1; null is unknown."""
    variables = settings(survey)
    return {
        "schema": "gb10/cluster/v1",
        "fabric": survey.fabric.kind,
        "gaps": [list(pair) for pair in survey.fabric.gaps],
        "cables": [
            {"ends": [list(end) for end in cable.ends], "networks": list(cable.networks)}
            for cable in survey.fabric.cables
        ],
        **({"order": list(survey.fabric.order)} if survey.fabric.order else {}),
        "nodes": [
            _node(host, reading, survey, variables[host]) for host, reading in survey.readings.items()
        ],
        "failed": [
            {"host": host, "message": error.message, "where": error.where, "hint": error.hint}
            for host, error in survey.failed.items()
        ],
        "remarks": [
            {"level": remark.level, "text": remark.text, "hint": remark.hint} for remark in survey.remarks
        ],
    }  # fmt: skip


def _node(host: str, reading: Reading, survey: NodeSurvey, variables: Mapping[str, str]) -> dict[str, object]:
    facts, view, disk = reading.facts, survey.engines.get(host), disk_of(reading.facts)
    return {
        "host": host,
        "processor": facts.machine,
        "kernel": facts.kernel,
        "driver": facts.driver,
        "gpus": list(facts.gpus),
        "docker": view.version if view else None,
        "memory": {"total": facts.memory.total, "available": facts.memory.available, "swap": facts.memory.swap},
        "disk": {"free": disk[0], "total": disk[1]} if disk else None,
        "clock_ahead_s": reading.ahead,
        "services": sorted(facts.services),
        "ports": [
            {"port": port, "halves": [_half_document(half) for half in halves]}
            for port, halves in ports_of(facts).items()
        ],
        "variables": dict(variables),
    }


def _half_document(half: Half) -> dict[str, object]:
    netdev, pcie = half.netdev, half.pcie
    return {
        "interface": netdev.name,
        "rdma": half.hca.name if half.hca else None,
        "up": netdev.carrier,
        "speed_mbit_s": netdev.speed,
        "mtu": netdev.mtu,
        "addresses": [str(one) for one in netdev.addresses],
        "gids": [rail.gid.index for rail in half.rails if rail.gid],
        "pcie_gt_s": pcie.speed if pcie else None,
        "pcie_lanes": pcie.width if pcie else None,
    }


app = verb_app(
    """Check machines, and what joins them, for a model on several.

\b
./build.py cluster init home --nodes me@spark-1,me@spark-2   # read them, and write a file with their names
./build.py cluster check home                                # what they are, what joins them, what is wrong
./build.py run deepseek-v4-flash --nodes @home

A small script goes to each machine by ssh. It needs no rights there, and changes nothing.
""",
    group=True,
)
ClusterOption = Annotated[
    str | None, typer.Option("--nodes", metavar="A,B", help="The machines by ssh ([USER@]NAME), the head first.")
]


@app.command()
@with_context
def check(
    *,
    ctx: Context,
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="A cluster. Default: this machine.")] = None,
    nodes: ClusterOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show machines, what joins them, and NCCL's variables.

    \b
    ./build.py cluster check home
    ./build.py cluster check --nodes me@spark-1,me@spark-2

    For each machine: processor, driver, Docker, memory, disk and clock; for each half of its ConnectX ports: link,
    MTU, address and GID. Then the variables that `run` gives each container. What cannot be read is "unknown".
    Exit 12 when the machines cannot serve one model together, 7 when one cannot be reached.
    """
    if name and nodes:
        raise UsageError("name a cluster, or machines", hint="leave NAME or --nodes out")
    cluster = find_cluster(ctx.env, name.removeprefix(MARK)) if name else parse_nodes(ctx.env, nodes)
    survey = _survey(ctx, cluster.nodes if cluster else (HERE,))
    if as_json:
        print_json(survey_document(survey))
    else:
        print_survey(ctx.env, survey)
    with reported(as_json):
        survey.require()


@app.command()
@with_context
def init(
    *,
    ctx: Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the cluster.")],
    nodes: ClusterOption = None,
    replaced: Annotated[bool, typer.Option("--replace", help="Write over the file of this name.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Read machines, and write a file with their names.

    \b
    ./build.py cluster init home --nodes me@spark-1,me@spark-2

    The file is $XDG_CONFIG_HOME/gb10/clusters/NAME.toml. `--nodes @NAME` means its machines. NCCL's variables are
    not in it: they are derived anew at each run, because interfaces and addresses change.
    """
    path, cluster = cluster_file(ctx.env, name), parse_nodes(ctx.env, nodes)
    if cluster is None:
        raise UsageError("name the machines", hint=f"./build.py cluster init {name} --nodes HEAD,WORKER")
    if path.exists() and not replaced:
        raise UsageError(
            f"the cluster {name} exists", where=str(path), hint="edit the file, or write over it: --replace"
        )
    survey = _survey(ctx, cluster.nodes)
    survey.require()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(cluster_text(name, cluster.nodes), encoding="utf-8")
    ctx.reporter.say(f"{len(cluster.nodes)} nodes: {WORDS[survey.fabric.kind]}")
    for remark in survey.remarks:
        ctx.reporter.say(f"{remark.level}: {remark.text}")
    if as_json:
        print_json({"schema": "gb10/cluster-file/v1", "path": str(path), "nodes": list(cluster.nodes)})
    else:
        print(path)


def _survey(ctx: Context, hosts: Sequence[str]) -> NodeSurvey:
    with ctx.reporter.task(f"read {len(hosts)} machine{'s' * (len(hosts) != 1)}"):
        return survey_nodes(ctx, hosts)
