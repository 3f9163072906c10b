"""What the engine chose: rows of layers, read strictly from the document of the child. Pure."""

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from gb10.errors import Gb10Error, UsageError
from gb10.image.explain.engine_files import EngineFacts
from gb10.image.proof.arch_match import Judged
from gb10.inside.scan.installed import Distribution

LONGEST = 4096
Text = Annotated[str, Field(max_length=LONGEST)]
MANY = 4096


class LayerRow(BaseModel):
    """Layers that are equal: ``name`` has ``*`` for their numbers. ``refused``: kernel to the engine's reason.

    ``options``: the option's values that have a kernel, with it. ``before``: kernels that make its input. ``held`` is
    the kernel that the built layer keeps. ``upstream``: what the stock release chooses, where that is another one.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, populate_by_name=True)

    name: Text
    count: int
    kind: Text
    layer: Text = Field(alias="class")
    format: Text
    shape: Text
    chosen: Text | None
    before: list[Text] = []
    held: Text | None = None
    upstream: Text | None = None
    refused: dict[Text, Text]
    fits: list[Text]
    options: dict[Text, Text]


class Answer(BaseModel):
    """The rows, or what the engine said when it stopped, with the kernels that it had tried for that layer.

    ``whose`` is the error: the ``engine``'s own words, the ``config``'s, as its readers say, or ``explain``'s, where
    something is missing that the image has, as the module ``missing``. ``lacks``: what the release's registries have
    not of this model. ``own_code``: its configuration is a class of the model's own code. ``notes``: what a reader has
    to know of the rows.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    stopped: str | None
    rows: list[LayerRow] = Field(max_length=MANY)
    tried: list[tuple[Text, Text | None]]
    whose: Literal["engine", "config", "explain", "unknown"] = "unknown"
    missing: Text | None = None
    lacks: list[Text] = []
    own_code: bool = False
    notes: list[Text] = []
    upstream_stopped: Text | None = None


ANSWERS: Final = TypeAdapter(list[Answer])


def read_answer(document: str, model: str) -> Answer:
    """One answer that was kept; raises Gb10Error for a document that is not of this form."""
    try:
        return Answer.model_validate_json(document)
    except ValidationError as error:
        raise Gb10Error(f"explain has no answer for {model}", where=str(error)[:400]) from error


def read_answers(documents: str, models: str) -> list[Answer]:
    """The child's answers, one for each model; raises Gb10Error for what is not of this form."""
    try:
        return ANSWERS.validate_json(documents)
    except ValidationError as error:
        raise Gb10Error(f"explain has no answer for {models}", where=str(error)[:400]) from error


UNKNOWN = "unknown"


def check_engine(image: str, distributions: Iterable[Distribution], facts: EngineFacts) -> None:
    """Raise UsageError for an image with another engine, or another release of it, than the facts are of."""
    name = facts.from_image[0]
    found = {one.version for one in distributions if one.name == name}
    if found != {facts.engine}:
        raise UsageError(
            f"explain knows {name} {facts.engine}, {image} has {', '.join(sorted(found)) or 'none'}",
            hint="name the image's engine with --engine; recipes/explain has the facts of one release each",
        )


def code_of(kernel: str | None, facts: EngineFacts, judged: Iterable[Judged] | None) -> str:
    """``native``, ``family``, ``ptx``, …: the best of the libraries; who compiles it at first request; or unknown.

    ``judged`` is None where no image is named: then only what every image has in common is said.
    """
    place = facts.place_of(kernel) if kernel else None
    if place is None:
        return UNKNOWN
    late = f"compiled at first request by {place.jit}"
    if not place.library:
        return late
    if judged is None:
        return f"in {place.library.rpartition('/')[2]}, name an image (--image)"
    found = [one for one in judged if fnmatchcase(f"/{one.binary.path}", place.library)]
    if not found:
        return late if place.jit else f"nothing: no {place.library}"
    fits = sorted({str(one.fit) for one in found})
    return f"{', '.join(fits)} in {found[0].binary.path.rpartition('/')[2]}" + (
        f" and {len(found) - 1} more" if len(found) > 1 else ""
    )
