"""A rehearsal: the engine serves a model without a GPU while it is built, and its kernels become a layer. Pure."""

import json
from typing import Final

from gb10.core.files import digest
from gb10.image.plan.compiles import INSTALLER
from gb10.image.plan.inputs import artifacts
from gb10.image.plan.options import Options
from gb10.image.plan.render import environment
from gb10.image.plan.values import Plan, Step, Toolkit
from gb10.image.recipe.image_recipe import Recipe

PROGRAM: Final = tuple(
    f"inside/{name}.py" for name in ("compiler_text", "compilers", "elf", "rehearsal", "sealed", "triton_key")
)
"""What runs the rehearsal in its stage."""
SCRIPTS: Final = (
    "explain/child",
    "explain/operators.py",
    *(f"inside/{name}.py" for name in ("elf", "gb10_b12x", "gb10_caches", "launch")),
)
"""What runs over the engine, what looks into the caches of the image, and what starts a compiler."""
CAPABILITY: Final = "12.1"


def why_none(recipe: Recipe, toolkit: Toolkit, options: Options) -> str:
    """Why no rehearsal is possible, empty when one is."""
    known = toolkit.rehearsals.get(recipe.engine)
    if known is None or known.engine != recipe.version:
        release = f"is for {known.engine}" if known else "does not exist"
        return f"the rehearsal of {recipe.engine} {release}, the recipe has {recipe.version}"
    if options.arch.capability != CAPABILITY or options.target != "arm64":
        return f"it answers for capability {CAPABILITY} on arm64, and this is {options.arch} on {options.target}"
    return ""


def rehearsal_steps(draft: Plan, toolkit: Toolkit, tools: Step, below: tuple[Step, ...]) -> tuple[Step, ...]:
    """The rehearsal and its layers; none without a model. ``below``: the layers under them."""
    served, overlay = draft.options.served, draft.options.overlay
    if served is None:
        return ()
    known = toolkit.rehearsals[draft.recipe.engine]
    twins = set(known.twins)
    wheels = tuple(wheel for wheel in draft.lock.wheels.image[draft.options.build] if wheel.name in twins)
    under = [[step.key for step in below], overlay.digest if overlay else None]
    own = toolkit.of(INSTALLER, *PROGRAM, *SCRIPTS)
    rehearsal = Step(
        name="rehearsal",
        kind="rehearsal",
        key=digest(
            ["rehearsal", tools.key, under, [wheel.sha256 for wheel in wheels], request_text(draft, toolkit), own]
        ),
        needs=(tools.name, *(step.name for step in below)),
        files=artifacts(draft.recipe, wheels),
        about=f"{draft.recipe.engine} serves {served.name} without a GPU; its kernels are compiled",
    )
    return (rehearsal, *(_layer(f"cache-{name}", about, rehearsal) for name, about in known.caches.items()))


def _layer(name: str, about: str, rehearsal: Step) -> Step:
    """One cache, as the program writes it."""
    key = digest(["cache", name, rehearsal.key])
    return Step(name=name, kind="cache", key=key, needs=(rehearsal.name,), about=about)


def request_text(plan: Plan, toolkit: Toolkit) -> str:
    """What the rehearsal reads, as JSON; the plan must have a model."""
    if plan.options.served is None:
        raise ValueError("a plan without a model has no rehearsal")
    served, known = plan.options.served, toolkit.rehearsals[plan.recipe.engine]
    request = known.request(json.loads(served.config), dict(served.options), dict(environment(plan)))
    return json.dumps(request, indent=1, sort_keys=True) + "\n"
