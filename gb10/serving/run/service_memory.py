"""The memory of a service's containers, and what PyTorch may take there: by the command line, else by the recipe."""

from dataclasses import replace

from gb10.core.reporter import Reporter
from gb10.errors import UsageError
from gb10.models.lint.fit import Fit
from gb10.models.load.model_recipe import ModelRecipe, own_section
from gb10.models.memory.engines.budget import Machine, gib
from gb10.models.memory.estimating import (
    ASYNC,
    KEY,
    NAMES,
    SINCE,
    cap_of,
    capped,
    container_memory,
    fraction_of,
    torch_bytes,
    torch_bytes_unknown,
    torch_knows,
)
from gb10.models.memory.figures import load_figures
from gb10.models.render.rendered import RenderRequest
from gb10.serving.run.service import ContainerSettings, Service


def with_memory(
    reporter: Reporter, fit: Fit, asked: ContainerSettings, image: str, *, cap: bool | None
) -> ContainerSettings:
    """The settings with a limit in bytes and the cap of PyTorch, the same on each node.

    Without known sizes of the model, or for one that is too large, there is no limit, and the cap is what a node has.
    ``cap``: whether there is one; None where the image's release of PyTorch is known to take it.
    """
    settings = replace(asked, torch=_cap(reporter, fit, asked, image, cap=cap))
    if settings.memory is not None:
        return settings
    found = fit.estimate
    if found is None or not found.fits:
        why = "the sizes of its model are not known" if found is None else "its model does not fit by our estimate"
        if isinstance(fit.launch, UsageError):
            why = f"{fit.launch.message}, and the engine may refuse it"
        reporter.say(f"{fit.recipe.name}: {why}, so its containers have no limit (--memory GIB)")
        return settings
    machine = Machine(figures=load_figures())
    return replace(
        settings, memory=max(container_memory(budget, found.launch, machine).limit for budget in found.budgets)
    )


def _cap(reporter: Reporter, fit: Fit, asked: ContainerSettings, image: str, *, cap: bool | None) -> float | None:
    """The part of a node's memory that PyTorch may take; None without a cap, and why is said.

    Raises UsageError for a launch that is not known, when the user asks for the cap.
    """
    launch = fit.launch
    if isinstance(launch, UsageError):
        if cap:
            raise launch
        if cap is None and asked.gpus:
            reporter.say(f"{launch.message}, so nothing caps what PyTorch takes")
        return None
    if cap is False or not asked.gpus or (launch.engine not in SINCE and not cap):
        return None
    known = torch_knows(image, launch.engine)
    if not known and not cap:
        why = "is not known" if known is None else f"is older than 2.10, which has no {KEY}"
        reporter.say(
            f"{image}: its release of PyTorch {why}, so nothing caps what it takes (--torch-cap does it anyway)"
        )
        return None
    machine = Machine(figures=load_figures())
    if fit.estimate and fit.estimate.fits and asked.memory is None:
        size = max(torch_bytes(budget, machine) for budget in fit.estimate.budgets)
    else:
        size = torch_bytes_unknown(machine, launch.fraction, nodes=launch.nodes, limit=asked.memory)
    if not size:
        reporter.say("--memory is less than what is not PyTorch's, so nothing caps what PyTorch takes")
        return None
    return fraction_of(size, machine)


def with_script_cap(
    reporter: Reporter, fit: Fit, request: RenderRequest, asked: ContainerSettings, *, cap: bool | None
) -> RenderRequest:
    """The request for a script of ours that sets the cap beside the recipe's variables; another launcher's stays."""
    recipe = fit.recipe
    if request.peer:
        return request
    if recipe.format == "v1":
        reporter.say("the script is that of eugr's launcher, without a cap of PyTorch's memory (--as docker has one)")
        return request
    variants = own_section(recipe).variants
    chosen = variants[request.variant].overrides if request.variant in variants else ()
    variables = {key[4:]: value for key, value in (*chosen, *request.overrides) if key.startswith("env.")}
    environment = {**{key: str(value) for key, value in recipe.env.items()}, **variables}
    fraction = _cap(reporter, fit, asked, recipe.container or "", cap=cap)
    more = ((f"env.{key}", value) for key, value in capped(environment, fraction).items() if key in NAMES)
    added = [(key, value) for key, value in more if environment.get(key[4:]) != value]
    return replace(request, overrides=(*request.overrides, *added))


def in_script(recipe: ModelRecipe, fraction: float | None) -> ModelRecipe:
    """A recipe of version 1 whose script sets the cap where it sets PyTorch's variables itself."""
    environment = {key: str(value) for key, value in recipe.env.items()}
    if recipe.format != "v1" or not set(NAMES) & set(environment):
        return recipe
    return replace(recipe, values={**recipe.values, "env": capped(environment, fraction)})


def cap_lines(service: Service) -> list[str]:
    """What a user should know of the cap: how much, a cap of the recipe's own, a command that sets the variable."""
    settings, container = service.settings, service.ranks[0].container
    if settings.torch is None:
        return []
    found, total = cap_of(container.environment), Machine(figures=load_figures()).total
    size = f"PyTorch may take {gib((found or 0) * total)} of each node"
    if found is None:
        return [f"nothing caps what PyTorch takes: with {ASYNC}, or with a {KEY} that is no number, it holds none"]
    if found != settings.torch:
        return [f"{size}, as the recipe's own {KEY} says"]
    if any(name in container.command for name in NAMES) and f"{KEY}:{settings.torch:g}" not in container.command:
        return ["the command sets PyTorch's variable itself, so gb10's cap of its memory is not in it"]
    return [f"{size} ({KEY}:{found:g}; --no-torch-cap)"]
