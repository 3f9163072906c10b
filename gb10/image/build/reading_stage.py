"""A stage of the building machine that looks at images and exports what it found; nothing of them runs."""

from collections.abc import Mapping
from pathlib import Path

from gb10.containers.buildx.build import BuildRequest
from gb10.containers.connection import Engine
from gb10.image.build.base_images import provide_bases
from gb10.image.build.contexts import build_context
from gb10.image.build.stage import run_build
from gb10.image.context import Context, build_architecture
from gb10.image.plan.values import Plan, Step


def read_by_stage(
    ctx: Context, engine: Engine, plan: Plan, step: Step, files: Mapping[str, bytes], *, out: Path
) -> None:
    """Export the stage ``result`` of the Dockerfile among ``files`` to ``out``; the log is the step's.

    The plan's build base fills the stage ``base-build``. Raises BuildError, EngineError, FetchError.
    """
    bases, lent = provide_bases(ctx, plan, engine, ["base-build"])
    with build_context(ctx.store, {**files, **bases}, {}) as context:
        request = BuildRequest(
            dockerfile=context.folder / "Dockerfile",
            target="result",
            context=context.folder,
            contexts=lent,
            platform=f"linux/{build_architecture()}",
            out=out,
        )
        run_build(ctx, engine, request, step, lambda event: None)
