"""The plan as values: steps with keys, the DAG of one image. ``dag.py`` makes them. Pure."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from packaging.utils import canonicalize_name

from gb10.core.fields import ARCHITECTURES, Architecture, requirement_name
from gb10.core.files import Artifact, Checkout
from gb10.errors import UsageError
from gb10.image.plan.options import Options, PatchUse
from gb10.image.recipe.base_image import BaseImage
from gb10.image.recipe.image_recipe import WHOLE, Recipe, WheelBuild
from gb10.image.recipe.kernel_sets import KernelSet
from gb10.image.recipe.locked import IndexFile, Lock, LockedCheckout, LockedWheel
from gb10.image.recipe.on_image import OnImage
from gb10.image.recipe.rehearsals import Rehearsal
from gb10.image.recipe.slim_rules import Rule, RuleFile

Kind = Literal[
    "rootfs", "tools", "wheel", "layer", "graft", "rehearsal", "cache", "mod", "image", "proof", "program",
    "base", "added", "patched",
]  # fmt: skip
"""The last three are of images on an image of others."""
PLACES: Final[Mapping[Kind, str]] = {
    "added": "placed",
    "graft": "wheels",
    "patched": "placed",
    "program": "programs",
    "proof": "proofs",
    "rootfs": "rootfss",
    "wheel": "wheels",
}
"""The store's section for the result of a step."""
SCHEMA: Final = "gb10/plan/v1"


@dataclass(frozen=True, kw_only=True, slots=True)
class Toolkit:
    """Our files that decide bytes: digests of scripts, template texts, kernel sets."""

    digests: Mapping[str, str]
    templates: Mapping[str, str]
    kernel_sets: Mapping[str, KernelSet] = field(default_factory=dict)
    slim: RuleFile = field(default_factory=RuleFile)
    """The rules for what images leave out."""
    rehearsals: Mapping[str, Rehearsal] = field(default_factory=dict)
    """By engine."""
    layouts: str = ""
    """Digest of where each source keeps its files: it decides which file of an image of others a diff changes."""
    uv: str = ""
    """The version of uv, which unpacks wheels that are added to an image of others."""

    def digests_of(self, *names: str) -> dict[str, str]:
        """Digests of these files. A folder name means every file below it."""
        folders = tuple(f"{name}/" for name in names if name not in self.digests)
        below = [file for file in self.digests if file.startswith(folders)] if folders else []
        return {file: self.digests[file] for file in (*names, *below) if file in self.digests}


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """One unit of work. ``key`` names its result; ``files`` are the locked files that it reads."""

    name: str
    kind: Kind
    key: str
    needs: tuple[str, ...] = ()
    files: tuple[Artifact, ...] = ()
    tools: tuple[Artifact, ...] = ()
    """Of a wheel: the locked files for the building machine that this step alone installs."""
    about: str = ""
    project: str | None = None
    """Of a graft: the project of the wheel that it changes."""
    kernels: KernelSet | None = field(default=None, repr=False)
    """Of a wheel of kernels: which modules it holds."""
    slim: tuple[Mapping[str, Any], ...] = ()
    """Of a layer: what inside/slim/slim.py leaves out of it, a row per rule and distribution."""

    @property
    def download(self) -> int:
        """Bytes of locked files, compressed as they travel."""
        return sum(file.size for file in self.reads)

    @property
    def reads(self) -> tuple[Artifact, ...]:
        """All locked files that it reads."""
        return (*self.files, *self.tools)


@dataclass(frozen=True, kw_only=True, slots=True)
class Origin:
    """An archive that is compiled, with its patches. ``context`` is its build context.

    ``nested``: the nested project of the engine that this archive stands for, if any.
    """

    context: str
    file: Artifact
    patches: tuple[PatchUse, ...] = ()
    nested: str = ""

    @property
    def patched(self) -> str:
        """The context of the files that the patches change."""
        return f"{self.context}-patched"


