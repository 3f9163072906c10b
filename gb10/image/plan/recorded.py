"""The plan that an image holds, read back. Whoever made the image may have written anything there. Pure."""

from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from gb10.image.plan.plan_record import record
from gb10.image.plan.values import SCHEMA, Plan

MOST: Final = 1 << 12
"""Entries of a list."""
Text = Annotated[str, StringConstraints(max_length=1 << 12)]
Hex = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class Recorded(BaseModel):
    """A part of the document; a later release may write more into it."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class RecordedCheckout(Recorded):
    """The git repository and the commit that a file was made of."""

    git: Text
    commit: Text
    tag: Text = ""


class RecordedFile(Recorded):
    """A locked file that a step reads; ``size`` in bytes."""

    filename: Text
    sha256: Hex
    size: Annotated[int, Field(ge=0)]
    checkout: RecordedCheckout | None = None


class RecordedStep(Recorded):
    """A step of the build."""

    name: Text
    kind: Text
    key: Hex
    needs: Annotated[tuple[Text, ...], Field(max_length=MOST)] = ()
    about: Text = ""
    files: Annotated[tuple[RecordedFile, ...], Field(max_length=MOST)] = ()


class RecordedChange(Recorded):
    """The local checkout that a patch was made from."""

    commit: Text
    dirty: bool


class RecordedPatch(Recorded):
    """A patch of a locked file."""

    source: Text
    project: Text
    name: Text
    sha256: Hex
    folder: Text = ""
    checkout: RecordedChange | None = None
    url: Text = ""
    whole: Text = ""


class RecordedMod(Recorded):
    """A mod that was baked in."""

    name: Text
    sha256: Hex
    network: bool = False


class RecordedRule(Recorded):
    """A slimming rule that was applied; ``mb`` is what it saves."""

    name: Text
    action: Text
    mb: float
    publish: bool = True


class RecordedOverride(Recorded):
    """A requirement that the recipe put in the place of the packages' own."""

    requirement: Text
    why: Text


class RecordedDeb(Recorded):
    """A Debian package of the lock; ``size`` in bytes."""

    path: Text
    sha256: Hex
    size: Annotated[int, Field(ge=0)]


class RecordedDebs(Recorded):
    """Packages of the build stages, by the architecture of the building machine."""

    build: Annotated[dict[Text, tuple[RecordedDeb, ...]], Field(max_length=MOST)] = Field(default_factory=dict)


class RecordedWheels(Recorded):
    """Wheels of the build tools, by the architecture of the building machine."""

    tools: Annotated[dict[Text, tuple[RecordedFile, ...]], Field(max_length=MOST)] = Field(default_factory=dict)


class RecordedLock(Recorded):
    """What of the lock no step of the record names: the tools of both kinds of building machines."""

    debs: RecordedDebs = RecordedDebs()
    wheels: RecordedWheels = RecordedWheels()

    def files(self) -> tuple[RecordedFile, ...]:
        """The files, packages under the names that the archive gives them."""
        debs = (
            RecordedFile(filename=deb.path.rpartition("/")[2], sha256=deb.sha256, size=deb.size)
            for each in self.debs.build.values()
            for deb in each
        )
        return (*debs, *(file for each in self.wheels.tools.values() for file in each))


class RecordedInputs(Recorded):
    """What ``rebuild`` needs besides."""

    lock: RecordedLock = RecordedLock()


class RecordedPlan(Recorded):
    """``/usr/share/gb10/plan.json`` of an image."""

    engine: Text
    version: Text
    arch: Text
    platform: Text
    build: Text = ""
    lock: Text
    key: Hex
    tags: Annotated[tuple[Text, ...], Field(max_length=MOST)]
    created: Text = ""
    suite: Text = ""
    patches: Annotated[tuple[RecordedPatch, ...], Field(max_length=MOST)] = ()
    mods: Annotated[tuple[RecordedMod, ...], Field(max_length=MOST)] = ()
    without: Annotated[tuple[Text, ...], Field(max_length=MOST)] = ()
    unpatched: Annotated[tuple[Text, ...], Field(max_length=MOST, alias="without-patches")] = ()
    slim: Annotated[tuple[RecordedRule, ...], Field(max_length=MOST)] = ()
    overrides: Annotated[tuple[RecordedOverride, ...], Field(max_length=MOST)] = ()
    steps: Annotated[tuple[RecordedStep, ...], Field(max_length=MOST)] = ()
    inputs: RecordedInputs = RecordedInputs()

    def of_kind(self, kind: str) -> tuple[RecordedStep, ...]:
        """The steps of one kind, in order."""
        return tuple(step for step in self.steps if step.kind == kind)

    def installs(self, step: RecordedStep) -> bool:
        """Whether a compiled wheel is a layer of its own; libraries of an engine's project go into its graft."""
        return any(one.name == f"layer-{step.name}" and not one.files for one in self.of_kind("layer"))


def recorded_plan(document: Any) -> RecordedPlan | None:  # noqa: ANN401 - whatever JSON holds
    """The plan of a document; None for one that is no such document."""
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        return None
    try:
        return RecordedPlan.model_validate(document)
    except ValidationError:
        return None


def as_recorded(plan: Plan) -> RecordedPlan:
    """A plan as its image holds it."""
    return RecordedPlan.model_validate(record(plan))
