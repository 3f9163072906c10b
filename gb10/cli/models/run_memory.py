"""The memory that `run` gives a container, and that PyTorch may take there: by the command line, else by the recipe."""

from dataclasses import replace

from gb10.cli.models.recipe_fit import known_estimate
from gb10.core.reporter import Reporter
from gb10.errors import UsageError
from gb10.models.lint.linting import own_releases
from gb10.models.lint.served_launch import served_model
from gb10.models.load.model_recipe import ModelRecipe
from gb10.models.load.own_section import own_section
from gb10.models.memory.engines.budget import Machine, gib
from gb10.models.memory.estimating import Estimate
from gb10.models.memory.figures import load_figures
from gb10.models.memory.launch import Launch
from gb10.models.memory.memory_limits import (
    ASYNC,
    KEY,
    NAMES,
    SINCE,
    cap_of,
    container_memory,
    fraction_of,
    torch_bytes,
    torch_bytes_unknown,
    torch_knows,
    with_memory_cap,
)
from gb10.models.render.rendered import RenderRequest
from gb10.serving.run.service import Options, Service


def with_budget(
    reporter: Reporter, recipe: ModelRecipe, request: RenderRequest, options: Options, image: str
) -> Options:
    """The options with a limit in bytes and the cap of PyTorch, the same on each node.

    Without known sizes of the model there is no limit, and the cap is what a node has.
    """
    found, machine = known_estimate(recipe, request), Machine(figures=load_figures())
    options = replace(options, torch=_cap(reporter, options, image, found, _launch(recipe, request)))
    if options.memory is not None:
        return options
    if found is None:
        reporter.say(
            f"{recipe.name}: the sizes of its model are not known, so its containers have no limit (--memory GIB)"
        )
        return options
    limits = (container_memory(budget, found.launch, machine).limit for budget in found.budgets)
    return replace(options, memory=max(limits))


def _launch(recipe: ModelRecipe, request: RenderRequest) -> Launch | UsageError:
    """The launch as far as memory goes, or the mistake of the recipe that hides it."""
    try:
        return served_model(recipe, replace(request, nodes=()), own_releases()).launch
    except UsageError as error:
        return error


def _cap(
    reporter: Reporter, options: Options, image: str, found: Estimate | None, launch: Launch | UsageError
) -> float | None:
    """The part of a node's memory that PyTorch may take; None without a cap, and why is said.

    Raises UsageError for a launch that is not known, when the user asks for the cap.
    """
    if isinstance(launch, UsageError):
        if options.cap:
            raise launch
        if options.cap is None and options.gpus:
            reporter.say(f"{launch.message}, so nothing caps what PyTorch takes")
        return None
    if options.cap is False or not options.gpus or (launch.engine not in SINCE and not options.cap):
        return None
    known = torch_knows(image, launch.engine)
    if not known and not options.cap:
        why = "is not known" if known is None else f"is older than 2.10, which has no {KEY}"
        reporter.say(
            f"{image}: its release of PyTorch {why}, so nothing caps what it takes (--torch-cap does it anyway)"
        )
        return None
    machine = Machine(figures=load_figures())
    if found and options.memory is None:
        size = max(torch_bytes(budget, machine) for budget in found.budgets)
    else:
        size = torch_bytes_unknown(machine, launch.fraction, nodes=launch.nodes, limit=options.memory)
    if not size:
        reporter.say("--memory is less than what is not PyTorch's, so nothing caps what PyTorch takes")
        return None
    return fraction_of(size, machine)


def with_script_cap(reporter: Reporter, recipe: ModelRecipe, request: RenderRequest, options: Options) -> RenderRequest:
    """The request for a script of ours that sets the cap beside the recipe's variables; another launcher's stays."""
    if request.peer:
        return request
    if recipe.format == "v1":
        reporter.say("the script is that of eugr's launcher, without a cap of PyTorch's memory (--as docker has one)")
        return request
    variants = own_section(recipe).variants
    chosen = variants[request.variant].overrides if request.variant in variants else ()
    told = {key[4:]: value for key, value in (*chosen, *request.overrides) if key.startswith("env.")}
    environment = {**{key: str(value) for key, value in recipe.env.items()}, **told}
    found = known_estimate(recipe, request)
    fraction = _cap(reporter, options, recipe.container or "", found, _launch(recipe, request))
    more = ((f"env.{key}", value) for key, value in with_memory_cap(environment, fraction).items() if key in NAMES)
    added = [(key, value) for key, value in more if environment.get(key[4:]) != value]
    return replace(request, overrides=(*request.overrides, *added))


def in_script(recipe: ModelRecipe, fraction: float | None) -> ModelRecipe:
    """A recipe of version 1 whose script sets the cap where it sets PyTorch's variables itself."""
    environment = {key: str(value) for key, value in recipe.env.items()}
    if recipe.format != "v1" or not set(NAMES) & set(environment):
        return recipe
    return replace(recipe, values={**recipe.values, "env": with_memory_cap(environment, fraction)})


def cap_lines(service: Service) -> list[str]:
    """What a user should know of the cap: how much, a cap of the recipe's own, a command that sets the variable."""
    options, container = service.options, service.ranks[0].container
    if options.torch is None:
        return []
    found, total = cap_of(container.environment), Machine(figures=load_figures()).total
    size = f"PyTorch may take {gib((found or 0) * total)} of each node"
    if found is None:
        return [f"nothing caps what PyTorch takes: with {ASYNC}, or with a {KEY} that is no number, it holds none"]
    if found != options.torch:
        return [f"{size}, as the recipe's own {KEY} says"]
    if any(name in container.command for name in NAMES) and f"{KEY}:{options.torch:g}" not in container.command:
        return ["the command sets PyTorch's variable itself, so gb10's cap of its memory is not in it"]
    return [f"{size} ({KEY}:{found:g}; --no-torch-cap)"]
