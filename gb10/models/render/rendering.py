"""One way in: a recipe and a request become what runs, as the peer does it or as the recipe's own format says. Pure."""

from dataclasses import replace
from typing import Final

from gb10.models.issue import Issue, errors_of, in_order
from gb10.models.load.model_recipe import ModelRecipe
from gb10.models.load.own_section import own_section
from gb10.models.render.eugr import render_eugr
from gb10.models.render.own import render_own
from gb10.models.render.rendered import Findings, RenderedRecipe, RenderRequest, StoppedError
from gb10.models.render.sparkrun import render_sparkrun, runtime_of
from gb10.models.render.topology import SIZES

WITHOUT_EFFECT: Final = "set-without-effect"
"""The code of the issue of a parameter that changes nothing."""


def render_recipe(recipe: ModelRecipe, request: RenderRequest) -> RenderedRecipe:
    """The recipe as it runs. With an error nothing is rendered; lenient, only what stops the peer is an error.

    Without a peer, version 1 runs as eugr's launcher runs it, and all others in a form of ours.
    """
    found = Findings(recipe)
    try:
        if request.peer is None:
            request = replace(request, given=tuple(key.strip() for key, _ in request.overrides))
        request = _with_variant(recipe, request, found)
        if request.peer == "sparkrun":
            rendered = render_sparkrun(recipe, request, found)
        elif request.peer == "eugr" or recipe.format == "v1":
            rendered = render_eugr(recipe, request, found)
        else:
            rendered = render_own(recipe, request, found)
    except StoppedError:
        return _refused(recipe, request, found.result(lenient=request.lenient))
    if request.peer is None:
        _check_effect(recipe, request, rendered, found)
    issues = found.result(lenient=request.lenient)
    return _refused(recipe, request, issues) if errors_of(issues) else replace(rendered, issues=issues)


def _check_effect(recipe: ModelRecipe, request: RenderRequest, rendered: RenderedRecipe, found: Findings) -> None:
    """Warn of a parameter that the user sets and that changes nothing, as where its variant is not chosen."""
    for key in request.given:
        plain = key.partition(".")[0]
        same = [value for name, value in request.overrides if name.strip() == key][-1:] == [
            str(recipe.defaults.get(key))
        ]
        if plain in ("env", *SIZES) or same:
            continue
        others = tuple(pair for pair in request.overrides if pair[0].strip() != key)
        without = _rendered(recipe, replace(request, overrides=others), Findings(recipe))
        if without is not None and _runs(without) == _runs(rendered):
            fix = "correct its name, or choose the variant that uses it: recipe show lists them"
            found.add("warning", WITHOUT_EFFECT, f"--set {key[:80]} changes nothing of what runs", fix)


def _rendered(recipe: ModelRecipe, request: RenderRequest, found: Findings) -> RenderedRecipe | None:
    try:
        return render_eugr(recipe, request, found) if recipe.format == "v1" else render_own(recipe, request, found)
    except StoppedError:
        return None


def _runs(rendered: RenderedRecipe) -> object:
    return rendered.script, rendered.ranks, rendered.runtime


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
