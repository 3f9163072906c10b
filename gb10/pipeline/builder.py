"""The builder: one BuildKit build of the pipeline, its full log kept in the store."""

from collections.abc import Callable
from pathlib import Path

from gb10.engine.buildx import BuildRequest, BuildResult, build, open_buildx
from gb10.engine.connection import Engine
from gb10.engine.progress import Event, LogLine
from gb10.pipeline.workshop import Workshop


def run_build(
    shop: Workshop, engine: Engine, request: BuildRequest, name: str, on_event: Callable[[Event], None]
) -> BuildResult:
    """Build; every line a step prints is shown when verbose. Raises BuildError with the log's path."""

    def events(event: Event) -> None:
        if isinstance(event, LogLine):
            shop.talk.detail(event.text)
        on_event(event)

    buildx = open_buildx(engine, shop.env, shop.store)
    return build(buildx, request, log=log_path(shop, name), on_event=events)


def log_path(shop: Workshop, name: str) -> Path:
    """Where a step's full log goes; the last one of each step is kept."""
    return shop.store.root / "logs" / f"{name}.log"
