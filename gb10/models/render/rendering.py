"""One way in: a recipe and a request become what runs, as the peer does it or as the recipe's own format says. Pure."""

from gb10.models.issue import errors_of
from gb10.models.load.model_recipe import ModelRecipe
from gb10.models.render.eugr import render_eugr
from gb10.models.render.findings import Findings, StoppedError
from gb10.models.render.rendered import Peer, RenderedRecipe, RenderRequest
from gb10.models.render.sparkrun import render_sparkrun, runtime_of


def peer_of(recipe: ModelRecipe) -> Peer:
    """Whose rules a recipe follows when nobody says: eugr's for version 1, sparkrun's for all others."""
    return "eugr" if recipe.format == "v1" else "sparkrun"


def render_recipe(recipe: ModelRecipe, request: RenderRequest) -> RenderedRecipe:
    """The recipe as it runs. With an error nothing is rendered; lenient, only what stops the peer is an error."""
    found = Findings(recipe)
    render = render_eugr if (request.peer or peer_of(recipe)) == "eugr" else render_sparkrun
    try:
        rendered = render(recipe, request, found)
    except StoppedError:
        rendered = None
    issues = found.result(lenient=request.lenient)
    if rendered is None or errors_of(issues):
        return RenderedRecipe(
            runtime=runtime_of(recipe, request.overrides), image=recipe.container, script=None, issues=issues
        )
    return RenderedRecipe(
        runtime=rendered.runtime,
        image=rendered.image,
        script=rendered.script,
        serve=rendered.serve,
        parameters=rendered.parameters,
        ranks=rendered.ranks,
        launch=rendered.launch,
        issues=issues,
    )
