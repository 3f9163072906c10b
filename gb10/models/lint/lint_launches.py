"""Lint of launches that other tools start: the server's command, image and variables by the rules of a recipe. Pure."""

from collections.abc import Iterator, Sequence

from gb10.core.checked import NotChecked
from gb10.core.checked import in_order as rows_in_order
from gb10.models.issue import in_order
from gb10.models.launches.container_launch import OF_SCRIPT, ContainerLaunch
from gb10.models.launches.launch_forms import Launches
from gb10.models.launches.launch_recipe import ENGINES_OWN, FILES, OF_RECIPES, as_recipe, launch_issues
from gb10.models.lint.lint_parts import Linted
from gb10.models.lint.linting import lint
from gb10.models.lint.rule import Rule
from gb10.models.lint.served import ImageFacts


def lint_launches(
    launches: Launches,
    file: str,
    rules: Sequence[Rule],
    *,
    release: str | None = None,
    image: ImageFacts | None = None,
) -> Linted:
    """The findings of every server of a file; a file that is another thing is one row that names it."""
    if not launches.found:
        reason = f"it is {launches.what}, and not a model recipe or a launch of a server"
        return Linted(issues=(), unchecked=(NotChecked(what="file", reason=reason),))
    broken = [issue for one in launches.found if not one.image for issue in launch_issues(one, file)]
    if broken and not launches.servers:
        return Linted(issues=in_order(broken))
    if not launches.servers:
        names = ", ".join(one.name for one in launches.found[:5])
        reason = f"it is {launches.what}, and none of its containers starts a server that is known: {names}"
        return Linted(issues=(), unchecked=(NotChecked(what="command", reason=reason),))
    found = [_server(one, file, rules, release, image) for one in launches.servers]
    return Linted(
        issues=in_order((*broken, *(issue for one in found for issue in one.issues))),
        unchecked=rows_in_order(row for one in found for row in one.unchecked),
    )


def _server(
    launch: ContainerLaunch, file: str, rules: Sequence[Rule], release: str | None, image: ImageFacts | None
) -> Linted:
    recipe = as_recipe(launch, file)
    found = lint(recipe, rules, release=release, image=image)
    kept = (one for one in found.issues if one.code not in OF_RECIPES)
    return Linted(
        issues=in_order((*kept, *launch_issues(launch, file))),
        unchecked=(*found.unchecked, *_unread(launch)),
    )


def _unread(launch: ContainerLaunch) -> Iterator[NotChecked]:
    """What decides something and stands in another file: variables of the engine, a file of variables."""
    for one in launch.left:
        if one.written.startswith(FILES) or ENGINES_OWN.match(one.written):
            yield NotChecked(what="variables", reason=f"line {one.line}: {one.written[:80]}: {one.why}")
        elif one.why in OF_SCRIPT:
            yield NotChecked(what="options", reason=f"line {one.line}: {one.written[:80]}: {one.why}")
