"""A service in Kubernetes: a Deployment on one node, a LeaderWorkerSet on several, and what they need. Pure."""

import re
from dataclasses import replace
from typing import Any, Final

from gb10.containers.container_options import ContainerOptions
from gb10.errors import UsageError
from gb10.serving.deploy.deployment import Deployment, File
from gb10.serving.deploy.fabric_files import NETWORKS, attached, netplan_files, networks
from gb10.serving.deploy.pods import HUB_OBJECT, affinity_of, pod_spec
from gb10.serving.deploy.yaml_text import yaml_text
from gb10.serving.run.labelled import SERVICE
from gb10.serving.run.node_launch import LAUNCH, server_line
from gb10.serving.run.service import Rank

LONGEST: Final = 50
"""Names of pods and of their revisions are longer, and end at 63 characters."""


def kubernetes_files(deployment: Deployment) -> tuple[File, ...]:
    """One file of objects, and with several nodes a netplan file for each."""
    name = object_name(deployment.service.name)
    several = len(deployment.containers) > 1
    parts = networks(name, deployment.fabric) if several and deployment.fabric.resource else ()
    workload = _set(deployment, name) if several else _deployment(deployment, name)
    text = yaml_text(*parts, workload, _service(deployment, name), head=_head(deployment, name))
    return File(name=f"{name}.yaml", text=text), *(netplan_files(deployment) if several else ())


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
    more = ", Multus, host-device and whereabouts" if several and deployment.fabric.resource else ""
    token = f"kubectl create secret generic {HUB_OBJECT} --from-file=HF_TOKEN=$HOME/.cache/huggingface/token"
    return (
        f"{deployment.service.name} in Kubernetes. Made by gb10. The cluster needs {needs}{more}.",
        f"kubectl apply --filename {name}.yaml",
        f"The token of a gated model: {token}",
    )


def _labels(name: str, rank: Rank | None = None) -> dict[str, str]:
    part = {} if rank is None else {"app.kubernetes.io/component": "worker" if rank.number else "head"}
    return {"app.kubernetes.io/name": "gb10", "app.kubernetes.io/instance": name, **part}


def _template(deployment: Deployment, name: str, rank: Rank, options: ContainerOptions) -> dict[str, Any]:
    """A pod's template; what ``run`` writes into labels is too long for Kubernetes' labels."""
    several = len(deployment.containers) > 1
    notes = {key: value for key, value in options.labels.items() if key != f"{SERVICE}.rank"}
    if several and deployment.fabric.resource:
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