@dataclass(frozen=True, kw_only=True, slots=True)
class Inputs:
    """The locked files that a compile stage reads: archives, wheels by context, bases by step."""

    origins: tuple[Origin, ...]
    wheels: Mapping[str, tuple[Artifact, ...]]
    tools: tuple[Artifact, ...] = ()
    """Wheels for the building machine that no other compile stage has."""
    bases: tuple[str, ...] = ("base-build",)
    foreign: bool = False
    """As ``Options.foreign``."""
    whole: bool = False
    """Whether a project's own build runs, whatever it is: a method of WHOLE."""

    @property
    def files(self) -> tuple[Artifact, ...]:
        """All of them but tools and bases: the same on every building machine."""
        return (*(origin.file for origin in self.origins), *(file for part in self.wheels.values() for file in part))

    @property
    def by_hand(self) -> bool:
        """Whether what is compiled is not reviewed: it writes into no cache that others read."""
        return self.foreign or any(use.path for origin in self.origins for use in origin.patches)


@dataclass(frozen=True, kw_only=True, slots=True)
class Program:
    """A benchmark program: its units, and the source that brings its CUTLASS.

    ``units`` and ``include`` are folder names of the toolkit; ``headers`` are wheels of the image.
    """

    name: str
    source: str
    units: str
    include: tuple[str, ...]
    headers: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """Every step of one image, in an order in which they can run.

    The last of ``tags`` holds the key and never moves. A moving tag comes before it, but only for a plan without
    overlay, mods, targets, or other releases: a moving tag promises the plain recipe.
    """

    recipe: Recipe
    lock: Lock
    options: Options
    steps: tuple[Step, ...]
    tags: tuple[str, ...]
    key: str
    slim: tuple[Rule, ...] = ()
    """The rules that bite on a layer."""
    on: OnImage | None = None
    """What was asked for, where the image is built on one of others."""

    @property
    def base(self) -> BaseImage | None:
        """The image of others that this one is built on, if it is."""
        return self.lock.base

    @property
    def local_only(self) -> tuple[str, ...]:
        """The rules that bar the image from being published."""
        return tuple(rule.name for rule in self.slim if not rule.publish)

    @property
    def torch(self) -> LockedWheel | None:
        """The torch of the image, if there is one."""
        return next((wheel for wheel in self.lock.wheels.image[self.options.target] if wheel.name == "torch"), None)

    def step(self, name: str) -> Step:
        """The step of that name; raises KeyError."""
        return next(step for step in self.steps if step.name == name)

    def of_kind(self, kind: Kind) -> tuple[Step, ...]:
        """The steps of one kind, in order."""
        return tuple(step for step in self.steps if step.kind == kind)

    def wheels_only(self, names: Collection[str] = ()) -> "Plan":
        """The part of the plan that the wheels need, or that these compiled ones need."""
        compiled = {step.name for step in self.of_kind("wheel") if not names or step.name in names}
        wanted = {name for one in compiled for name in (one, *self._closure(self.step(one)))}
        alone = {
            step.name: replace(step, needs=tuple(need for need in step.needs if need in compiled))
            for step in self.of_kind("graft")
            if not names
        }
        steps = (alone.get(step.name, step) for step in self.steps if step.name in {*wanted, *alone})
        return replace(self, steps=tuple(steps))

    def _closure(self, step: Step) -> set[str]:
        return {name for need in step.needs for name in (need, *self._closure(self.step(need)))}

    def document(self) -> dict[str, object]:
        """The plan as data (docs/schemas/plan-v1.schema.json), the same on every machine of a kind at any time."""
        return {
            "schema": SCHEMA,
            "engine": self.recipe.engine,
            "version": self.recipe.version,
            "arch": str(self.options.arch),
            "platform": self.options.platform,
            "build": f"linux/{self.options.build}",
            "lock": self.lock.input_digest,
            "created": self.lock.created.isoformat(),
            "suite": self.recipe.base.suite,
            **({"base": {"image": self.base.reference}} if self.base else {}),
            "key": self.key,
            "tags": list(self.tags),
            "patches": [
                {"source": use.source, "project": use.project, "name": use.name, "sha256": use.sha256}
                | ({"folder": use.folder} if use.folder else {})
                | ({"checkout": {"commit": use.taken.commit, "dirty": use.taken.dirty}} if use.taken else {})
                | ({"url": use.url} if use.url else {})
                | ({"whole": use.whole} if use.whole else {})
                for use in self.options.patches
            ],
            "mods": [{"name": mod.name, "sha256": mod.digest, "network": mod.network} for mod in self.options.mods],
            **({"without": list(self.options.without)} if self.options.without else {}),
            **({"without-patches": list(self.options.unpatched)} if self.options.unpatched else {}),
            **(
                {
                    "slim": [
                        {"name": rule.name, "action": rule.action, "mb": rule.saved, "publish": rule.publish}
                        for rule in self.slim
                    ]
                }
                if self.slim
                else {}
            ),
            **(
                {"overrides": [{"requirement": one.requirement, "why": one.why} for one in self.recipe.overrides]}
                if self.recipe.overrides
                else {}
            ),
            "steps": [_step_document(step) for step in self.steps],
        }


