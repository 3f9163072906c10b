"""The plan as values: steps with keys, the DAG of one image. ``dag.py`` makes them. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from gb10.core.fields import ARCHITECTURES
from gb10.core.files import Artifact
from gb10.image.plan.options import Options, PatchUse
from gb10.image.recipe.image_recipe import Override, Recipe
from gb10.image.recipe.kernel_sets import KernelSet
from gb10.image.recipe.locked import Lock, LockedWheel
from gb10.image.recipe.rehearsals import Rehearsal
from gb10.image.recipe.slim_rules import Rule, RuleFile

Kind = Literal["rootfs", "tools", "wheel", "layer", "graft", "rehearsal", "cache", "mod", "image", "proof", "program"]
PLACES: Final[Mapping[Kind, str]] = {
    "graft": "wheels",
    "program": "programs",
    "proof": "proofs",
    "rootfs": "rootfss",
    "wheel": "wheels",
}
"""The store's room for the result of a step."""
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

    def of(self, *names: str) -> dict[str, str]:
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
    """Of a layer: what inside/slim.py leaves out of it, a row per rule and distribution."""

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

    def wheels_only(self) -> "Plan":
        """The part of the plan that the wheels need."""
        wanted = {name for step in self.of_kind("wheel") for name in (step.name, *self._closure(step))}
        compiled = {step.name for step in self.of_kind("wheel")}
        alone = {
            step.name: replace(step, needs=tuple(need for need in step.needs if need in compiled))
            for step in self.of_kind("graft")
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
            **({"slim": [_rule_document(rule) for rule in self.slim]} if self.slim else {}),
            **(
                {"overrides": [_override_document(one) for one in self.recipe.overrides]}
                if self.recipe.overrides
                else {}
            ),
            "steps": [_step_document(step) for step in self.steps],
        }


def _override_document(override: Override) -> dict[str, object]:
    return {"requirement": override.requirement, "why": override.why}


def _rule_document(rule: Rule) -> dict[str, object]:
    return {"name": rule.name, "action": rule.action, "mb": rule.saved, "publish": rule.publish}


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
