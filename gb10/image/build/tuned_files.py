"""Files of tiles in an image, by the look-up of its engine's release: what is wrong with them."""

from collections.abc import Container
from typing import Final

from gb10.containers.connection import Engine
from gb10.containers.images import ImageInfo
from gb10.errors import FetchError, UsageError
from gb10.image.context import Context
from gb10.image.moe.file_verdict import FileVerdict, judge_files
from gb10.image.moe.image_files import read_image
from gb10.image.moe.staged import Sizes

SIZES: Final = Sizes(topk=8, group=128)
"""What `moe check` takes when nothing is said."""
Wrong = tuple[tuple[str, str], ...]


def tuned_problems(ctx: Context, engine: Engine, image: ImageInfo, reference: str, changed: Container[str]) -> Wrong:
    """Path and reason of each file that breaks the engine, and of each one ``changed`` here that it does not find.

    A release brings files for other releases of Triton, which it does not find. An engine that is not known, or whose
    release cannot be had, is told and not judged.
    """
    try:
        found = read_image(ctx, ctx.catalog.root, engine, image, reference)
        if not found.batch.files:
            return ()
        with ctx.reporter.task(f"files of tiles of {found.judge.engine}"):
            verdicts = judge_files(found.judge, found.batch, SIZES)
    except (FetchError, UsageError) as error:
        ctx.reporter.say(f"files of tiles are not judged: {error.message}")
        return ()
    placed = [(f"{found.site}/{verdict.path}".lstrip("/"), verdict) for verdict in verdicts]
    return tuple((path, why) for path, verdict in placed if (why := wrong(verdict, changed=path in changed)))


def wrong(verdict: FileVerdict, *, changed: bool) -> str:
    """What is wrong with a file, nothing if it is good or only one for another release. Pure."""
    if verdict.verdict == "not found":
        return f"the engine does not read it: {'; '.join(verdict.reasons)}" if changed else ""
    if verdict.verdict == "raises":
        return f"the engine stops: {verdict.told}"
    return "; ".join(dict.fromkeys(problem for row in verdict.rows for problem in row.problems))
