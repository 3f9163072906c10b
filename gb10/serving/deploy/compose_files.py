"""A compose file for each node: compose knows one machine. Pure."""

from typing import Final

from gb10.containers.container_options import ContainerOptions
from gb10.serving.deploy.deployment import HUB_FILE, HUB_PLACE, NO_FILE, Deployment, File
from gb10.serving.deploy.text import compose_value, yaml_text
from gb10.serving.run.service import Rank

HUB_SOURCE: Final = "hf-token"
GPUS: Final = {"driver": "nvidia", "count": "all", "capabilities": ["gpu"]}
"""Without it a container sees the GPU only where NVIDIA's runtime is Docker's default, as on DGX OS."""
HEALTHY: Final = (
    "exec 3<>/dev/tcp/127.0.0.1/{port} && printf 'GET /health HTTP/1.0\\r\\n\\r\\n' >&3"
    ' && read -r _ code _ <&3 && [ "$code" = 200 ]'
)
"""For bash, which the first process needs anyway: not every image has curl."""


def compose_files(deployment: Deployment) -> tuple[File, ...]:
    """The files, the head's first."""
    return tuple(
        File(
            name=f"{options.name}.compose.yaml",
            host=rank.node.host,
            text=yaml_text(_document(deployment, rank, options), head=_head(deployment, rank, options)),
        )
        for rank, options in deployment.ranks
    )


def _head(deployment: Deployment, rank: Rank, options: ContainerOptions) -> tuple[str, ...]:
    file = f"{options.name}.compose.yaml"
    return (
        deployment.title(rank),
        f"Made by gb10. On that node: docker compose --file {file} up --detach",
        f"The token of a gated model: {HUB_FILE}=$HOME/.cache/huggingface/token docker compose …",
    )


def _document(deployment: Deployment, rank: Rank, options: ContainerOptions) -> dict[str, object]:
    service = _service(options)
    if rank.number == 0:
        test = ["CMD", "bash", "-c", HEALTHY.format(port=deployment.service.port)]
        waits = {"start_period": "2h", "interval": "10s", "timeout": "10s"}  # loading may take two hours, as in `run`
        service["healthcheck"] = compose_value({"test": test, **waits})
    return {
        "name": options.name.lower().replace(".", "-"),
        "services": {"server": service},
        "volumes": {one.source: {"name": one.source} for one in options.named_volumes},
        "secrets": {HUB_SOURCE: {"file": f"${{{HUB_FILE}:-{NO_FILE}}}"}},
    }


def _service(options: ContainerOptions) -> dict[str, object]:
    """The service in compose's words; nothing in it is a variable."""
    limit = {"mem_limit": options.memory, "memswap_limit": options.memory} if options.memory else {}
    host = options.host
    limits = {
        name: soft if soft == hard else {"soft": soft, "hard": hard} for name, (soft, hard) in options.ulimits.items()
    }
    binds = [
        {"type": "bind", "source": one.source, "target": one.target, "read_only": one.read_only}
        for one in options.binds
    ]
    return compose_value(
        {
            "container_name": options.name,
            "image": options.image,
            "pull_policy": options.pull,
            **({"platform": options.platform} if options.platform else {}),
            **({"deploy": {"resources": {"reservations": {"devices": [GPUS]}}}} if options.gpus else {}),
            "ipc": host.ipc,
            **({"shm_size": host.own_shared_memory} if host.own_shared_memory else {}),
            "network_mode": "host",
            **limit,
            "oom_score_adj": options.oom_score_adj,
            **({"ulimits": limits} if limits else {}),
            **({"privileged": True} if host.privileged else {}),
            **({"user": host.user} if host.user else {}),
            **({"cpuset": host.cpuset} if host.cpuset else {}),
            **({"hostname": host.hostname} if host.hostname else {}),
            **({"cap_add": list(host.cap_add)} if host.cap_add else {}),
            **({"security_opt": list(host.security_opt)} if host.security_opt else {}),
            **(
                {"extra_hosts": [f"{name}={address}" for name, address in host.extra_hosts.items()]}
                if host.extra_hosts
                else {}
            ),
            **({"devices": list(options.all_devices)} if options.all_devices else {}),
            "restart": "unless-stopped" if options.restart else "no",
            "volumes": [
                *(f"{one.source}:{one.target}{':ro' * one.read_only}" for one in options.named_volumes),
                *({**one, "bind": {"create_host_path": False}} for one in binds),
            ],
            "secrets": [{"source": HUB_SOURCE, "target": HUB_PLACE}],
            **({"environment": dict(options.environment)} if options.environment else {}),
            "labels": dict(options.all_labels),
            "entrypoint": list(options.command),
        }
    )
