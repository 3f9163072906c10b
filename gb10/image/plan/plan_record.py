"""The record that an image holds of its plan: what it is made of, and all that ``rebuild`` needs to replay it. Pure.

Every building machine writes the same record, so it names neither that machine nor what is installed on it alone. What
decides nothing of the image is left out, so that it moves no key.
"""

import base64
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, Final, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from gb10.containers.reference import NAMESPACE
from gb10.core.fields import ARCHITECTURES, Architecture, requirement_name
from gb10.image.plan.options import Options, PatchUse
from gb10.image.plan.values import SCHEMA, Plan, Step, build_tools, on_each_machine, wheel_inputs
from gb10.image.recipe.base_image import BaseImage
from gb10.image.recipe.image_recipe import Base, BasePackages, Recipe, Source
from gb10.image.recipe.kernel_sets import content
from gb10.image.recipe.locked import Lock, LockedWheel, LockedWheels
from gb10.sources.debian.mirror import LockedDeb

NO_DIGEST: Final = "0" * 64
NO_HOST: Final = "https://recipe.invalid"
OF_A_MACHINE: Final = ("base-build", "tools")
"""Steps of the building machine; the lock among ``inputs`` has their files for both kinds."""
File = TypeVar("File", LockedDeb, LockedWheel)


def record(plan: Plan, diffs: Mapping[str, bytes] | None = None) -> dict[str, object]:
    """The record as data (docs/schemas/plan-v1.schema.json). ``diffs``: the patches given by hand, by sha256."""
    steps = (step for step in plan.steps if step.kind != "proof" and step.name not in OF_A_MACHINE)
    document = replace(
        plan,
        steps=tuple(
            replace(step, tools=(), needs=tuple(need for need in step.needs if need not in OF_A_MACHINE))
            for step in steps
        ),
    ).document()
    return {name: value for name, value in document.items() if name != "build"} | {"inputs": _inputs(plan, diffs or {})}


def _inputs(plan: Plan, diffs: Mapping[str, bytes]) -> dict[str, object]:
    recipe = plan.on or needed_recipe(plan.recipe)
    return {
        "recipe": recipe.model_dump(mode="json", by_alias=True, exclude_defaults=True),
        "lock": needed_lock(plan).model_dump(mode="json", by_alias=True, exclude_none=True),
        "kernels": {step.name: content(step.kernels) for step in plan.of_kind("wheel") if step.kernels},
        "options": _options(plan.options, diffs),
    }


def needed_recipe(recipe: Recipe) -> Recipe:
    """What a plan reads of a recipe whose lock is there: no server, no question to an index, no unused part."""
    built = recipe.built
    own = {requirement_name(tool) for wheel in built.values() for tool in wheel.tools}
    return recipe.model_copy(
        update={
            "requirements": (),
            "constraints": (),
            "exclude_newer": None,
            "indexes": {},
            "commit_wheels": None,
            "tools": tuple(text for text in recipe.tools if requirement_name(text) in own),
            "base": Base(suite=recipe.base.suite, packages=BasePackages(image=())),
            "sources": {name: _without_server(recipe, name) for wheel in built.values() for name in wheel.sources},
            "wheels": dict(built),
            "patches": (),
        }
    )


def _without_server(recipe: Recipe, name: str) -> Source:
    source = recipe.sources[name]
    if source.git:
        return source.model_copy(update={"git": NO_HOST})
    pinned = f"{recipe.project(name)}=={(source.pinned or '').partition('==')[2]}"
    return Source(wheel=pinned) if source.wheel else Source(sdist=pinned)


def needed_lock(plan: Plan) -> Lock:
    """What a plan reads of its lock, with the tools of each kind of building machine."""
    lock, target = plan.lock, plan.options.target
    tools = {machine.options.build: _tools(machine) for machine in on_each_machine(plan)}
    image = {  # without the CUDA of torch: the lock only repeats what the file is
        name: tuple(wheel.model_copy(update={"cuda": None}) if wheel.cuda else wheel for wheel in wheels)
        for name, wheels in lock.wheels.image.items()
    }
    projects = {plan.recipe.project(name) for wheel in plan.recipe.built.values() for name in wheel.sources}
    return lock.model_copy(
        update={
            "base_digest": NO_DIGEST,
            "asked": None,
            "debs": lock.debs.model_copy(update={"image": _only(lock.debs.image, target)}),
            "wheels": LockedWheels(image=_only(image, target), tools=tools),
            "sdists": {name: file for name, file in lock.sdists.items() if name in projects},
        }
    )


def _only(files: Mapping[Architecture, tuple[File, ...]], target: str) -> dict[Architecture, tuple[File, ...]]:
    return {name: files[name] if name == target else () for name in ARCHITECTURES}


def _tools(plan: Plan) -> tuple[LockedWheel, ...]:
    """The tools of one kind of machine: of all stages, and of the wheels that are built."""
    used = {file.sha256 for file in build_tools(plan.recipe, plan.lock, plan.options.build)}
    used |= {file.sha256 for step in plan.of_kind("wheel") for file in wheel_inputs(plan, step.name).tools}
    return tuple(wheel for wheel in plan.lock.wheels.tools[plan.options.build] if wheel.sha256 in used)


def _options(options: Options, diffs: Mapping[str, bytes]) -> dict[str, object]:
    """What the command line decided, beside what recipe, lock and the document say."""
    return {
        "targets": list(options.targets),
        "kernels": bool(options.kernels),
        "refs": list(options.refs),
        "slim": options.slim,
        "overlay": options.overlay.digest if options.overlay else None,
        "patches": [_patch(use, diffs) for use in options.patches],
    }


