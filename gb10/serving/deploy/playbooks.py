"""A playbook for Ansible's core: a container on each node, started anew only when its settings changed. Pure."""

import re
from collections.abc import Sequence
from typing import Any, Final

from gb10.containers.container_options import ContainerOptions, command_words, run_words
from gb10.core.ssh import HERE
from gb10.serving.deploy.deployment import HUB_PLACE, NO_FILE, Deployment, File
from gb10.serving.deploy.text import Unsafe, yaml_text
from gb10.serving.run.service import SERVICE, Rank
from gb10.serving.run.service_nodes import SOCKETS

HOST: Final = re.compile(
    r"(?:ssh://)?(?:(?P<user>[^@/]+)@)?(?P<name>\[[^]]+\]|[^:/]+|[^/]+?)(?::(?P<port>\d+))?(?:/.*)?"
)
RUNS: Final = '{{.State.Running}} {{index .Config.Labels "' + SERVICE + '.digest"}}'
"""What `docker inspect` prints: whether a container runs, and with which settings."""


def ansible_files(deployment: Deployment) -> tuple[File, ...]:
    """The playbook, and the inventory that it needs when a node is not this machine."""
    name = f"gb10-{deployment.service.name}"
    far = {options.name: _host(rank.node.host) for rank, options in deployment.ranks if rank.node.host != HERE}
    inventory = f" --inventory {name}.inventory.yaml" if far else ""
    head = (
        f"{deployment.service.name} by Ansible's core. Made by gb10. Docker's group must hold the user.",
        f"ansible-playbook{inventory} {name}.playbook.yaml",
        "The token of a gated model: --extra-vars hf_token_file=/path/on/the/node",
    )
    plays = [*(_play(rank, options) for rank, options in deployment.ranks), _healthy(deployment)]
    playbook = File(name=f"{name}.playbook.yaml", text=yaml_text(plays, head=head))
    return playbook, *([File(name=f"{name}.inventory.yaml", text=yaml_text({"all": {"hosts": far}}))] if far else [])


def _host(node: str) -> dict[str, object]:
    """How Ansible reaches a node of ``--nodes``; an engine's socket or address is used from this machine."""
    found = HOST.fullmatch(node)
    if node.startswith(SOCKETS) or found is None:
        return {"ansible_connection": "local", "docker_host": _literal(node)}
    port = {"ansible_port": int(found["port"])} if found["port"] else {}
    user = {"ansible_user": _literal(found["user"])} if found["user"] else {}
    return {"ansible_host": _literal(found["name"].strip("[]")), **user, **port}


def _at(rank: Rank, options: ContainerOptions) -> dict[str, object]:
    here = rank.node.host == HERE
    return {"hosts": HERE, "connection": "local"} if here else {"hosts": options.name}


def _play(rank: Rank, options: ContainerOptions) -> dict[str, Any]:
    """Three steps of one container: look, remove what differs, start."""
    wanted = f"true {options.labels[f'{SERVICE}.digest']}"
    return {
        "name": f"Rank {rank.number}",
        **_at(rank, options),
        "gather_facts": False,
        "vars": {"hf_token_file": NO_FILE},
        "environment": {"DOCKER_HOST": "{{ docker_host | default('') }}"},
        "tasks": [
            {
                "name": "Look at the container",
                **_command(["docker", "inspect", "--format", _literal(RUNS), options.name]),
                "register": "found",
                "changed_when": False,
                "failed_when": False,
                "check_mode": False,
            },
            {
                "name": "Remove one that ended, or that has other settings",
                **_command(["docker", "rm", "--force", options.name]),
                "when": f"found.rc == 0 and found.stdout != '{wanted}'",
            },
            {"name": "Start it", **_command(_call(options)), "when": f"found.stdout != '{wanted}'"},
        ],
    }


def _call(options: ContainerOptions) -> list[str]:
    """The call of docker; only the token's file is a variable of Ansible."""
    token = ["--volume", "{{ hf_token_file }}:" + f"{HUB_PLACE}:ro"]
    return [
        "docker",
        "run",
        "--detach",
        *map(_literal, run_words(options)),
        *token,
        *map(_literal, command_words(options)),
    ]


def _literal(word: str) -> str:
    """A word in which Ansible expands nothing: its templates begin with a brace."""
    return Unsafe(word) if "{" in word else word


def _command(argv: Sequence[str]) -> dict[str, object]:
    """A program without a shell; no variable of the environment is expanded in its words."""
    return {"ansible.builtin.command": {"argv": list(argv), "expand_argument_vars": False}}


def _healthy(deployment: Deployment) -> dict[str, Any]:
    """The head answers within two hours."""
    rank, options = deployment.ranks[0]
    return {
        "name": "Wait until it answers",
        **_at(rank, options),
        "gather_facts": False,
        "tasks": [
            {
                "name": "Ask for its health",
                "ansible.builtin.uri": {"url": f"http://127.0.0.1:{deployment.service.port}/health"},
                "register": "health",
                "until": "health.status == 200",
                "retries": 1440,
                "delay": 5,
            }
        ],
    }
