"""A service in Kubernetes: a Deployment on one node, a LeaderWorkerSet on several, and what they need. Pure."""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from gb10.containers.container_options import ContainerOptions, HostAccess, HostMount
from gb10.containers.reference import split_digest, split_reference
from gb10.core.ssh import HERE
from gb10.errors import UsageError
from gb10.serving.deploy.deployment import HUB, HUB_PLACE, Deployment, File
from gb10.serving.deploy.fabric_files import NETWORKS, attached, netplan_files, network_files, networks
from gb10.serving.deploy.text import kubernetes_text, yaml_text
from gb10.serving.run.service import LAUNCH, SERVICE, Rank, server_line
from gb10.serving.run.service_nodes import address_of

HUB_OBJECT: Final = "gb10-hf-token"
SERVERS: Final = frozenset({"vllm/vllm-openai", "ghcr.io/ggml-org/llama.cpp"})
"""Images whose entry point is a server, which cannot start another program. Other entry points set a container up."""
VOLUMES: Final = "/var/lib/gb10/volumes"
"""Where named volumes of recipes are on a node."""
OWN_ADDRESS: Final = {"vllm": "VLLM_HOST_IP", "sglang": "SGLANG_HOST_IP"}
"""The variable by which an engine tells the others where it is."""
HEALTH: Final = {"httpGet": {"path": "/health", "port": "http"}, "timeoutSeconds": 10}
PROBES: Final = {
    "startupProbe": {**HEALTH, "periodSeconds": 10, "failureThreshold": 720},
    "readinessProbe": {**HEALTH, "periodSeconds": 10},
    "livenessProbe": {**HEALTH, "periodSeconds": 30, "failureThreshold": 10},
}
"""Two hours to load, as ``run`` has it; then five minutes without an answer end the server."""


