"""Tags with a key: one that is in a registry is never moved; it names this image already, or nothing is pushed."""

import re
from typing import Final

from gb10.containers.connection import Engine
from gb10.containers.reference import split_reference
from gb10.containers.registry.access import access_to
from gb10.containers.registry.skopeo import open_skopeo
from gb10.containers.registry.transfer import Moves, resolve
from gb10.core.host import Host
from gb10.errors import PublishError
from gb10.image.publish.compressing import arrived, config_in
from gb10.image.publish.retries import REFUSED, tells

KEYED: Final = re.compile(r"-[0-9a-f]{12}$")
ABSENT: Final = tuple(word for word in REFUSED if word != "registry refused")
"""Not any refusal: a registry that is busy or broken may well have the tag."""
OTHER: Final = (
    "the inputs are the same, the bytes or labels are not (a local checkout at another commit?);\n"
    "use the image that is there, or push to a tag of your own: REGISTRY/NAME:TAG"
)


def existing_tag(host: Host, engine: Engine, name: str, config: str) -> Moves | None:
    """What a push of a tag with a key would find when it is there; None when it is not, or has no key.

    Raises PublishError when the tag names another image.
    """
    if not KEYED.search(split_reference(name)[1]):
        return None
    try:
        digest = resolve(engine, name).digest
    except PublishError as error:
        if tells(error, ABSENT):  # as a rule none yet; else the push reports it, too
            return None
        raise
    with access_to(engine, host.env, name) as access:
        text = open_skopeo(host.store, host.env).manifest(f"{split_reference(name)[0]}@{digest}", access)
    found = config_in(text)
    if found != config:
        raise PublishError(
            f"{name} is in the registry and is another image: a tag with a key never moves",
            where=f"there {found}\nhere  {config}",
            hint=OTHER,
        )
    return arrived(text, Moves())
