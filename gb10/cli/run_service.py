"""The service of a command line: for `run`, and for benchmarks that launch a recipe."""

from collections.abc import Callable
from dataclasses import replace

from gb10.cli.cluster_files import alone, nodes_named
from gb10.cli.run_memory import with_budget
from gb10.cli.run_weights import with_weights
from gb10.cli.wanted_service import Wanted, described, require_room
from gb10.errors import UsageError
from gb10.host.ssh import HERE
from gb10.models.issue import lines_of
from gb10.models.load.model_recipe import ModelRecipe
from gb10.serve.placing import named, placed
from gb10.serve.service import Options, Service, shift_of
from gb10.workshop import Workshop


def service_from(
    shop: Workshop, loaded: ModelRecipe, wanted: Wanted, options: Options
) -> tuple[Service, Callable[[Service], Service]]:
    """The service of the command line, and what gives it the addresses of its nodes. Raises UsageError.

    What a user should know is said. No node is asked yet.
    """
    cluster = nodes_named(shop.env, wanted.nodes) or alone(HERE)
    wanted = replace(wanted, hosts=cluster.nodes if wanted.nodes else ())
    require_room(loaded, wanted)
    options = with_budget(shop.talk, loaded, wanted.request, options)
    found = described(loaded, wanted, named(cluster), options)
    for line in lines_of([issue for issue in found.issues if issue.code != "mods-not-applied"]):
        shop.talk.say(line)
    if options.restart and len(found.service.ranks) > 1:
        hint = "let systemd start all of them again: docs/run.md"
        raise UsageError("--restart is for one node: Docker would start a rank without the others", hint=hint)

    def seen(service: Service) -> Service:
        return with_weights(shop.talk, service, loaded, wanted.weights)

    def place(asked: Service) -> Service:
        request = replace(wanted.request, shift=shift_of(asked.port))
        nodes = placed(shop.talk, cluster.model_copy(update={"nodes": asked.hosts}))
        service = described(loaded, replace(wanted, request=request), nodes, options).service
        return replace(seen(service), asked=asked.digest)

    return seen(found.service), place