def pod_spec(deployment: Deployment, rank: Rank, options: ContainerOptions, affinity: object) -> dict[str, Any]:
    """The spec of a pod that runs a container."""
    several, own_network = len(deployment.containers) > 1, deployment.fabric.own_network
    host = options.host
    refuse_host_side(host)
    aliases = [{"ip": address.strip("[]"), "hostnames": [name]} for name, address in host.extra_hosts.items()]
    on_host = {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"} if several and not own_network else {}
    limit = {"sizeLimit": str(host.shm_size)} if host.shm_size else {}  # without one it has half of the node's memory
    return {
        **({"runtimeClassName": "nvidia"} if options.gpus else {}),
        **on_host,
        "terminationGracePeriodSeconds": 30,
        **({"affinity": affinity} if affinity else {}),
        **({"hostname": host.hostname} if host.hostname else {}),
        **({"hostAliases": aliases} if aliases else {}),
        "containers": [_container(deployment, rank, options)],
        "volumes": [
            *({"name": name, "hostPath": _folder(target)} for name, target in options.volumes.items()),
            *({"name": name, "hostPath": place} for name, place, _ in _mounts(options)),
            {"name": "shared-memory", "emptyDir": {"medium": "Memory", **limit}},
            {
                "name": "secrets",
                "secret": {"secretName": HUB_OBJECT, "optional": True, "items": [{"key": HUB, "path": HUB}]},
            },
        ],
    }


def _folder(target: str) -> dict[str, str]:
    """A folder of the node, of the same path: it outlives the pod."""
    return {"path": target, "type": "DirectoryOrCreate"}


def _container(deployment: Deployment, rank: Rank, options: ContainerOptions) -> dict[str, Any]:
    head = rank.number == 0
    # ``args`` keep an entry point that sets a container up; ``command`` takes the place of one that is a server.
    key = "command" if split_reference(split_digest(options.image)[0])[0] in SERVERS else "args"
    return {
        "name": "server",
        "image": options.image,
        "imagePullPolicy": "Never" if options.pull == "never" else "IfNotPresent",
        key: [kubernetes_text(word) for word in options.command],
        **({"env": env} if (env := _environment(deployment, options)) else {}),
        **({"ports": [{"name": "http", "containerPort": deployment.service.port}]} if head else {}),
        **({"resources": limits} if (limits := _resources(deployment, options)) else {}),
        **({"securityContext": rights} if (rights := _rights(deployment, options)) else {}),
        **(PROBES if head else {}),
        "volumeMounts": [
            *({"name": name, "mountPath": target} for name, target in options.volumes.items()),
            *(
                {"name": name, "mountPath": mount.target, **({"readOnly": True} if mount.read_only else {})}
                for name, _, mount in _mounts(options)
            ),
            {"name": "shared-memory", "mountPath": "/dev/shm"},  # noqa: S108 - what `--ipc host` is for
            {"name": "secrets", "mountPath": HUB_PLACE.rpartition("/")[0], "readOnly": True},
        ],
    }


def _environment(deployment: Deployment, options: ContainerOptions) -> list[dict[str, object]]:
    found: list[dict[str, object]] = [
        {"name": name, "value": kubernetes_text(value)} for name, value in options.environment.items()
    ]
    engine = deployment.service.runtime.partition("-")[0]
    if len(deployment.containers) > 1 and engine in OWN_ADDRESS:
        own = {"valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
        found.append({"name": OWN_ADDRESS[engine], **own})
    return found


def _resources(deployment: Deployment, options: ContainerOptions) -> dict[str, object]:
    limits: dict[str, object] = {"nvidia.com/gpu": 1} if options.gpus else {}
    if options.memory:
        limits["memory"] = str(options.memory)
    if options.devices and deployment.fabric.resource:
        limits[deployment.fabric.resource] = len(deployment.fabric.rails)
    return {"limits": limits, "requests": limits} if limits else {}


def _rights(deployment: Deployment, options: ContainerOptions) -> dict[str, object]:
    """RDMA needs its devices and memory that stays where it is: by a device plugin, or as a privileged container."""
    host = options.host
    user, _, group = host.user.partition(":")
    identity = {**({"runAsUser": int(user)} if user else {}), **({"runAsGroup": int(group)} if group else {})}
    if host.privileged or (options.devices and not deployment.fabric.resource):
        return {"privileged": True, **identity}
    lock = ("IPC_LOCK",) if options.devices and options.memlock else ()
    added = list(dict.fromkeys((*lock, *host.cap_add)))
    return {**({"capabilities": {"add": added}} if added else {}), **identity}


def refuse_host_side(host: HostAccess) -> None:
    """Raise UsageError for what a pod cannot be given."""
    wanted = {
        "devices (a device plugin gives them)": any(host.devices),
        "ulimit": bool(host.ulimits),
        "security_opt": any(host.security_opt),
        "cpuset": bool(host.cpuset),
        "ipc": host.ipc not in ("host", "private"),
        "user (a name; write its number)": not all(part.isdecimal() for part in host.user.split(":") if part),
        "extra_hosts of host-gateway": "host-gateway" in host.extra_hosts.values(),
    }
    asked = [key for key, is_asked in wanted.items() if is_asked]
    if asked:
        raise UsageError(
            f"Kubernetes cannot give a pod what the recipe asks of its host: {', '.join(asked)}",
            hint="remove it from a copy of the recipe, or take another form: --as docker, --as compose",
        )


def _mounts(options: ContainerOptions) -> Iterator[tuple[str, dict[str, str], HostMount]]:
    """The recipe's folders with a name for each in the pod; a named volume is a folder of the node for all of them."""
    named = (mount for mount in options.host.mounts if mount.is_volume)
    for number, mount in enumerate((*options.binds, *named)):
        place = _folder(f"{VOLUMES}/{mount.source}") if mount.is_volume else {"path": mount.source}
        yield f"host-{number}", place, mount


def affinity_of(deployment: Deployment, labels: dict[str, str]) -> dict[str, Any]:
    """Pods on the nodes that were named, each on another one."""
    names = [address_of(host) for host in deployment.service.hosts if host != HERE]
    terms = [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": names}]}]
    apart = [{"labelSelector": {"matchLabels": labels}, "topologyKey": "kubernetes.io/hostname"}]
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    return {
        **({"nodeAffinity": {required: {"nodeSelectorTerms": terms}}} if names else {}),
        **({"podAntiAffinity": {required: apart}} if len(deployment.containers) > 1 else {}),
    }


LONGEST: Final = 50
"""Names of pods and of their revisions are longer, and end at 63 characters."""


def kubernetes_files(deployment: Deployment) -> tuple[File, ...]:
    """One file of objects; with several nodes a netplan file for each, and its networks' where pods have their own."""
    name = object_name(deployment.service.name)
    several = len(deployment.containers) > 1
    own_network = several and deployment.fabric.own_network
    parts = networks(name, deployment.fabric) if own_network else ()
    workload = _set(deployment, name) if several else _deployment(deployment, name)
    text = yaml_text(*parts, workload, _service(deployment, name), head=_head(deployment, name))
    return (
        File(name=f"{name}.yaml", text=text),
        *(netplan_files(deployment) if several else ()),
        *(network_files(deployment, name) if own_network else ()),
    )


def object_name(service: str) -> str:
    """The name of a service's objects. Raises UsageError for one that is too long."""
    name = f"gb10-{re.sub(r'[^a-z0-9]+', '-', service.lower()).strip('-')}"
    if len(name) > LONGEST:
        raise UsageError(
            f"{name} is too long for a name in Kubernetes", hint=f"--name with up to {LONGEST - 5} letters"
        )
    return name


def _head(deployment: Deployment, name: str) -> tuple[str, ...]:
    several = len(deployment.containers) > 1
    needs = "NVIDIA's device plugin" + (" and LeaderWorkerSet (leaderworkerset.x-k8s.io/v1)" if several else "")
    more = ", Multus, host-device and static" if several and deployment.fabric.own_network else ""
    token = f"kubectl create secret generic {HUB_OBJECT} --from-file=HF_TOKEN=$HOME/.cache/huggingface/token"
    return (
        f"{deployment.service.name} in Kubernetes. Made by gb10. The cluster needs {needs}{more}.",
        *(("First put each node's netplan and .cni.conf files there: the netplan file says how.",) if more else ()),
        f"kubectl apply --filename {name}.yaml",
        f"The token of a gated model: {token}",
    )


def _labels(name: str, rank: Rank | None = None) -> dict[str, str]:
    part = {} if rank is None else {"app.kubernetes.io/component": "worker" if rank.number else "head"}
    return {"app.kubernetes.io/name": "gb10", "app.kubernetes.io/instance": name, **part}


def _template(deployment: Deployment, name: str, rank: Rank, options: ContainerOptions) -> dict[str, Any]:
    """A pod's template; what ``run`` writes into labels is too long for Kubernetes' labels."""
    several = len(deployment.containers) > 1
    notes = {key: value for key, value in options.all_labels.items() if key != f"{SERVICE}.rank"}
    if several and deployment.fabric.own_network:
        notes[NETWORKS] = attached(name, deployment.fabric)
    spec = pod_spec(deployment, rank, options, affinity_of(deployment, _labels(name)))
    return {"metadata": {"labels": _labels(name, rank), "annotations": notes}, "spec": spec}


def _deployment(deployment: Deployment, name: str) -> dict[str, Any]:
    """One pod; the old one ends first, since two do not fit into a Spark."""
    rank, options = deployment.ranks[0]
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": _labels(name)},
        "spec": {
            "replicas": 1,
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": _labels(name, rank)},
            "template": _template(deployment, name, rank, options),
        },
    }


def _set(deployment: Deployment, name: str) -> dict[str, Any]:
    """A leader and its workers, which start and end together."""
    (head, head_options), (worker, worker_options), *_ = deployment.ranks
    one = replace(worker_options, command=_workers_command(deployment))
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": name, "labels": _labels(name)},
        "spec": {
            "replicas": 1,
            "startupPolicy": "LeaderCreated",
            "leaderWorkerTemplate": {
                "size": len(deployment.containers),
                "restartPolicy": "RecreateGroupOnPodRestart",
                "leaderTemplate": _template(deployment, name, head, head_options),
                "workerTemplate": _template(deployment, name, worker, one),
            },
        },
    }


def _workers_command(deployment: Deployment) -> tuple[str, ...]:
    """All workers have one template: the number of a pod in its group chooses the command of its rank."""
    _, first, *others = deployment.containers
    if not others:
        return first.command
    arms = [
        f"{number})\n{server_line(options.command)}\n;;" for number, options in enumerate((first, *others), start=1)
    ]
    started = first.command[: first.command.index(LAUNCH) + 2]
    return *started, "\n".join(["case $LWS_WORKER_INDEX in", *arms, "esac"])


def _service(deployment: Deployment, name: str) -> dict[str, Any]:
    """The endpoint inside the cluster; a LeaderWorkerSet has a Service of its own name already."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": f"{name}-api", "labels": _labels(name)},
        "spec": {
            "selector": _labels(name, deployment.service.ranks[0]),
            "ports": [{"name": "http", "port": deployment.service.port, "targetPort": "http"}],
        },
    }
