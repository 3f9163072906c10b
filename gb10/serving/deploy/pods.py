"""The pod of a rank, in Kubernetes' words. Pure."""

from typing import Any, Final

from gb10.containers.container_options import ContainerOptions
from gb10.containers.reference import split_digest, split_reference
from gb10.core.ssh import HERE
from gb10.serving.deploy.deployment import HUB, HUB_PLACE, Deployment
from gb10.serving.deploy.words import kubernetes_text
from gb10.serving.run.members import address_of
from gb10.serving.run.service import Rank

HUB_OBJECT: Final = "gb10-hf-token"
SERVERS: Final = frozenset({"vllm/vllm-openai", "ghcr.io/ggml-org/llama.cpp"})
"""Images whose entry point is a server, which cannot start another program. Other entry points set a container up."""
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
    several, resource = len(deployment.containers) > 1, deployment.fabric.resource
    on_host = {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"} if several and not resource else {}
    return {
        **({"runtimeClassName": "nvidia"} if options.gpus else {}),
        **on_host,
        "terminationGracePeriodSeconds": 30,
        **({"affinity": affinity} if affinity else {}),
        "containers": [_container(deployment, rank, options)],
        "volumes": [
            *({"name": name, "hostPath": _folder(target)} for name, target in options.volumes.items()),
            {"name": "shared-memory", "emptyDir": {"medium": "Memory"}},
            {"name": "secrets", "secret": {"secretName": HUB_OBJECT, "optional": True, "items": [_item()]}},
        ],
    }


def _folder(target: str) -> dict[str, str]:
    """A folder of the node, of the same path: it outlives the pod."""
    return {"path": target, "type": "DirectoryOrCreate"}


def _item() -> dict[str, str]:
    return {"key": HUB, "path": HUB}


def _container(deployment: Deployment, rank: Rank, options: ContainerOptions) -> dict[str, Any]:
    head = rank.number == 0
    return {
        "name": "server",
        "image": options.image,
        "imagePullPolicy": "Never" if options.pull == "never" else "IfNotPresent",
        _key_of_command(options.image): [kubernetes_text(word) for word in options.command],
        **({"env": env} if (env := _environment(deployment, options)) else {}),
        **({"ports": [{"name": "http", "containerPort": deployment.service.port}]} if head else {}),
        **({"resources": limits} if (limits := _resources(deployment, options)) else {}),
        **({"securityContext": rights} if (rights := _rights(deployment, options)) else {}),
        **(PROBES if head else {}),
        "volumeMounts": [
            *({"name": name, "mountPath": target} for name, target in options.volumes.items()),
            {"name": "shared-memory", "mountPath": "/dev/shm"},  # noqa: S108 - what `--ipc host` is for
            {"name": "secrets", "mountPath": HUB_PLACE.rpartition("/")[0], "readOnly": True},
        ],
    }


def _key_of_command(image: str) -> str:
    """``args`` keep an entry point that sets a container up; ``command`` takes the place of one that is a server."""
    return "command" if split_reference(split_digest(image)[0])[0] in SERVERS else "args"


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
    if not options.devices:
        return {}
    if not deployment.fabric.resource:
        return {"privileged": True}
    return {"capabilities": {"add": ["IPC_LOCK"]}} if options.memlock else {}


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
