"""The image of a service: present on every node, pulled by digest where it is missing, and the same everywhere."""

from collections.abc import Mapping

from gb10.containers.engine_host import EngineHost
from gb10.containers.images import ImageInfo, find_image
from gb10.containers.reference import registry_of
from gb10.core.machine import ARCHITECTURES
from gb10.core.ssh import HERE
from gb10.errors import EngineError, UsageError
from gb10.image.context import Context
from gb10.image.publish.pulling import LOCAL, pull_everywhere
from gb10.serving.run.fleet import Fleet, on_all_nodes

BUILD = (
    "it names no registry: build it here (./build.py image --recipe NAME), or name a published one:\n"
    "--image REGISTRY/NAME:TAG"
)
SAME = "pull it to every node: ./build.py pull REF --host NODE --host NODE"


def ready_images(
    ctx: Context, fleet: Fleet, reference: str, machines: Mapping[str, EngineHost]
) -> dict[str, ImageInfo]:
    """The image on each node. Raises UsageError where it cannot be had or cannot run, PublishError of the pull."""
    found = on_all_nodes(lambda _, engine: find_image(engine, reference), fleet)
    missing = [host for host, image in found.items() if image is None]
    if missing:
        _pull(ctx, reference, missing)
        found = on_all_nodes(lambda _, engine: find_image(engine, reference), fleet)
    images = {host: image for host, image in found.items() if image is not None}
    _check_same(images)
    for host, image in images.items():
        _check_platform(host, image, machines[host].machine, reference)
    return images


def _pull(ctx: Context, reference: str, hosts: list[str]) -> None:
    if registry_of(reference) is None:
        where = f"{', '.join(hosts)}: no image {reference}"
        raise UsageError(f"the image is not on {_count(hosts)}", where=where, hint=BUILD)
    ctx.reporter.say(f"{reference}: missing on {', '.join(hosts)}; pulling it")
    pull_everywhere(ctx, reference, [LOCAL if host == HERE else host for host in hosts], None)


def _count(hosts: list[str]) -> str:
    return "this machine" if hosts == [HERE] else f"{len(hosts)} node{'s' * (len(hosts) > 1)}"


def _check_same(images: Mapping[str, ImageInfo]) -> None:
    """Ids differ between kinds of image stores; the layers of one image do not."""
    layers = {host: image.diff_ids for host, image in images.items()}
    if len(set(layers.values())) > 1:
        where = "\n".join(f"{host}: {image.id[:19]}, {len(image.diff_ids)} layers" for host, image in images.items())
        raise EngineError("the nodes have different images under this name", where=where, hint=SAME)


def _check_platform(host: str, image: ImageInfo, machine: str, reference: str) -> None:
    runs = f"linux/{ARCHITECTURES.get(machine, machine)}"
    if not image.platform.startswith(runs):
        hint = "run it on a Spark: --nodes NAME"
        raise UsageError(f"{reference} is for {image.platform}, and {host} runs {runs}", hint=hint)
