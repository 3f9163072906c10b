"""The forms by name: each makes files of one and the same deployment. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from gb10.containers.reference import registry_of
from gb10.core.installation import ROOT
from gb10.image.request.recipe_mods import mods_of
from gb10.models.registries.trust import mods_here
from gb10.serving.deploy.compose_files import compose_files
from gb10.serving.deploy.deployment import Deployment, Fabric, File, containers_of
from gb10.serving.deploy.fabric_files import pod_nodes
from gb10.serving.deploy.kubernetes import kubernetes_files, object_name
from gb10.serving.deploy.playbooks import ansible_files
from gb10.serving.deploy.scripts import docker_files, systemd_files
from gb10.serving.deploy.sparkrun_recipes import sparkrun_files
from gb10.serving.run.prepare_service import PreparedService, hosts_of
from gb10.serving.run.service import SCRIPT, Service

FORMS: Final[Mapping[str, Callable[[Deployment], tuple[File, ...]]]] = {
    "docker": docker_files,
    "compose": compose_files,
    "k8s": kubernetes_files,
    "sparkrun": sparkrun_files,
    "systemd": systemd_files,
    "ansible": ansible_files,
}


KUBERNETES: Final = "k8s"
SPARKRUN: Final = "sparkrun"
IN_IMAGES: Final = (".jinja", ".py", ".json")
"""Files that a command names and that images hold as often as nodes."""
TEMPLATES: Final = ("docker.sh.j2", "unit.service.j2")


def deployment_of(prepared: PreparedService, form: str, fabric: Fabric) -> Deployment:
    """What the forms are views of; in Kubernetes its nodes are pods, as many as the recipe needs.

    No node is asked: a folder of the model is mounted, a template or a script is left out. Raises UsageError for a
    recipe without trust.
    """
    if form == KUBERNETES:
        name = object_name(prepared.request.name or prepared.source.recipe.stem)
        hosts = hosts_of(prepared.request.nodes)
        prepared = prepared.on(pod_nodes(name, hosts, fabric))
        used = hosts[: len(prepared.service.ranks)]
        if used != hosts:
            prepared = prepared.on(pod_nodes(name, used, fabric))
    service, left_out = _without_small_files(prepared.service)
    recipe, file = prepared.source.recipe, prepared.source.file
    # sparkrun finds mods by their names, so none is surely ours
    passed = [mod.written for mod in mods_of(recipe, file)] if file is not None and form == SPARKRUN else []
    prepared.require_trust(mods_here(recipe, file, passed) if file is not None else ())
    return Deployment(
        service=service,
        containers=containers_of(service, SCRIPT.read_text(encoding="utf-8")),
        recipe=prepared.recipe,
        rendered=prepared.rendered,
        arguments=prepared.request.render.arguments,
        templates={name: (ROOT / "templates" / name).read_text(encoding="utf-8") for name in TEMPLATES},
        fabric=fabric,
        left_out=left_out,
    )


def _without_small_files(service: Service) -> tuple[Service, tuple[str, ...]]:
    """The service without files that images hold as often as nodes, and these."""
    access = service.settings.host
    left_out = tuple(one.source for one in access.mounts if one.optional and one.source.endswith(IN_IMAGES))
    access = replace(access, mounts=tuple(one for one in access.mounts if one.source not in left_out))
    return replace(service, settings=replace(service.settings, host=access), asked=service.digest), left_out


def image_lines(image: str) -> list[str]:
    """What a user should know of the image: nobody can pull a local name, and a tag can move."""
    if "@" in image:
        return []
    if registry_of(image) is None:
        return [f"{image} names no registry, so no node pulls it: bring it there first (./build.py pull)"]
    return [f"{image} is a tag, which can move: a digest cannot (--image NAME@sha256:…)"]
