"""A plan as each kind of building machine has it: their results are the same bytes (decision 42). Pure."""

from dataclasses import replace

from gb10.core.fields import ARCHITECTURES
from gb10.image.plan.values import Plan


def on_each_machine(plan: Plan) -> tuple[Plan, ...]:
    """So a key covers what works on either machine, and is the same on both."""
    return tuple(replace(plan, options=replace(plan.options, build=name)) for name in ARCHITECTURES)
