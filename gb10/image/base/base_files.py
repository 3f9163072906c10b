"""Single files of an image of others: from the engine that has the image, else from the layer that holds them."""

from collections.abc import Sequence

from gb10.containers.images import find_image, read_folders
from gb10.containers.reach import connect_if_running
from gb10.errors import UncheckedError
from gb10.image.context import Context
from gb10.image.recipe.base_image import BaseImage


def read_base_files(ctx: Context, base: BaseImage, paths: Sequence[str]) -> dict[str, bytes]:
    """The regular files of an image among these absolute paths. Nothing of the image runs.

    Raises EngineError, PublishError, UncheckedError.
    """
    engine = connect_if_running(ctx.env, ctx.store)
    image = find_image(engine, base.reference) if engine else None
    if engine and image:
        found, _ = read_folders(engine, ctx.store, image, paths)
        return {path: found[path] for path in paths if path in found}
    raise UncheckedError("TODO", where=base.reference)
