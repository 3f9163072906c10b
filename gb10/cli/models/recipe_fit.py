"""Whether a recipe of a known model fits into its nodes' memory: an issue for ``render``, a line for ``show``."""

from collections.abc import Iterator
from dataclasses import replace

from gb10.errors import UsageError
from gb10.models.issue import Issue
from gb10.models.lint.linting import own_releases
from gb10.models.lint.served_launch import served_model
from gb10.models.load.model_recipe import ModelRecipe
from gb10.models.memory.engines.budget import Budget, Machine, gib
from gb10.models.memory.estimating import NEARLY_FULL, Estimate, estimate
from gb10.models.memory.figures import load_figures
from gb10.models.memory.known_models import known_model
from gb10.models.render.rendered import RenderRequest

CODE = "does-not-fit"
FULL = "memory-nearly-full"
NOTED = "memory-note"


def memory_issues(recipe: ModelRecipe, request: RenderRequest) -> tuple[Issue, ...]:
    """An issue when a model whose sizes are known does not fit; a warning for another launcher's rules.

    And a warning when it fits, but leaves the node less than its reserve.
    """
    found = known_estimate(recipe, request)
    if found is None:
        return ()
    if found.fits:
        return tuple(_nearly_full(recipe, found))
    text = "; ".join(problem.text for problem in found.tightest.problems if not problem.warning)
    return (
        Issue(
            code=CODE,
            level="warning" if request.peer or request.lenient else "error",
            file=recipe.file,
            line=recipe.line("command"),
            text=f"it does not fit into a node's memory: {text}",
            fix=" or ".join(found.remedies),
        ),
    )


def _nearly_full(recipe: ModelRecipe, found: Estimate) -> Iterator[Issue]:
    """The warning of a launch that leaves less than the reserve but runs on some Sparks; and what was left out."""
    line = recipe.line("command")
    fix = "end what else runs on the node, or take a smaller share"
    for problem in found.tightest.problems:
        if problem.code in NEARLY_FULL:
            yield Issue(code=FULL, level="warning", file=recipe.file, line=line, text=problem.text, fix=fix)
    for note in found.notes:
        yield Issue(code=NOTED, level="note", file=recipe.file, line=line, text=note, fix="")


def known_estimate(recipe: ModelRecipe, request: RenderRequest) -> Estimate | None:
    """The estimate of a recipe, without the network; None when the model's sizes are not known."""
    try:
        served = served_model(recipe, replace(request, nodes=()), own_releases())
        model = known_model(served.model)
        return estimate(model, served.launch, Machine(figures=load_figures())) if model is not None else None
    except UsageError:
        return None


def one_line(recipe: ModelRecipe) -> str | None:
    """``103.9 of 121.7 GiB a node, 24.7 requests of full length``, for ``recipe show``."""
    found = known_estimate(recipe, RenderRequest())
    if found is None:
        return None
    budget = found.tightest
    if not found.fits:
        return f"does not fit: {next(problem.text for problem in budget.problems if not problem.warning)}"
    return f"{gib(budget.serving)} of {gib(budget.total)} a node{requests_of(budget, found)} (recipe memory)"


def requests_of(budget: Budget, found: Estimate) -> str:
    """How many requests of full length the cache holds, as the end of a sentence."""
    if budget.requests is None or not found.launch.length:
        return ""
    return f", {budget.requests:.1f} requests of {found.launch.length} tokens"
