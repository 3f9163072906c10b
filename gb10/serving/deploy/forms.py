"""The forms by name: each makes files of one and the same deployment. Pure."""

from collections.abc import Callable, Mapping
from typing import Final

from gb10.serving.deploy.compose_files import compose_files
from gb10.serving.deploy.deployment import Deployment, File
from gb10.serving.deploy.kubernetes import kubernetes_files
from gb10.serving.deploy.playbooks import ansible_files
from gb10.serving.deploy.scripts import docker_files, systemd_files
from gb10.serving.deploy.sparkrun_recipes import sparkrun_files

FORMS: Final[Mapping[str, Callable[[Deployment], tuple[File, ...]]]] = {
    "docker": docker_files,
    "compose": compose_files,
    "k8s": kubernetes_files,
    "sparkrun": sparkrun_files,
    "systemd": systemd_files,
    "ansible": ansible_files,
}
