"""The service of a command line: for `run`, and for benchmarks that launch a recipe."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from gb10.cli.models.cluster_files import alone, nodes_named
from gb10.cli.models.recipe_trust import lines_of_powers, require_trust
from gb10.cli.models.run_image import image_made
from gb10.cli.models.run_memory import cap_lines, with_budget
from gb10.cli.models.run_weights import with_weights
from gb10.cli.models.wanted_service import Described, Wanted, described, require_room
from gb10.core.ssh import HERE
from gb10.errors import UsageError
from gb10.image.context import Context
from gb10.models.issue import lines_of
from gb10.models.load.model_recipe import ModelRecipe
from gb10.serving.run.ports import on_free_ports
from gb10.serving.run.service import Options, Service
from gb10.serving.run.service_nodes import named, placed


@dataclass(frozen=True, kw_only=True, slots=True)
class Placing:
    """What a service gets from its nodes: ``place`` their addresses, ``meet`` ports that are free there."""

    place: Callable[[Service], Service]
    meet: Callable[[Service], Service]


def service_from(
    ctx: Context, loaded: ModelRecipe, wanted: Wanted, options: Options, *, only_show: bool = False
) -> tuple[Service, Placing]:
    """The service of the command line, and what it gets from its nodes. Raises UsageError.

    What a user should know is said. No node is asked yet. A recipe of somebody else that needs trust has none, unless
    the service is only shown.
    """
    cluster = nodes_named(ctx.env, wanted.nodes) or alone(HERE)
    wanted = replace(wanted, hosts=cluster.nodes if wanted.nodes else ())
    require_room(ctx.reporter, loaded, wanted)
    wanted = replace(wanted, image=image_made(ctx, loaded, wanted.image))
    options = with_budget(ctx.reporter, loaded, wanted.request, options, wanted.image or loaded.container or "")
    allowed = partial(_allowed, loaded, wanted, only_show=only_show)
    found = allowed(described(loaded, wanted, named(cluster), options))
    for line in lines_of_powers(loaded, found.powers):
        ctx.reporter.say(f"needs --trust: {line}")
    if _runs_foreign_code(loaded, wanted):
        ctx.reporter.say(
            "the recipe is another's: code of its model runs (--trust-remote-code), your Hub token at hand"
        )
    told = lines_of([issue for issue in found.issues if issue.code != "mods-not-applied"])
    for line in (*told, *cap_lines(found.service)):
        ctx.reporter.say(line)
    if options.restart and len(found.service.ranks) > 1:
        hint = "let systemd start all of them again: docs/run.md"
        raise UsageError("--restart is for one node: Docker would start a rank without the others", hint=hint)

    def seen(service: Service) -> Service:
        return with_weights(ctx.reporter, service, loaded, wanted.weights)

    def place(asked: Service) -> Service:
        nodes = placed(ctx.reporter, cluster.model_copy(update={"nodes": asked.hosts}))
        return replace(seen(allowed(described(loaded, wanted, nodes, options)).service), asked=asked.digest)

    def meet(asked: Service) -> Service:
        def moved(step: int) -> Service:
            nodes, request = [rank.node for rank in asked.ranks], replace(wanted.request, step=step)
            service = allowed(described(loaded, replace(wanted, request=request), nodes, options)).service
            return replace(seen(service), asked=asked.digest)

        return on_free_ports(ctx.reporter, asked, moved)

    return seen(found.service), Placing(place=place, meet=meet)


def _runs_foreign_code(loaded: ModelRecipe, wanted: Wanted) -> bool:
    """Whether a recipe of somebody else, not trusted, lets the model's repository bring code."""
    foreign = wanted.file is not None and not wanted.file.trusted and not wanted.trust
    return foreign and "--trust-remote-code" in (loaded.command or "")


def _allowed(loaded: ModelRecipe, wanted: Wanted, found: Described, *, only_show: bool) -> Described:
    """What was found; raises UsageError when it may not run, unless it is only shown."""
    if wanted.file is not None and not only_show:
        require_trust(loaded, wanted.file, found.powers, trust=wanted.trust)
    return found
