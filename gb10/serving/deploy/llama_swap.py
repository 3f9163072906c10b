"""Several models behind one address, started when asked for: llama-swap's file, and the script of each. Pure.

Its keys are those of llama-swap's config-schema.json. Docker starts a model, so llama-swap's own process follows the
container's log: it ends with the container.
"""

import shlex
from collections.abc import Sequence
from typing import Final

from gb10.errors import UsageError
from gb10.models.memory.engines.budget import gib
from gb10.serving.deploy.deployment import Deployment, File
from gb10.serving.deploy.scripts import docker_files
from gb10.serving.deploy.text import yaml_text
from gb10.serving.run.existing import claimed, memory_for_services

FILE: Final = "llama-swap.yaml"
START: Final = 'docker rm "$1" >/dev/null 2>&1; sh "$0" && exec docker logs --follow "$1"'
"""A container that has ended is in the way of its successor; one that runs stays, and the start says so."""
STOP: Final = 'docker stop --time 60 "$0" && docker rm "$0"'
READY_S: Final = 7200
IDLE_S: Final = 1800
UNLOAD_S: Final = 90


def llama_swap_files(deployments: Sequence[Deployment], total: int, *, together: bool) -> tuple[File, ...]:
    """The configuration, then the scripts. ``total``: bytes of memory of the node.

    One model runs at a time; ``together``: all may. Raises UsageError for a model of several nodes, for two models of
    one name or port, for containers that restart by themselves, and for models that do not fit together.
    """
    services = [one.service for one in deployments]
    for service in services:
        if len(service.ranks) != 1:
            raise UsageError(
                f"{service.name} runs on {len(service.ranks)} nodes: llama-swap starts a program on its own",
                hint="serve it by run, and name it in llama-swap's `peers`",
            )
        if service.settings.restart:
            raise UsageError("llama-swap starts a model again by itself", hint="leave --restart out")
    for what, values in (
        ("name of a service", [one.name for one in services]),
        ("name of a model", [one.model for one in services]),
        ("port", [str(one.port) for one in services]),
    ):
        if again := next((value for at, value in enumerate(values) if value in values[:at]), None):
            raise UsageError(f"two recipes have the {what} {again}", hint="give one of them another, in a copy of it")
    if together:
        _check_together(deployments, total)
    scripts = [docker_files(one)[0] for one in deployments]
    models = {
        service.model: {
            "name": service.name,
            "cmd": shlex.join(["sh", "-c", START, f"${{folder}}/{script.name}", options.name]),
            "cmdStop": shlex.join(["sh", "-c", STOP, options.name]),
            "proxy": f"http://127.0.0.1:{service.port}",
            "checkEndpoint": "/health",
            "aliases": [service.name],
        }
        for service, script, options in zip(services, scripts, (one.containers[0] for one in deployments), strict=True)
    }
    document = {
        "healthCheckTimeout": READY_S,
        "unloadTimeout": UNLOAD_S,
        "globalTTL": IDLE_S,
        "macros": {"folder": "."},
        "models": models,
        "groups": {"gb10": {"swap": not together, "members": list(models)}},
    }
    head = (
        f"{len(models)} models for llama-swap, {'together' if together else 'one at a time'}. Made by gb10.",
        f"llama-swap -config {FILE} -listen 127.0.0.1:8080, in the folder of the scripts, or write it as `folder`.",
        f"A model stops after {IDLE_S} s without a request; its first start compiles, and may take {READY_S} s.",
    )
    return (File(name=FILE, text=yaml_text(document, head=head)), *scripts)


def _check_together(deployments: Sequence[Deployment], total: int) -> None:
    """Raise UsageError when all models claim more than a node has beside its system, or one says no claim."""
    claims = {one.service.name: claimed(one.service, total) for one in deployments}
    if unknown := [name for name, claim in claims.items() if not claim]:
        raise UsageError(
            f"how much memory {', '.join(unknown)} takes is not known", hint="give a limit of each model: --memory GIB"
        )
    whole = sum(claims.values())
    beside = memory_for_services(total)
    if whole > beside:
        raise UsageError(
            f"a node has {gib(total)}, {gib(beside)} beside its system; all models use {gib(whole)}",
            where="\n".join(f"{name}: {gib(claim)}" for name, claim in claims.items()),
            hint="let one run at a time: leave --together out; or give each less: --set, --memory GIB",
        )
