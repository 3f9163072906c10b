"""The memory that `run` gives a container: that of the command line, else what the model is known to take."""

from dataclasses import replace

from gb10.cli.recipe_fit import known_estimate
from gb10.host.talk import Talk
from gb10.memory.container_limit import container_memory
from gb10.memory.engines.shared import Machine
from gb10.memory.figures import load_figures
from gb10.models.load.model_recipe import ModelRecipe
from gb10.models.render.rendered import RenderRequest
from gb10.serve.service import Options


def with_budget(talk: Talk, recipe: ModelRecipe, request: RenderRequest, options: Options) -> Options:
    """The options with a limit in bytes, the same on each node; unchanged when the model's sizes are not known."""
    if options.memory is not None:
        return options
    found = known_estimate(recipe, request)
    if found is None:
        talk.say(f"{recipe.name}: the sizes of its model are not known, so its containers have no limit (--memory GIB)")
        return options
    machine = Machine(figures=load_figures())
    limits = (container_memory(budget, found.launch, machine).limit for budget in found.budgets)
    return replace(options, memory=max(limits))
