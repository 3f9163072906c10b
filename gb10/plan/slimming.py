"""Slimming: which rules bite on which layer. A rule is part of the key of these layers, and of no other. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from gb10.plan.options import Options
from gb10.recipe.locked import LockedWheel
from gb10.recipe.slim_rules import Extent, Rule, fits

Row = Mapping[str, Any]
RECIPES_OWN: Final[Extent] = "publishable"
"""The extent of the plain recipe, which alone gets the tag that moves."""
TARGET: Final = "arm64"
"""The rules are about GB10, and were measured with its wheels."""


def applied(rules: Iterable[Rule], options: Options, wheels: Iterable[LockedWheel]) -> tuple[Rule, ...]:
    """The rules that bite on one of these wheels, in order."""
    found = tuple(wheels)
    return tuple(rule for rule in wanted(rules, options) if any(_patterns(rule, wheel) for wheel in found))


def wanted(rules: Iterable[Rule], options: Options) -> tuple[Rule, ...]:
    """The rules that the options ask for."""
    if options.slim == "none" or options.target != TARGET:
        return ()
    return tuple(rule for rule in rules if rule.publish or options.slim == "all")


def layer_rules(rules: Iterable[Rule], options: Options, wheels: Iterable[LockedWheel]) -> tuple[Row, ...]:
    """What inside/slim.py reads for one layer: a row per rule and distribution."""
    found = tuple(wheels)
    return tuple(
        {"name": rule.name, "action": rule.action, "project": wheel.name, "files": patterns}
        for rule in wanted(rules, options)
        for wheel in found
        if (patterns := _patterns(rule, wheel))
    )


def _patterns(rule: Rule, wheel: LockedWheel) -> list[str]:
    return [pattern for release, patterns in rule.files.items() if fits(release, wheel) for pattern in patterns]
