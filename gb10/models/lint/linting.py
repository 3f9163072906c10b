"""One way in: a recipe and the rules become findings, those of loading and rendering among them. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from gb10.core.checked import in_order as rows_in_order
from gb10.models.issue import Issue, in_order
from gb10.models.lint.checks import CHECKS
from gb10.models.lint.engine_words import own_releases
from gb10.models.lint.lint_parts import Linted, unchecked_parts
from gb10.models.lint.rule import Rule, applies, issue, matching_parts
from gb10.models.lint.served import ImageFacts, LintCase, lint_case
from gb10.models.load.known_keys import OURS
from gb10.models.load.model_recipe import ModelRecipe, Variant, own_section
from gb10.models.memory.model import Model

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
    mended: frozenset[str] = frozenset(),
    sizes: Model | None = None,
    case: LintCase | None = None,
) -> Linted:
    """The findings in the order of the file, and what was not looked at.

    ``release`` and ``image`` are in place of what the recipe names. ``added`` are the options that its mods add, when
    all of them are known, ``mended`` the patches that they stand for; ``sizes`` are the model's, of its files; ``case``
    is what the recipe serves, where it was rendered before. Each variant is looked at, too: what only it has stands at
    its line.
    """

    def known(case: LintCase) -> LintCase:
        case = _with_image(_sized(case, sizes), release, image, added)
        return replace(case, patches=case.patches | mended)

    own = known(case or lint_case(recipe, own_releases()))
    plain = _judge(own, rules)
    cases = {
        name: known(lint_case(_as_variant(recipe, variant), own_releases(), name))
        for name, variant in own_section(recipe).variants.items()
    }
    seen = {(one.code, one.text) for one in plain}
    of_variants = [
        replace(one, line=recipe.line(OURS, "variants", name), text=f"variant {name}: {one.text}")
        for name, case in cases.items()
        for one in _judge(case, rules)
        if (one.code, one.text) not in seen
    ]
    readable = own if recipe.values else None
    left = (row for one in (readable, *cases.values()) if one for row in unchecked_parts(one))
    return Linted(issues=in_order((*recipe.issues, *plain, *of_variants)), unchecked=rows_in_order(left))


def _sized(case: LintCase, sizes: Model | None) -> LintCase:
    return replace(case, sizes=sizes) if sizes is not None else case


def _as_variant(recipe: ModelRecipe, variant: Variant) -> ModelRecipe:
    """The recipe with a variant's parameters and variables in place of its own."""
    env = {key.removeprefix("env."): value for key, value in variant.set.items() if key.startswith("env.")}
    defaults = {key: value for key, value in variant.set.items() if key in recipe.defaults}
    values = {**recipe.values, "defaults": {**recipe.defaults, **defaults}, "env": {**recipe.env, **env}}
    if any(key.endswith("_parallel") for key in variant.set):
        values.pop("min_nodes", None)  # the variant's own sizes say how many nodes it needs
    return replace(recipe, values=values)


def _with_image(
    case: LintCase, release: str | None, image: ImageFacts | None, added: frozenset[str] | None
) -> LintCase:
    """A case with what is known beside the recipe."""
    case = case if added is None else replace(case, added=added, foreign=False)
    if image:
        case = replace(
            case, release=image.release or case.release, patches=image.patches, unknown="", foreign_image=False
        )
    return replace(case, release=release, unknown="", foreign_image=False) if release else case


def _judge(case: LintCase, rules: Sequence[Rule]) -> list[Issue]:
    """The findings of the rules, less those that others say better, and those of rendering."""
    found = [finding for rule in rules for finding in findings(rule, case)]
    better = {(other.line, code) for other in found for code, by in SUPERSEDED.items() if other.code in by}
    said = {"parallel-sizes"} if any(one.code == "too-many-nodes" for one in case.issues) else set()
    return [*case.issues, *(one for one in found if (one.line, one.code) not in better and one.code not in said)]


def findings(rule: Rule, case: LintCase) -> Iterator[Issue]:
    """What one rule finds: places of a check, or of its first condition where all others hold."""
    if not applies(rule, case) or not all(matching_parts(condition, case) for condition in rule.when[1:]):
        return
    for place in matching_parts(rule.when[0], case) if rule.when else CHECKS[rule.code](case):
        yield issue(rule, case, place)
