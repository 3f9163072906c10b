"""Collects the issues of one rendering, and knows which of them stop the peer itself. Pure."""

from dataclasses import replace
from typing import Final

from gb10.models.issue import Issue, Level, in_order
from gb10.models.load.model_recipe import ModelRecipe, Step

CREDITS: Final = {"eugr": "eugr's launcher", "sparkrun": "sparkrun"}
"""How texts name a peer."""


class StoppedError(Exception):
    """Nothing can be rendered: the findings have the reason."""


class Findings:
    """The issues of a recipe and of one rendering of it."""

    def __init__(self, recipe: ModelRecipe) -> None:
        self.recipe = recipe
        self.issues: list[Issue] = list(recipe.issues)
        self.stopped = any(issue.code in ("not-yaml", "not-a-recipe") for issue in recipe.issues)

    def add(self, level: Level, code: str, text: str, fix: str, *at: Step) -> None:
        """Record an issue at a part of the recipe."""
        self.add_line(level, code, text, fix, self.recipe.line(*at) if at else 0)

    def add_line(self, level: Level, code: str, text: str, fix: str, line: int) -> None:
        """Record an issue at a line."""
        self.issues.append(Issue(code=code, level=level, file=self.recipe.file, line=line, text=text, fix=fix))

    def stop(self, code: str, text: str, fix: str, *at: Step) -> None:
        """Record an error that stops the peer, too."""
        self.add("error", code, text, fix, *at)
        self.stopped = True

    def refuse(self) -> None:
        """End the rendering when the peer would end, too. Raises StoppedError."""
        if self.stopped:
            raise StoppedError

    def result(self, *, lenient: bool) -> tuple[Issue, ...]:
        """All issues in order. Lenient: what did not stop the peer is a warning."""
        soften = lenient and not self.stopped
        found = [replace(one, level="warning") if soften and one.level == "error" else one for one in self.issues]
        return in_order(found)
