"""Whether the engine would use its Triton kernel for a model's experts at all: ``explain`` answers."""

from gb10.cli.explain import engine_of
from gb10.errors import VerifyError
from gb10.image.context import Context
from gb10.image.explain.engine_choice import refuse
from gb10.image.request.kernel_choice import check_model, read_files

EXPERTS = "experts"


def expert_kernel(ctx: Context, engine: str, model: str, backend: str | None) -> str:
    """The kernel of a model's experts. Raises VerifyError when it is not Triton's, or when there are no experts."""
    asked = engine_of(ctx, engine)
    facts, options = asked.facts, {"moe_backend": backend} if backend else {}
    answer = asked.answer(ctx, check_model(read_files(ctx, model), model), options)
    refuse(answer, f"{engine} {facts.engine}")
    rows = [row for row in answer.rows if row.kind == EXPERTS]
    if not rows:
        raise VerifyError(f"{model} has no experts: there is nothing to tune", hint=f"./build.py explain {model}")
    chosen = rows[0].chosen or "unknown"
    if "triton" not in chosen.lower():
        raise VerifyError(
            f"{engine} {facts.engine} takes {chosen} for the experts of {model}, not Triton",
            where="a tuned file would never be read",
            hint="with --moe-backend triton the engine reads it; measure both before you choose",
        )
    if chosen in facts.about:
        ctx.reporter.say(f"{engine} {facts.engine} takes {chosen}: {facts.about[chosen]}")
    return chosen
