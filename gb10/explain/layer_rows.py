"""What the engine chose: rows of layers, read strictly from the document of the child. Pure."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gb10.errors import UsageError

LONGEST = 4096
Text = Annotated[str, Field(max_length=LONGEST)]
MANY = 4096


class LayerRow(BaseModel):
    """Layers that are equal: ``name`` has ``*`` for their numbers. ``refused``: kernel to the engine's reason.

    ``options``: the option's values that have a kernel, with it. ``before``: kernels that make its input. ``held`` is
    the kernel that the built layer keeps.
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
    refused: dict[Text, Text]
    fits: list[Text]
    options: dict[Text, Text]


class Answer(BaseModel):
    """The rows, or what the engine said when it stopped, with the kernels that it had tried for that layer."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    stopped: str | None
    rows: list[LayerRow] = Field(max_length=MANY)
    tried: list[tuple[Text, Text | None]]


def read_answer(document: str, model: str) -> Answer:
    """The child's document; raises UsageError for one that is not of this form."""
    try:
        return Answer.model_validate_json(document)
    except ValidationError as error:
        raise UsageError(f"explain has no answer for {model}", where=str(error)[:400]) from error
