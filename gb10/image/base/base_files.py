"""Single files of an image of others: from the engine that has the image, else from its registry, once."""

import json
from base64 import b64decode, b64encode
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from gb10.containers.images import find_image, read_folders
from gb10.containers.reach import connect_if_running
from gb10.core.files import digest as key_of
from gb10.core.store import note_use
from gb10.image.base.base_reading import files_of
from gb10.image.base.kept_layers import SECTION
from gb10.image.context import Context
from gb10.image.recipe.base_image import BaseImage

FILE: Final = "files.json"


def read_base_files(ctx: Context, base: BaseImage, paths: Sequence[str]) -> dict[str, bytes]:
    """The regular files of an image among these absolute paths. Nothing of the image runs.

    The engine that has the image is asked first. Else the layers that hold them are read, and what was found is kept.
    Raises EngineError, and as ``files_of``.
    """
    engine = connect_if_running(ctx.env, ctx.store)
    image = find_image(engine, base.reference) if engine else None
    if engine and image:
        found, _ = read_folders(engine, ctx.store, image, paths)
        return {path: found[path] for path in paths if path in found}
    place = ctx.store.entry(SECTION, key_of(["files", base.digest, sorted(paths)]))
    with ctx.store.locked(f"base-{place.name}", ctx.reporter.waiting_for("files of the base")):
        if not (place / FILE).is_file():
            with ctx.reporter.task(f"read {len(paths)} files of {base.reference}"):
                read = files_of(ctx, base, paths, engine=engine)
            packed = json.dumps({path: b64encode(content).decode() for path, content in read.items()})
            ctx.store.replace(place, lambda folder: _write(folder, packed))
        note_use(place / FILE)
        kept: dict[str, str] = json.loads((place / FILE).read_text(encoding="utf-8"))
    return {path: b64decode(content) for path, content in kept.items()}


def _write(folder: Path, text: str) -> None:
    (folder / FILE).write_text(text, encoding="utf-8")