def torch_problem(plan: Plan) -> UsageError | None:
    """An error when torch is built without CUDA, or for another CUDA than the recipe's; else None.

    Only ``image`` stops for it: plans, patches and wheels of kernels do not need torch.
    """
    recipe, torch = plan.recipe, plan.torch
    if torch is None or torch.cuda in (None, recipe.cuda):
        return None
    built = "without CUDA" if torch.cuda == "none" else f"with CUDA {torch.cuda}"
    return UsageError(
        f"torch {torch.version} is built {built}, and the {recipe.engine} {recipe.version} recipe needs CUDA "
        f"{recipe.cuda}: no image is made",
        where=torch.filename,
        hint="name an index that has it for this CUDA, for torch and what is built with it, then lock it anew\n"
        "(./build.py lock --engine … --upgrade torch):\n"
        f"indexes: {{NAME: {{url: https://HOST/…/cu{recipe.cuda.replace('.', '')}, packages: [torch, …]}}}}",
    )


def _step_document(step: Step) -> dict[str, object]:
    return {
        "name": step.name,
        "kind": step.kind,
        "key": step.key,
        "needs": list(step.needs),
        "about": step.about,
        "files": [_file_document(file) for file in step.reads],
    }


def _file_document(file: Artifact) -> dict[str, object]:
    document: dict[str, object] = {"filename": file.filename, "sha256": file.sha256, "size": file.size}
    if file.checkout is None:
        return document
    tag = {} if file.checkout.pin == file.checkout.commit else {"tag": file.checkout.pin}
    return {**document, "checkout": {"git": file.checkout.url, "commit": file.checkout.commit, **tag}}


def on_each_machine(plan: Plan) -> tuple[Plan, ...]:
    """So a key covers what works on either machine, and is the same on both."""
    return tuple(replace(plan, options=replace(plan.options, build=name)) for name in ARCHITECTURES)


CUTLASS_FOLDER = "3rdparty/cutlass"
"""Where an archive bundles it; a checkout is it."""


def wheel_inputs(plan: Plan, name: str) -> Inputs:
    """The inputs of one wheel. Raises UsageError when the lock lacks one of them."""
    recipe, lock, options, build = plan.recipe, plan.lock, plan.options, plan.recipe.wheels[name]
    origin = Origin(context="source", file=source_archive(build.source, recipe, lock), patches=patches_for(plan, build))
    wheels = {"target-wheels": artifacts(recipe, target_headers(build.headers, lock, options))}
    own = {requirement_name(tool) for tool in build.tools}
    tools = tuple(wheel for wheel in lock.wheels.tools[options.build] if canonicalize_name(wheel.name) in own)
    if build.method in WHOLE:
        return Inputs(
            origins=(origin,),
            wheels=wheels,
            tools=artifacts(recipe, tools),
            bases=("base-build", "base-image"),
            foreign=options.foreign,
            whole=True,
        )
    if build.cutlass is None:
        return Inputs(origins=(origin,), wheels=wheels, foreign=options.foreign)
    cutlass = Origin(
        context="cutlass", file=source_archive(build.cutlass_source, recipe, lock), patches=_of_cutlass(plan, build)
    )
    nested = (
        Origin(
            context=f"nested-{name}",
            file=source_archive(name, recipe, lock),
            nested=name,
            patches=options.patches_of(recipe.project(name)),
        )
        for name in build.handed_in
    )
    return Inputs(
        origins=(origin, cutlass, *nested),
        wheels=wheels,
        tools=artifacts(recipe, tools),
        bases=("base-build", "base-image"),
        foreign=options.foreign,
    )


