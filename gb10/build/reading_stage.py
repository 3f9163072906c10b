"""A stage of the building machine that looks at images and exports what it found; nothing of them runs."""

from collections.abc import Mapping
from pathlib import Path

from gb10.build.contexts import build_context
from gb10.build.stage import run_build
from gb10.engine.buildx.build import BuildRequest
from gb10.engine.connection import Engine
from gb10.plan.values import Step
from gb10.workshop import Workshop, build_architecture


def read_by_stage(shop: Workshop, engine: Engine, step: Step, files: Mapping[str, Path | bytes], out: Path) -> None:
    """Export the stage ``result`` of the Dockerfile among ``files`` to ``out``; the log is the step's.

    Raises BuildError, EngineError.
    """
    with build_context(shop.store, files, {}) as context:
        request = BuildRequest(
            dockerfile=context.folder / "Dockerfile",
            target="result",
            context=context.folder,
            platform=f"linux/{build_architecture()}",
            out=out,
        )
        run_build(shop, engine, request, step, lambda event: None)