def _patch(use: PatchUse, diffs: Mapping[str, bytes]) -> dict[str, object]:
    recorded: dict[str, object] = {"installable": use.installable, "compiled": use.compiled}
    if use.path is None:
        return recorded
    return {
        **recorded,
        "layout": use.layout.model_dump(),
        "diff": base64.b64encode(diffs.get(use.sha256, b"")).decode(),
    }


SLIM: Final = f"{NAMESPACE}.slim"
"""The label with the slimming rules that were applied to an image; with ``.mb``, the MB that they save."""
LOCAL_ONLY: Final = f"{SLIM}.local-only"
"""The label with the slimming rules that bar an image from being published."""
PACKAGES: Final = f"{NAMESPACE}.package"
"""With ``.NAME``, the label with the key of a package that was compiled: its licence is its author's choice."""
LIBRARIES: Final = f"{NAMESPACE}.library"
"""With ``.NAME``, the label with the licence of a library that was compiled, as the recipe has it."""


def labels(plan: Plan) -> dict[str, str]:
    """OCI labels; ``created`` is the lock's date, so that a commit that changes no byte changes no image."""
    recipe, options = plan.recipe, plan.options
    # by source, what was applied in its order; where diffs were fetched from, each as --patch takes it again
    sources = dict.fromkeys(use.source for use in options.patches)
    applied = {name: dict.fromkeys(use.label for use in options.patches if use.source == name) for name in sources}
    urls = dict.fromkeys(f"{use.url}#sha256={use.whole or use.sha256}" for use in options.patches if use.url)
    return {
        "org.opencontainers.image.created": f"{plan.lock.created.isoformat()}T00:00:00Z",
        "org.opencontainers.image.title": f"{recipe.engine} {recipe.version} for {options.arch}",
        "org.opencontainers.image.version": recipe.version,
        f"{NAMESPACE}.arch": str(options.arch),
        **({f"{NAMESPACE}.cuda": recipe.cuda} if recipe.cuda else {}),
        **_base_labels(plan),
        f"{NAMESPACE}.plan.key": plan.key,
        f"{NAMESPACE}.lock.digest": plan.lock.input_digest,
        **{f"{NAMESPACE}.wheel.{step.name}": step.key for step in plan.of_kind("wheel")},
        **{f"{PACKAGES}.{step.name}": step.key for step in plan.of_kind("wheel") if _method(plan, step) == "package"},
        **{
            f"{LIBRARIES}.{step.name}": plan.recipe.wheels[step.name].licence or "none"
            for step in plan.of_kind("wheel")
            if _method(plan, step) == "library"
        },
        **{f"{NAMESPACE}.patches.{name}": " ".join(uses) for name, uses in applied.items()},
        **{f"{NAMESPACE}.patch-url.{number}": url for number, url in enumerate(urls, 1)},
        **({f"{NAMESPACE}.without": " ".join(options.without)} if options.without else {}),
        **({f"{NAMESPACE}.without-patches": " ".join(options.unpatched)} if options.unpatched else {}),
        **_slim_labels(plan),
        **{f"{NAMESPACE}.source.{use.source}": use.taken.label for use in options.patches if use.taken},
        **({f"{NAMESPACE}.overlay": options.overlay.digest} if options.overlay else {}),
        **{f"{NAMESPACE}.mod.{number}": mod.label for number, mod in enumerate(options.mods, 1)},
    }


def _base_labels(plan: Plan) -> dict[str, str]:
    """The image of others that this one is built on."""
    if plan.base is None:
        return {}
    name, _, digest = plan.base.reference.partition("@")
    return {"org.opencontainers.image.base.name": name, BASE_DIGEST: digest}


def _method(plan: Plan, step: Step) -> str:
    return plan.recipe.wheels[step.name].method


def _slim_labels(plan: Plan) -> dict[str, str]:
    """The rules of recipes/slim.yaml that were applied, and those that bar the image from being published."""
    return {
        **({SLIM: " ".join(rule.name for rule in plan.slim)} if plan.slim else {}),
        **({f"{SLIM}.mb": f"{sum(rule.saved for rule in plan.slim):.0f}"} if plan.slim else {}),
        **({LOCAL_ONLY: " ".join(plan.local_only)} if plan.local_only else {}),
    }


BASE_DIGEST: Final = "org.opencontainers.image.base.digest"
"""The label with the manifest's digest of the image of others that an image is built on."""
MOST: Final = 1 << 12
"""Entries of a list."""
Text = Annotated[str, StringConstraints(max_length=1 << 12)]
Hex = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class Recorded(BaseModel):
    """A part of the document; a later release may write more into it."""

    model_config = ConfigDict(extra="ignore", frozen=True, defer_build=True)


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

    model_config = ConfigDict(
        extra="ignore", frozen=True, alias_generator=lambda name: name.replace("_", "-"), populate_by_name=True
    )

    debs: RecordedDebs = RecordedDebs()
    wheels: RecordedWheels = RecordedWheels()
    base: BaseImage | None = None
    """The image of others that the image is built on, as it was read."""

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

    @property
    def base(self) -> BaseImage | None:
        """The image of others that the image is built on, if it is."""
        return self.inputs.lock.base

    def of_kind(self, kind: str) -> tuple[RecordedStep, ...]:
        """The steps of one kind, in order."""
        return tuple(step for step in self.steps if step.kind == kind)

    def installs(self, step: RecordedStep) -> bool:
        """Whether a compiled wheel is a layer of its own; libraries of an engine's project go into its graft."""
        layers = (*self.of_kind("layer"), *self.of_kind("added"))
        return any(one.name == f"layer-{step.name}" and not one.files for one in layers)


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
