"""The service that a recipe and a command line describe: for ``run``, and for the files of other launchers."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gb10.cli.models.recipe_fit import memory_issues
from gb10.cli.models.recipe_mods import surely_foreign
from gb10.cli.models.recipe_show import refused
from gb10.cli.models.recipe_trust import powers_here
from gb10.cli.models.recipe_weights import render_locked
from gb10.cli.models.run_memory import in_script
from gb10.core.reporter import Reporter
from gb10.errors import UsageError
from gb10.models.issue import Issue, errors_of, lines_of
from gb10.models.load.model_recipe import ModelRecipe
from gb10.models.powers import Power
from gb10.models.registries.recipe_file import RecipeFile
from gb10.models.render.argv import judged
from gb10.models.render.rendered import RenderedRecipe, RenderRequest
from gb10.serving.run.service import Options, Service, service_of
from gb10.serving.run.service_nodes import Node
from gb10.serving.weights.model_lock import WeightsLock


@dataclass(frozen=True, kw_only=True, slots=True)
class Wanted:
    """What a command line wants of a recipe."""

    hosts: tuple[str, ...]
    request: RenderRequest
    image: str | None
    name: str | None
    nodes: str | None = None
    """The nodes as typed, if they are not known yet: ``A,B`` or ``@CLUSTER``."""
    trust: bool = False
    file: RecipeFile | None = None
    """Where the recipe is from: one of somebody else is started without a shell, or with trust."""
    weights: WeightsLock | None = None
    """The lock of weights that were pulled."""

    def given(self, arguments: Sequence[str]) -> "Wanted":
        """The same with more arguments of the engine."""
        return replace(self, request=replace(self.request, arguments=tuple(arguments)))


@dataclass(frozen=True, kw_only=True, slots=True)
class Described:
    """A service, the recipe with the image that it runs, and what that was rendered to."""

    service: Service
    recipe: ModelRecipe
    rendered: RenderedRecipe
    powers: tuple[Power, ...] = ()
    """What it may do that the user has not allowed; then it must not run."""

    @property
    def issues(self) -> tuple[Issue, ...]:
        """What a user should know."""
        return self.rendered.issues


def require_room(reporter: Reporter, recipe: ModelRecipe, wanted: Wanted) -> None:
    """Raise UsageError when the model is known not to fit into the nodes' memory; say what else is known of it."""
    issues = memory_issues(recipe, wanted.request)
    if errors_of(issues):
        raise refused(recipe, issues)
    for line in lines_of(issues):
        reporter.say(line)


def described(loaded: ModelRecipe, wanted: Wanted, nodes: Sequence[Node], options: Options) -> Described:
    """The service on these nodes. Raises UsageError for a recipe with a mistake, or without an image."""
    loaded = in_script(loaded, options.torch)
    if wanted.image:
        loaded = replace(loaded, values={**loaded.values, "container": wanted.image})
    if errors_of(loaded.issues):
        raise refused(loaded, loaded.issues)
    if not loaded.container:  # sparkrun takes an image of its own choice, by a tag that moves
        raise UsageError(f"{loaded.name} names no image", where=loaded.file, hint="name one: --image REF")
    addresses = tuple(node.address for node in nodes) if wanted.hosts else ()
    rendered = render_locked(loaded, replace(wanted.request, nodes=addresses), wanted.weights)
    if errors_of(rendered.issues):
        raise refused(loaded, rendered.issues)
    if not rendered.ranks:
        raise UsageError(f"{loaded.name} runs on several nodes", hint="name them: --nodes HEAD,WORKER")
    powers: tuple[Power, ...] = ()
    if wanted.file is not None and not wanted.trust:
        mods = surely_foreign(loaded, wanted.file)
        powers = powers_here(loaded, wanted.file, mods, rendered, chosen_image=bool(wanted.image))
        words = () if wanted.file.trusted else judged(loaded, rendered).containers
        rendered = replace(rendered, containers=words) if words else rendered
    service = service_of(
        name=wanted.name or loaded.stem,
        model=loaded.model,
        rendered=rendered,
        nodes=nodes,
        mods=loaded.mods,
        options=options,
    )
    return Described(service=service, recipe=loaded, rendered=rendered, powers=powers)
