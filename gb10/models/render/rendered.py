"""What a recipe becomes: one script, one command per node, the call that launches it, and the issues. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from gb10.models.issue import Issue, Level, in_order
from gb10.models.load.model_recipe import ModelRecipe, Step
from gb10.models.render.placeholders import UserValues

CACHE: Final = ("gb10-cache", "/var/cache/gb10")
"""The volume that keeps models and compiled kernels, and where our images look for them."""
OUR_IMAGES: Final = "gb10/"
MODELS: Final = ("HF_HOME", "/var/cache/gb10/huggingface")
"""Where our images keep models. Other images are told, or they load the model into a container that is removed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeContainer:
    """A container on the node's own network, which sees its GPU, its shared memory, and the cache of models."""

    host: str
    image: str
    command: str
    """A command line for bash."""
    environment: Mapping[str, str]
    argv: tuple[str, ...] = ()
    """The words of the command, which is then started without a shell."""
    gpus: bool = True
    memory: int | None = None
    """The limit of its memory in bytes."""
    mounts: Mapping[str, str] = field(default_factory=dict)
    """Folders of the node that it reads, and where it sees them."""


def node_container(
    host: str, image: str, command: str, environment: Mapping[str, str], argv: tuple[str, ...] = ()
) -> NodeContainer:
    """The container of one node. An image of others is told where the shared cache is."""
    variables = environment if image.startswith(OUR_IMAGES) else {MODELS[0]: MODELS[1], **environment}
    return NodeContainer(host=host, image=image, command=command, environment=variables, argv=argv)


Peer = Literal["eugr", "sparkrun"]
PEERS: Final[tuple[Peer, ...]] = ("eugr", "sparkrun")
SCHEMA: Final = "gb10/recipe-render/v1"


@dataclass(frozen=True, kw_only=True, slots=True)
class RenderRequest:
    """How a recipe is to run. No node is this machine alone; the first of several is the head.

    ``overrides`` are ``--set KEY=VALUE`` as typed, in order; ``arguments`` are what stands after ``--``.
    ``variant`` is a name of the recipe's ``gb10.variants``, whose parameters come before the overrides.
    """

    peer: Peer | None = None
    lenient: bool = False
    nodes: tuple[str, ...] = ()
    overrides: tuple[tuple[str, str], ...] = ()
    arguments: tuple[str, ...] = ()
    ray: bool = False
    api: int | None = None
    """The port of the API, where something else than the command decides it."""
    step: int = 0
    """How far the ports by which ranks meet are moved on, because others were taken (``Meeting``)."""
    variant: str | None = None
    given: tuple[str, ...] = ()
    """Parameters whose values the user gives and our rules quote; others fill them in as they are."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RankCommand:
    """What one node runs."""

    host: str
    command: str
    """A text for bash."""
    line: str | None = None
    """The engine's command line alone; None where bash must do more with what the recipe says."""
    before: str = ""
    """What bash does before ``line``: a text of ours that holds nothing of the recipe. Alone, it is all."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RenderedRecipe:
    """``serve`` is the engine's command without the parts that only a launcher adds; None when an error forbids it.

    ``parameters`` are the defaults after overrides. With an issue of level error, and not lenient, ``script`` is None
    and ``ranks`` and ``launch`` are empty.
    """

    runtime: str
    image: str | None
    script: str | None
    serve: str | None = None
    parameters: Mapping[str, object] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    """The variables that the recipe and the user set."""
    hosts: tuple[str, ...] = ()
    """The nodes that the launch uses; with Ray more than have a command."""
    ranks: tuple[RankCommand, ...] = ()
    launch: tuple[tuple[str, ...], ...] = ()
    user: UserValues = field(default_factory=UserValues)
    """The user's values that have quotation marks in the command."""
    containers: tuple[NodeContainer, ...] = ()
    """What each node runs by its Docker; only a rendering of ours has them."""
    meeting: tuple[int, ...] = ()
    """The ports by which the ranks meet; none when one node runs all."""
    issues: tuple[Issue, ...] = ()

    @property
    def document(self) -> dict[str, object]:
        """The result as data, schema gb10/recipe-render/v1."""
        return {
            "schema": SCHEMA,
            "runtime": self.runtime,
            "image": self.image,
            "script": self.script,
            "ranks": [{"host": rank.host, "command": rank.command} for rank in self.ranks],
            "launch": [list(argv) for argv in self.launch],
            "issues": [issue.document for issue in self.issues],
        }


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
