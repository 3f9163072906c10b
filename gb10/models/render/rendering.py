"""One way in: a recipe and a request become what runs, as the peer does it or as the recipe's own format says. Pure."""

from dataclasses import replace

from gb10.models.issue import Issue, errors_of, in_order
from gb10.models.load.model_recipe import ModelRecipe
from gb10.models.load.own_section import own_section
from gb10.models.render.eugr import render_eugr
from gb10.models.render.findings import Findings, StoppedError
from gb10.models.render.own import render_own
from gb10.models.render.rendered import RenderedRecipe, RenderRequest
from gb10.models.render.sparkrun import render_sparkrun, runtime_of


def render_recipe(recipe: ModelRecipe, request: RenderRequest) -> RenderedRecipe:
    """The recipe as it runs. With an error nothing is rendered; lenient, only what stops the peer is an error.

    Without a peer, version 1 runs as eugr's launcher runs it, and all others in a form of ours.
    """
    found = Findings(recipe)
    try:
        request = _with_variant(recipe, request, found)
        if request.peer == "sparkrun":
            rendered = render_sparkrun(recipe, request, found)
        elif request.peer == "eugr" or recipe.format == "v1":
            rendered = render_eugr(recipe, request, found)
        else:
            rendered = render_own(recipe, request, found)
    except StoppedError:
        return _refused(recipe, request, found.result(lenient=request.lenient))
    issues = found.result(lenient=request.lenient)
    return _refused(recipe, request, issues) if errors_of(issues) else replace(rendered, issues=issues)


def _with_variant(recipe: ModelRecipe, request: RenderRequest, found: Findings) -> RenderRequest:
    """The request with the variant's parameters before its own; raises StoppedError for one that is none."""
    if request.variant is None:
        return request
    variants = own_section(recipe).variants
    if request.variant not in variants:
        known = f"choose one of {', '.join(variants)}" if variants else "leave --variant out: the recipe has none"
        found.stop("unknown-variant", f"the recipe has no variant '{request.variant[:80]}'", known, "gb10", "variants")
        found.refuse()
    return replace(request, overrides=(*variants[request.variant].overrides, *request.overrides))


def with_issues(rendered: RenderedRecipe, found: tuple[Issue, ...]) -> RenderedRecipe:
    """A rendering with more issues; an error takes the script away."""
    issues = in_order((*rendered.issues, *found))
    if not errors_of(found):
        return replace(rendered, issues=issues)
    return RenderedRecipe(runtime=rendered.runtime, image=rendered.image, script=None, issues=issues)


def _refused(recipe: ModelRecipe, request: RenderRequest, issues: tuple[Issue, ...]) -> RenderedRecipe:
    runtime = runtime_of(recipe, request.overrides)
    return RenderedRecipe(runtime=runtime, image=recipe.container, script=None, issues=issues)
