"""A rendered recipe started without a shell: the words of every node's server, or why they cannot be had. Pure."""

import json
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from gb10.models.load.model_recipe import At, ModelRecipe
from gb10.models.plain_options import doubts_of
from gb10.models.plain_variables import doubt_of
from gb10.models.render.container import NodeContainer, node_container
from gb10.models.render.plain_command import NotPlainError, PlainCommand, plain_command
from gb10.models.render.rendered import RankCommand, RenderedRecipe

RUN: Final = '\nexec "$@"'
"""How a text of ours starts the words that it gets."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Doubt:
    """What a recipe of somebody else may not do: in words, and where the recipe has it."""

    text: str
    at: At


@dataclass(frozen=True, kw_only=True, slots=True)
class Judged:
    """The containers, each with the words of its server; none where there is a doubt, or the recipe has no image."""

    containers: tuple[NodeContainer, ...]
    doubts: tuple[Doubt, ...]


def judged(recipe: ModelRecipe, rendered: RenderedRecipe) -> Judged:
    """What was rendered, judged as what runs: every node's command and every variable."""
    ranks = rendered.ranks or (RankCommand(host="", command=rendered.serve or "", line=rendered.serve or ""),)
    doubts: list[Doubt] = []
    if recipe.format == "v1" and not recipe.name.isprintable():  # it stands in a comment of the script
        doubts.append(Doubt(text="its name is more than one line of text", at=("name",)))
    containers: list[NodeContainer] = []
    for rank in ranks:
        try:
            found = _command(rank)
        except NotPlainError as error:
            doubts.append(Doubt(text=f"the command is more than an engine and plain options: {error}", at=("command",)))
            continue
        doubts += [Doubt(text=f"its command: {text}", at=("command",)) for text in doubts_of(found.words)]
        environment = {**rendered.environment, **found.environment}
        doubts += _variables(recipe, environment)
        line = shlex.join(found.words)
        if rendered.image and rendered.ranks:
            containers.append(node_container(rank.host, rendered.image, line, environment, found.words))
    doubts = list(dict.fromkeys(doubts))
    return Judged(containers=() if doubts else tuple(containers), doubts=tuple(doubts))


def _command(rank: RankCommand) -> PlainCommand:
    """The words of a node; those of the recipe are given to a text of ours, if there is one."""
    if rank.line is None:
        if rank.before and rank.before == rank.command:
            return PlainCommand(words=("bash", "-c", rank.before), environment={})
        raise NotPlainError("a shell writes its parameters into a file")
    found = plain_command(rank.line)
    if not rank.before:
        return found
    words = ("bash", "-c", f"{rank.before}{RUN}", "gb10", *found.words)
    return PlainCommand(words=words, environment=found.environment)


def _variables(recipe: ModelRecipe, environment: Mapping[str, str]) -> Iterator[Doubt]:
    for name, value in environment.items():
        doubt = doubt_of(name, value)
        if doubt is None and recipe.format == "v1" and '"' in value and not _is_object(value):
            doubt = "a shell reads its quotation marks"
        if doubt:
            at: At = ("env", name) if name in recipe.env else ("command",)
            shown = "".join(char if char.isprintable() else " " for char in f"{name}={value}")[:80]
            yield Doubt(text=f"it sets the variable {shown}: {doubt}", at=at)


def _is_object(value: str) -> bool:
    """Whether a value is a JSON object: a shell would take its quotation marks away, which nobody means."""
    try:
        return isinstance(json.loads(value), dict)
    except (ValueError, RecursionError):
        return False