def program_inputs(plan: Plan, program: Program) -> Inputs:
    """The inputs of a program. Its plan holds only the patches of CUTLASS."""
    archive = source_archive(program.source, plan.recipe, plan.lock)
    headers = artifacts(plan.recipe, target_headers(program.headers, plan.lock, plan.options))
    return Inputs(
        origins=(Origin(context="source", file=archive, patches=plan.options.patches),),
        wheels={"target-wheels": headers},
    )


def patches_for(plan: Plan, build: WheelBuild) -> tuple[PatchUse, ...]:
    """The patches of the source that a wheel is compiled from.

    CUTLASS in a folder of an archive is a source of its own: its patches move only the kernels that include it.
    For an engine's own project, only patches of compiled files count; the graft applies the others to the wheel.
    """
    if build.method == "extension":
        return _of_cutlass(plan, build)
    uses = plan.options.patches_of(plan.recipe.project(build.source))
    return tuple(use for use in uses if not use.folder and (use.compiled or build.method in ("aot", *WHOLE)))


def _of_cutlass(plan: Plan, build: WheelBuild) -> tuple[PatchUse, ...]:
    """The patches of the CUTLASS in a source, or of CUTLASS as the source."""
    uses = plan.options.patches_of(plan.recipe.project(build.cutlass_source))
    return tuple(use for use in uses if use.folder or plan.recipe.sources[build.cutlass_source].git)


def build_tools(recipe: Recipe, lock: Lock, build: Architecture) -> tuple[Artifact, ...]:
    """The wheels of all build stages, without those that only one wheel needs."""
    own = {requirement_name(tool) for wheel in recipe.wheels.values() for tool in wheel.tools}
    own -= {requirement_name(tool) for tool in recipe.tools}
    kept = (wheel for wheel in lock.wheels.tools[build] if canonicalize_name(wheel.name) not in own)
    return artifacts(recipe, kept)


def used_sources(recipe: Recipe, lock: Lock) -> Lock:
    """The lock with only the source archives that this build compiles."""
    projects = {recipe.project(name) for wheel in recipe.built.values() for name in wheel.sources}
    used = {name: file for name, file in lock.sdists.items() if name in projects}
    return lock.model_copy(update={"sdists": used})


def source_archive(source: str, recipe: Recipe, lock: Lock) -> Artifact:
    """The locked file of a source. Raises UsageError when the lock has none."""
    name, declared = recipe.project(source), recipe.sources[source]
    if name not in lock.sdists:
        raise UsageError(f"the lock holds no source archive of {name}", hint="lock it: ./build.py lock --engine …")
    file = lock.sdists[name]
    if isinstance(file, LockedCheckout) and declared.git:
        checkout = Checkout(declared.git, declared.pin, declared.paths, file.commit, declared.submodules)
        return Artifact(file.filename, file.sha256, file.size, checkout)
    return artifacts(recipe, (file,))[0]


def target_headers(names: Iterable[str], lock: Lock, options: Options) -> tuple[LockedWheel, ...]:
    """The image's wheels with the target's headers and libraries. Raises UsageError for a name that is not locked."""
    image = {wheel.name: wheel for wheel in (*lock.wheels.image[options.target], *(lock.headers or ()))}
    unknown = [name for name in names if name not in image]
    if unknown:
        raise UsageError(
            f"headers from wheels that the image does not hold: {', '.join(unknown)}",
            hint="name wheels of the lock in the recipe's wheels section",
        )
    return tuple(image[name] for name in names)


def artifacts(recipe: Recipe, files: Iterable[IndexFile]) -> tuple[Artifact, ...]:
    """Files of the package index as artifacts; each with the index that the recipe names for its project."""
    own = recipe.index_of
    return tuple(Artifact(file.filename, file.sha256, file.size, index=own.get(file.name, "")) for file in files)
