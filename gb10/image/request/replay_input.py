"""The record of a plan as an image holds it, read strictly: whoever made the image wrote it."""

import json
from typing import Annotated, Any, Final, Literal

from pydantic import Base64Bytes, ConfigDict, Field, StringConstraints, ValidationError

from gb10.core.fields import Commit, Model, Name, Sha256
from gb10.errors import UsageError
from gb10.image.plan.values import SCHEMA
from gb10.image.recipe.image_recipe import Recipe
from gb10.image.recipe.kernel_sets import SetFile
from gb10.image.recipe.layout import Layout
from gb10.image.recipe.locked import Lock
from gb10.image.recipe.slim_rules import Extent

LARGEST: Final = 16 << 20
"""Bytes of a record; vLLM's has half a megabyte."""
PatchName = Annotated[str, StringConstraints(pattern=r"^([^/\x00-\x1f.]|\.{1,2}[^/\x00-\x1f.])[^/\x00-\x1f]{0,198}/?$")]
"""A file name, as its author chose it, or a folder of a series."""
PatchId = Annotated[str, StringConstraints(pattern=r"^[a-z0-9-]{1,64}/\d{4}-[a-z0-9-]{1,100}$")]
"""A patch of a series, as SOURCE/NNNN-slug."""
NEWER: Final = "it may be of another release of gb10: use the checkout that made the image"


class Part(Model):
    """A part of the document, of which only this much is read."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)


class CheckoutEntry(Part):
    """The checkout that a patch was made from."""

    commit: Commit | Literal[""]
    dirty: bool


class PatchEntry(Part):
    """A patch, as the document lists it."""

    source: Name
    project: Name
    name: PatchName
    sha256: Sha256
    folder: str = ""
    checkout: CheckoutEntry | None = None
    url: str = ""
    whole: Sha256 | Literal[""] = ""


class PatchInput(Part):
    """What the document does not list of a patch."""

    installable: bool
    compiled: bool
    layout: Layout | None = None
    diff: Base64Bytes | None = None


class ModEntry(Part):
    """A mod."""

    name: str
    sha256: Sha256
    network: bool


class StepEntry(Part):
    """A step with its key."""

    name: str
    key: Sha256


class OptionInputs(Part):
    """What the command line decided."""

    targets: tuple[str, ...]
    kernels: bool
    refs: tuple[str, ...]
    slim: Extent
    overlay: Sha256 | None = None
    patches: tuple[PatchInput, ...]


class Inputs(Part):
    """All that a plan is made of, beside this checkout's code."""

    recipe: Recipe
    lock: Lock
    kernels: dict[Name, dict[str, Any]]
    options: OptionInputs


class Record(Part):
    """The document of an image."""

    plan_schema: Literal["gb10/plan/v1"] = Field(alias="schema")
    arch: str
    platform: str
    key: Sha256
    patches: tuple[PatchEntry, ...]
    mods: tuple[ModEntry, ...]
    without: tuple[Name, ...] = ()
    unpatched: tuple[PatchId, ...] = Field(default=(), alias="without-patches")
    steps: tuple[StepEntry, ...]
    inputs: Inputs


def read_record(text: bytes, where: str) -> Record:
    """The record of a plan.json; raises UsageError when it is none, or lacks the inputs."""
    if len(text) > LARGEST:
        raise UsageError(f"the record of the plan is larger than {LARGEST >> 20} MiB", where=where)
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError("the record of the plan is not JSON", where=f"{where}: {error}") from error
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise UsageError(f"this is no {SCHEMA}", where=where, hint="give an image, or the plan.json out of one")
    if "inputs" not in document:
        raise UsageError(
            "this plan has no inputs, so it cannot be replayed",
            where=where,
            hint="give an image that this release of gb10 built, or /usr/share/gb10/plan.json out of one",
        )
    try:
        found = Record.model_validate_json(text)
        for kernels in found.inputs.kernels.values():
            SetFile.model_validate_json(json.dumps({"name": "recorded", **kernels}))
    except (ValidationError, RecursionError) as error:
        raise UsageError(
            "the record of the plan is not as gb10 writes it", where=_where(error, where), hint=NEWER
        ) from error
    if len(found.patches) != len(found.inputs.options.patches):
        raise UsageError("the record of the plan lists its patches twice, and differently", where=where)
    return found


def _where(error: ValidationError | RecursionError, where: str) -> str:
    if isinstance(error, RecursionError):
        return where
    first = error.errors()[0]
    return f"{where}: {'.'.join(str(part) for part in first['loc'])[:200]}: {first['msg'][:200]}"
