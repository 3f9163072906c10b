"""One way in: a recipe and the rules become findings, those of loading and rendering among them. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from gb10.lint.computed import CHECKS
from gb10.lint.conditions import applies, issue, judged
from gb10.lint.engine_source import ENGINES
from gb10.lint.engine_words import releases
from gb10.lint.image_facts import ImageFacts
from gb10.lint.rule import Rule
from gb10.lint.served import Served, served
from gb10.models.issue import Issue, in_order
from gb10.models.load.model_recipe import ModelRecipe

SUPERSEDED = {
    "unknown-environment": ("moved-linear-backend", "moved-moe-backend", "moved-attention-backend", "trtllm-variable"),
    "token-in-env": ("secret-in-env",),
    "graph-not-a-multiple": ("graph-smaller-than-batch", "graph-without-drafts"),
}
"""Rules that say the same with less than these."""


def lint(
    recipe: ModelRecipe,
    rules: Sequence[Rule],
    *,
    release: str | None = None,
    image: ImageFacts | None = None,
    added: frozenset[str] | None = None,
) -> tuple[Issue, ...]:
    """The findings in the order of the file. ``release`` and ``image`` are in place of what the recipe names.

    ``added`` are the options that its mods add, when all of them are known.
    """
    case = served(recipe, own_releases())
    case = case if added is None else replace(case, added=added, foreign=False)
    if image:
        case = replace(case, release=image.release or case.release, patches=image.patches)
    case = replace(case, release=release) if release else case
    found = [finding for rule in rules for finding in findings(rule, case)]
    better = {(other.line, code) for other in found for code, by in SUPERSEDED.items() if other.code in by}
    kept = [one for one in found if (one.line, one.code) not in better]
    return in_order((*recipe.issues, *case.issues, *kept))


def own_releases() -> dict[str, str]:
    """The engine releases of our images, which are the newest that the checkout has words of."""
    return {engine: known[-1] for engine in ENGINES if (known := releases(engine))}


def findings(rule: Rule, case: Served) -> Iterator[Issue]:
    """What one rule finds."""
    if rule.when:
        yield from judged(rule, case)
    elif applies(rule, case):
        for place in CHECKS[rule.code](case):
            yield issue(rule, case, place)
