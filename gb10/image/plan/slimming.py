"""Slimming: which rules bite on which layer. A rule is part of the key of these layers, and of no other. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from gb10.core.fields import requirement_name
from gb10.image.plan.options import Options
from gb10.image.recipe.locked import LockedWheel
from gb10.image.recipe.slim_rules import Extent, Licence, Rule, RuleFile, fits

Row = Mapping[str, Any]
RECIPES_OWN: Final[Extent] = "publishable"
"""The extent of the plain recipe, which alone gets the tag that moves."""
TARGET: Final = "arm64"
"""The rules are about GB10, and were measured with its wheels."""


def applied(rules: RuleFile, options: Options, wheels: Iterable[LockedWheel]) -> tuple[Rule, ...]:
    """The rules that bite on one of these wheels, in order, each with the releases that do."""
    found = _by_project(wheels)
    bites = (_narrowed(rule, found) for rule in wanted(rules, options))
    return tuple(rule for rule in bites if rule.files)


def wanted(rules: RuleFile, options: Options) -> tuple[Rule, ...]:
    """The rules that the options ask for."""
    if options.slim == "none" or options.target != TARGET:
        return ()
    return tuple(rule for rule in rules.rules if rule.publish or options.slim == "all")


def layer_rules(rules: RuleFile, options: Options, wheels: Iterable[LockedWheel]) -> tuple[Row, ...]:
    """What inside/slim.py reads for one layer: a row per rule and distribution."""
    found = tuple(wheels)
    return tuple(
        {"name": rule.name, "action": rule.action, "project": wheel.name, "files": patterns}
        | _changes(rule, rules.licence(wheel.name), options)
        for rule, projects in ((rule, rule.projects) for rule in wanted(rules, options))
        for wheel in found
        if wheel.name in projects and (patterns := _patterns(rule, wheel))
    )


def _changes(rule: Rule, licence: Licence | None, options: Options) -> dict[str, Any]:
    """What a rule that changes files needs to know: the licence, and the GPU whose code stays."""
    if licence is None or rule.action == "drop":
        return {}
    text = {"licence": {"file": licence.file, "sha256": licence.sha256}}
    if rule.action == "strip":
        return text
    return {**text, "capability": options.arch.capability, "hollow": rule.hollow}


def _by_project(wheels: Iterable[LockedWheel]) -> Mapping[str, list[LockedWheel]]:
    found: dict[str, list[LockedWheel]] = {}
    for wheel in wheels:
        found.setdefault(wheel.name, []).append(wheel)
    return found


def _narrowed(rule: Rule, wheels: Mapping[str, list[LockedWheel]]) -> Rule:
    """The rule for those of its releases that are among the wheels."""
    own = [
        release
        for release in rule.files
        if any(fits(release, wheel) for wheel in wheels.get(requirement_name(release), ()))
    ]
    files = {release: rule.files[release] for release in own}
    return rule.model_copy(update={"files": files, "mb": {release: rule.mb[release] for release in own}})


def _patterns(rule: Rule, wheel: LockedWheel) -> list[str]:
    return [pattern for release, patterns in rule.files.items() if fits(release, wheel) for pattern in patterns]
