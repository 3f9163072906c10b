"""Images that would run something when a build stage stands on them."""

from gb10.containers.connection import Engine
from gb10.containers.images import ImageInfo, image_settings
from gb10.errors import UsageError


def refuse_triggers(engine: Engine, image: ImageInfo) -> None:
    """Raise UsageError for an image whose ONBUILD instructions a build stage above it would run; or EngineError."""
    if image_settings(engine, image.id).get("config OnBuild"):
        raise UsageError(
            f"{image.id} has ONBUILD instructions: reading it would run them",
            hint="look at them by docker inspect; an image of gb10 has none",
        )
