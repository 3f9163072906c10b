"""A launch by Ray: the head starts Ray, waits for the other nodes and serves; these join, and nothing else. Pure."""

import json
import shlex
from collections.abc import Sequence
from typing import Final

from gb10.models.render.rendered import RankCommand

PORT: Final = 46379
STORE: Final = 1 << 30
"""Bytes of Ray's object store. By default it takes a third of the memory, which the GPU needs."""
NO_MONITOR: Final = "export RAY_memory_monitor_refresh_ms=0"
"""Ray would end programs at 95 % of the memory, most of which is the GPU's; gb10's guard looks after it."""
MISSING: Final = (
    'command -v ray >/dev/null || { echo "gb10: ray: command not found in this image, and the recipe runs by Ray: '
    'write runtime: vllm, without --distributed-executor-backend ray" >&2; exit 127; }'
)
OWN: Final = (
    "VLLM_HOST_IP",
    "SGLANG_HOST_IP",
    "GLOO_SOCKET_IFNAME",
    "TP_SOCKET_IFNAME",
    "MN_IF_NAME",
    "UCX_NET_DEVICES",
    "OMPI_MCA_btl_tcp_if_include",
    "NCCL_SOCKET_IFNAME",
    "NCCL_IB_HCA",
)
"""Variables with another value on each node: vLLM would copy the head's to the others."""
KEPT: Final = "/tmp/gb10-vllm"  # noqa: S108 - a folder inside the container
WAIT: Final = """\
import sys, time, ray
ray.init(address=sys.argv[1], logging_level="error")
while sum(node["Alive"] for node in ray.nodes()) < int(sys.argv[2]):
    time.sleep(1)
"""
"""Only then vLLM counts GPUs."""


def ray_ranks(serve: str, hosts: Sequence[str], port: int) -> tuple[RankCommand, ...]:
    """What each node runs; Ray's head listens at ``port``."""
    start = "\n".join(_head(hosts, port))
    joins = ((host, "\n".join(_worker(hosts[0], host, port))) for host in hosts[1:])
    head = RankCommand(host=hosts[0], command=f"{start}\n{serve}", line=serve, before=start)
    return (head, *(RankCommand(host=host, command=text, before=text) for host, text in joins))


def _head(hosts: Sequence[str], port: int) -> list[str]:
    start = _start(hosts[0], f"--head --port {port} --include-dashboard=false")
    return [
        MISSING,
        NO_MONITOR,
        f"export VLLM_CONFIG_ROOT={KEPT}",
        f"mkdir -p {KEPT} && printf %s {shlex.quote(json.dumps(OWN))} >{KEPT}/ray_non_carry_over_env_vars.json",
        f"{start} || exit",
        f"python3 -c {shlex.quote(WAIT)} {hosts[0]}:{port} {len(hosts)} || exit",
    ]


def _worker(head: str, host: str, port: int) -> list[str]:
    listens = f"until (: </dev/tcp/{head}/{port}) 2>/dev/null; do sleep 1; done"
    return [MISSING, NO_MONITOR, listens, "exec " + _start(host, f"--block --address {head}:{port}")]


def _start(host: str, more: str) -> str:
    return f"ray start {more} --node-ip-address {host} --num-cpus 2 --object-store-memory {STORE} --disable-usage-stats"
