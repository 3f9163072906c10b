"""Locked files in the store: wheels and source archives, from the index or from git, each accepted by its hash."""

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from gb10.core.fetch import intact
from gb10.core.files import Artifact
from gb10.core.host import Host
from gb10.image.context import Context, cores
from gb10.image.plan.values import Step


def fetch_files(ctx: Context, steps: Iterable[Step]) -> None:
    """The wheels and source archives of these steps: cached files are hashed, missing files are downloaded.

    Raises FetchError.
    """
    fetch_locked(ctx, tuple({file.sha256: file for step in steps for file in step.reads}.values()))


def fetch_locked(ctx: Context, files: Sequence[Artifact]) -> None:
    """The same for locked files that are in no step."""
    absent = absent_files(ctx, files)
    if not absent:
        return

    from gb10.sources.git.archive import fetch_checkout  # noqa: PLC0415 - for files that are not in the store
    from gb10.sources.index.client import fetch_all  # noqa: PLC0415 - the same

    for file in absent:
        ctx.stop.check()
        if file.checkout:
            with ctx.reporter.task(f"git {file.filename}"):
                fetch_checkout(ctx.store, ctx.env, file, file.checkout)
    listed = [file for file in absent if not file.checkout]
    if not listed:
        return

    def arrived(count: int) -> None:
        ctx.stop.check()
        ctx.reporter.advance(task, count)

    with ctx.reporter.task(f"download {len(listed)} files", sum(file.size for file in listed)) as task:
        fetch_all(listed, ctx.store, ctx.env, arrived)


def absent_files(host: Host, files: Sequence[Artifact]) -> list[Artifact]:
    """The files that are missing or damaged in the store: each is hashed before use."""

    def damaged(path: Path) -> None:
        host.reporter.say(f"{path.name} is damaged in the store: downloading it again")

    with ThreadPoolExecutor(cores()) as pool:
        good = pool.map(lambda file: intact(host.store, file, damaged), files)
        return [file for file, whole in zip(files, good, strict=True) if not whole]
