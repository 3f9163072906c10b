"""A recipe of version 2 that sparkrun runs: the image, the parameters and the variables are decided. Pure.

sparkrun starts containers of its own, so the memory guard and the labels are not in it.
"""

from collections.abc import Mapping
from typing import Final

from gb10.containers.container_options import HostAccess
from gb10.errors import UsageError
from gb10.models.load.loading import load_model_recipe
from gb10.models.load.model_recipe import ModelRecipe
from gb10.models.memory.estimating import NAMES
from gb10.models.render.nodes import SIZES
from gb10.models.render.rendered import MODELS, RenderRequest
from gb10.models.render.rendering import render_recipe
from gb10.serving.deploy.deployment import Deployment, File
from gb10.serving.deploy.text import yaml_text

OTHER: Final = "--as docker can"
KEPT: Final = ("port", "host", "served_model_name", *SIZES)
"""Parameters that sparkrun reads itself, beside the command."""
GIVEN: Final = ("model", "resolved_model_path")
"""Parameters that a command always has."""
OPENS: Final = "{{"
EXPANDED: Final = frozenset('$`\\"')


def sparkrun_files(deployment: Deployment) -> tuple[File, ...]:
    """The recipe. Raises UsageError when sparkrun would run another command."""
    name = deployment.service.name
    head = (
        f"{name} for sparkrun 0.4.2. Made by gb10.",
        f"sparkrun run {name}.yaml --hosts {','.join(rank.node.address for rank in deployment.service.ranks)}",
    )
    text = yaml_text(_document(deployment), head=head)
    _check_same(deployment, text)
    return (File(name=f"{name}.yaml", text=text),)


def _document(deployment: Deployment) -> dict[str, object]:
    recipe, service = deployment.recipe, deployment.service
    first, count = service.ranks[0].container, len(service.ranks)
    env = _environment(recipe, first.environment)
    executor = {**({"memory_limit": str(first.memory)} if first.memory else {}), **_host_side(service.settings.host)}
    limit = {"executor_config": executor} if executor else {}
    # All overrides; beside a filled command those that sparkrun reads itself.
    kept = {
        key: value for key, value in deployment.rendered.parameters.items() if not _filled(deployment) or key in KEPT
    }
    return {
        "recipe_version": "2",
        **_without_none(model=recipe.model, description=recipe.text("description")),
        "runtime": service.runtime,
        "container": first.image,
        "min_nodes": count,
        "max_nodes": count,
        **({"mods": list(recipe.mods)} if recipe.mods else {}),
        **limit,
        **({"env": env} if env else {}),
        "defaults": {key: value for key, value in kept.items() if key not in GIVEN or key in recipe.defaults},
        **_without_none(command=_command(deployment)),
    }


def _host_side(host: HostAccess) -> dict[str, object]:
    """What the containers get of their host, in sparkrun's keys. Raises UsageError for what it has no key for."""
    foreign = {"cpuset": host.cpuset, "hostname": host.hostname, "extra_hosts": host.extra_hosts}
    asked = [key for key, value in foreign.items() if value]
    if asked:
        raise UsageError(f"sparkrun has no key for what the recipe asks of its host: {', '.join(asked)}", hint=OTHER)
    wanted: dict[str, object] = {
        "volumes": [f"{one.source}:{one.target}{':ro' * one.read_only}" for one in host.mounts],
        "devices": list(host.devices),
        "cap_add": list(host.cap_add),
        "security_opt": list(host.security_opt),
        "privileged": host.privileged,
        "user": host.user,
        "ulimit": [f"{name}={soft}:{hard}" for name, (soft, hard) in host.ulimits.items()],
        "ipc": "" if host.ipc == "host" else host.ipc,
        "shm_size": str(host.shm_size or ""),
        "labels": dict(host.labels),
    }
    return {key: value for key, value in wanted.items() if value}


def _without_none(**values: str | None) -> dict[str, str]:
    return {name: value for name, value in values.items() if value is not None}


def _environment(recipe: ModelRecipe, environment: Mapping[str, str]) -> dict[str, str]:
    """The variables, without the place of models, which sparkrun decides. Raises UsageError for one of version 1."""
    if recipe.format != "v1":
        return {key: value for key, value in environment.items() if key != MODELS[0] or key in recipe.env}
    expanded = [key for key, value in recipe.env.items() if EXPANDED & set(str(value))]
    if expanded:
        hint = f"write its value into {recipe.file}"
        raise UsageError(f"a shell expands the variable {expanded[0]}, and sparkrun does not", hint=hint)
    cap = {name: environment[name] for name in NAMES if name in environment and name not in recipe.env}
    return {**{key: str(value) for key, value in recipe.env.items()}, **cap}


def _filled(deployment: Deployment) -> bool:
    """Whether the command stands there with its values: in version 1, and where the user's own are quoted in it."""
    return deployment.recipe.format == "v1" or bool(deployment.arguments) or deployment.rendered.user.any


def _command(deployment: Deployment) -> str | None:
    """The recipe's own template, or the filled command: its braces are literal, and doubled where ``{{`` is in it."""
    if not _filled(deployment):
        return deployment.recipe.command
    serve = deployment.rendered.serve or ""
    return serve.replace("{", OPENS).replace("}", "}}") if OPENS in serve else serve


def _check_same(deployment: Deployment, text: str) -> None:
    """Raise UsageError unless the recipe becomes, by sparkrun's rules, the command that ``run`` starts.

    To a command of version 1 sparkrun adds its name for requests. TensorRT-LLM's file of options is its own affair.
    """
    read = load_model_recipe(text, f"{deployment.service.name}.yaml")
    nodes = tuple(rank.node.address for rank in deployment.service.ranks)
    found = render_recipe(read, RenderRequest(peer="sparkrun", nodes=nodes if len(nodes) > 1 else ()))
    ours, theirs = deployment.rendered.serve or "", found.serve or ""
    same = theirs.startswith(ours) if deployment.recipe.format == "v1" else ours.endswith(theirs)
    if not theirs or not same:
        where = "\n".join((f"here: {ours}", f"sparkrun's: {theirs}", *(issue.text for issue in found.issues)))
        raise UsageError("sparkrun cannot run exactly this command", where=where, hint=OTHER)
