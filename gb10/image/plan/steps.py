"""Steps other than compiles: bases, tools, layers, grafts, mods, the image. Each has the key of its result. Pure."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import cache
from typing import Any, Final

from gb10.core.fields import ARCHITECTURES, Architecture, requirement_name
from gb10.core.files import Artifact, digest
from gb10.core.machine import glibc, uv_platform
from gb10.errors import UsageError
from gb10.image.plan.compiles import INSTALLER, PATCHER, UNPACKER
from gb10.image.plan.options import Options
from gb10.image.plan.plan_record import record
from gb10.image.plan.render import dockerfile, environment
from gb10.image.plan.values import Plan, Step, Toolkit, artifacts, build_tools, on_each_machine
from gb10.image.recipe.image_recipe import Layer, Recipe
from gb10.image.recipe.locked import Lock, LockedWheel
from gb10.image.recipe.slim_rules import Extent, Licence, Rule, RuleFile, fits
from gb10.sources.debian.mirror import LockedDeb

Row = Mapping[str, Any]
RECIPES_OWN: Final[Extent] = "publishable"
"""The extent of the plain recipe, which alone gets the tag that moves."""
TARGET: Final = "arm64"
"""The rules are about GB10, and were measured with its wheels."""


def applied(rules: RuleFile, options: Options, wheels: Iterable[LockedWheel]) -> tuple[Rule, ...]:
    """The rules that bite on one of these wheels, in order, each with the releases that do."""
    found: dict[str, list[LockedWheel]] = {}
    for wheel in wheels:
        found.setdefault(wheel.name, []).append(wheel)
    bites = (_narrowed(rule, found) for rule in enabled_rules(rules, options))
    return tuple(rule for rule in bites if rule.files)


def enabled_rules(rules: RuleFile, options: Options) -> tuple[Rule, ...]:
    """The rules that the options ask for."""
    if options.slim == "none" or options.target != TARGET:
        return ()
    return tuple(rule for rule in rules.rules if rule.publish or options.slim == "all")


def layer_rules(rules: RuleFile, options: Options, wheels: Iterable[LockedWheel]) -> tuple[Row, ...]:
    """What inside/slim/slim.py reads for one layer: a row per rule and distribution."""
    found = tuple(wheels)
    return tuple(
        {"name": rule.name, "action": rule.action, "project": wheel.name, "files": patterns}
        | _changes(rule, rules.licence(wheel.name), options)
        for rule, projects in ((rule, rule.projects) for rule in enabled_rules(rules, options))
        for wheel in found
        if wheel.name in projects and (patterns := _patterns(rule, wheel))
    )


def _changes(rule: Rule, licence: Licence | None, options: Options) -> dict[str, Any]:
    """What a rule that changes files needs to know: the licence, and the GPU whose code stays."""
    if licence is None or rule.action == "drop":
        return {}
    text = {"licence": {"file": licence.file, "sha256": licence.sha256}}
    if rule.action == "strip":
        return text
    return {**text, "capability": options.arch.capability, "hollow": rule.hollow}


def _narrowed(rule: Rule, wheels: Mapping[str, list[LockedWheel]]) -> Rule:
    """The rule for those of its releases that are among the wheels."""
    own = [
        release
        for release in rule.files
        if any(fits(release, wheel) for wheel in wheels.get(requirement_name(release), ()))
    ]
    files = {release: rule.files[release] for release in own}
    return rule.model_copy(update={"files": files, "mb": {release: rule.mb[release] for release in own}})


def _patterns(rule: Rule, wheel: LockedWheel) -> list[str]:
    return [pattern for release, patterns in rule.files.items() if fits(release, wheel) for pattern in patterns]


USER_ID: Final = 10001
USER_NAME: Final = "gb10"
USER_HOME: Final = "/home/gb10"
TOOLS: Final = "tools"
SETTINGS: Final = "inside/install/settings.py"
MOD_RUNNER: Final = "inside/install/mod.py"
OVERLAYER: Final = "inside/install/overlay.py"
GRAFTER: Final = "inside/install/grafted.py"
READER: Final = (
    "inside/scan/binary.py",
    "inside/scan/elf.py",
    "inside/scan/fatbin.py",
    "inside/scan/hazards.py",
    "inside/scan/installed.py",
    "inside/scan/ld_so_cache.py",
    "inside/scan/linkage.py",
    "inside/scan/scan.py",
    "inside/scan/sealed.py",
    "inside/scan/symbol_file.py",
    "inside/scan/tree.py",
)
"""What reads one layer."""
LINKER: Final = (
    "inside/scan/elf.py",
    "inside/scan/ld_so.py",
    "inside/scan/linkage.py",
    "inside/scan/linked.py",
    "inside/scan/symbol_file.py",
)
"""What looks up the symbols of all layers."""
SCANNER: Final = (*dict.fromkeys((*READER, *LINKER)),)
"""What reads an image back."""
SLIMMER: Final = (
    INSTALLER,
    "inside/scan/code_fit.py",
    "inside/scan/elf.py",
    "inside/scan/fatbin.py",
    "inside/slim/gpu_code.py",
    "inside/slim/layout.py",
    "inside/slim/references.py",
    "inside/slim/slim.py",
    "inside/slim/symbols.py",
)
"""What leaves files, symbol tables and GPU code out of a layer."""
CHANGED: Final = (*READER, "inside/scan/changed.py")
"""What reads the files that a mod changed."""


def rootfs(name: str, debs: tuple[LockedDeb, ...], lock: Lock, toolkit: Toolkit, *, user: bool = False) -> Step:
    account = [USER_ID, USER_NAME, USER_HOME] if user else None
    return Step(
        name=f"base-{name}",
        kind="rootfs",
        key=digest(["rootfs", _shas(debs), account, lock.created.isoformat(), toolkit.digests_of(*UNPACKER)]),
        files=tuple(Artifact(deb.filename, deb.sha256, deb.size) for deb in debs),
        about=f"{len(debs)} Debian packages",
    )


def tools_step(recipe: Recipe, lock: Lock, toolkit: Toolkit, build: Architecture, base: Step) -> Step:
    files = build_tools(recipe, lock, build)
    return Step(
        name=TOOLS,
        kind="tools",
        key=digest(["tools", base.key, [file.sha256 for file in files], toolkit.digests_of(INSTALLER)]),
        needs=(base.name,),
        files=files,
        about=f"{len(files)} wheels for the build stages",
    )


def installers(recipe: Recipe, lock: Lock, toolkit: Toolkit) -> str:
    """Digest of what installs layers, on each kind of building machine: the layers are the same bytes."""
    bases = {name: rootfs("build", lock.debs.build[name], lock, toolkit) for name in ARCHITECTURES}
    return digest([tools_step(recipe, lock, toolkit, name, base).key for name, base in bases.items()])


def layer_step(name: str, wheels: tuple[LockedWheel, ...], draft: Plan, toolkit: Toolkit, tools: str) -> Step:
    """A layer of locked wheels; ``tools``: as ``installers`` gives it."""
    recipe = draft.recipe
    platform = [recipe.python, uv_platform(draft.options.target, glibc(recipe.base.suite))]
    rules = layer_rules(toolkit.slim, draft.options, wheels)
    slim = [[dict(rule) for rule in rules], toolkit.digests_of(*SLIMMER)] if rules else []
    return Step(
        name=f"layer-{name}",
        kind="layer",
        key=digest(["layer", tools, _shas(wheels), platform, toolkit.digests_of(INSTALLER), *slim]),
        needs=(TOOLS,),
        files=artifacts(recipe, wheels),
        about=f"{len(wheels)} wheels",
        slim=rules,
    )


def built_layer(wheel: Step, toolkit: Toolkit, tools: str) -> Step:
    return Step(
        name=f"layer-{wheel.name}",
        kind="layer",
        key=digest(["layer", tools, wheel.key, toolkit.digests_of(INSTALLER)]),
        needs=(TOOLS, wheel.name),
        about="the wheel built here",
    )


def graft_steps(
    draft: Plan, toolkit: Toolkit, layers: tuple[Step, ...], compiled: tuple[Step, ...]
) -> tuple[Step, ...]:
    """A step per locked wheel that changes: the grafted wheel, and the layer with the changed files.

    Patches change it, and so do libraries from ``compiled`` steps of its own project.
    """
    image = {wheel.name: wheel for wheel in draft.lock.wheels.image[draft.options.target]}
    builds = [(step, draft.recipe.wheels[step.name]) for step in compiled]
    wheels = {build.replaces or draft.recipe.project(build.source): step for step, build in builds}
    made = []
    for project in dict.fromkeys((*(use.project for use in draft.options.patches), *wheels)):
        uses = [use for use in draft.options.patches_of(project) if use.installable]
        libraries = [wheels[project]] if project in wheels else []
        if project not in image or not (uses or libraries):
            continue
        files = artifacts(draft.recipe, (image[project],))
        below = next(step for step in layers if files[0] in step.files)
        own, inputs = toolkit.digests_of(GRAFTER, *PATCHER), [part for use in uses for part in use.inputs]
        added = [[step.key for step in libraries], "their tag"] if libraries else []  # its bytes have that, too
        made.append(
            Step(
                name=f"graft-{project}",
                kind="graft",
                needs=(below.name, *(step.name for step in libraries)),
                files=files,
                project=project,
                key=digest(["graft", below.key, files[0].sha256, inputs, own, *added]),
                about=", ".join(
                    (
                        *(use.name.removesuffix(".patch") for use in uses),
                        *(name for step in libraries for name in draft.recipe.wheels[step.name].targets or [step.name]),
                    )
                ),
            )
        )
    return tuple(made)


def mod_steps(
    draft: Plan, toolkit: Toolkit, below: tuple[Step, ...], finishers: Sequence[str], *more: str
) -> tuple[Step, ...]:
    """A step per mod. Each builds on the one before: a change moves its key and all later ones.

    ``finishers``: the scripts that write the small files above the layers; ``more``: what else mods see.
    """
    options, made = draft.options, list[Step]()
    overlay = options.overlay.digest if options.overlay else None
    under = digest([[step.key for step in below], toolkit.digests_of(*finishers), overlay, environment(draft), *more])
    for number, mod in enumerate(options.mods, 1):
        under = digest(
            ["mod", under, mod.name, mod.digest, mod.network, draft.recipe.workdir, toolkit.digests_of(MOD_RUNNER)]
        )
        needs = (made[-1].name,) if made else tuple(step.name for step in below)
        network = ", with the network" if mod.network else ""
        made.append(Step(name=f"mod-{number}", kind="mod", key=under, needs=needs, about=f"{mod.label}{network}"))
    return tuple(made)


def image_and_proof(
    draft: Plan, toolkit: Toolkit, needs: tuple[Step, ...], finishers: Sequence[str], about: str
) -> tuple[Step, Step]:
    """The image step, and its proof, which is ``about`` something.

    The image's key covers the Dockerfile, the scanner, and the plan record, which holds all other keys.
    The origin of a patch is not part of the key: the same content from another commit gives the same image.
    """
    recipe, options = draft.recipe, draft.options
    draft = replace(draft, options=options.nameless)
    overlay = options.overlay.digest if options.overlay else None
    texts = [dockerfile(machine, toolkit.templates) for machine in on_each_machine(draft)]
    own = toolkit.digests_of(*finishers, *SCANNER, *((MOD_RUNNER, *CHANGED) if options.mods else ()))
    image = Step(
        name="image",
        kind="image",
        key=digest(["image", texts, record(draft), own, overlay]),
        needs=tuple(step.name for step in needs),
        about=f"{recipe.engine} {recipe.version} {options.platform}",
    )
    scripts = toolkit.digests_of(*SCANNER, *(CHANGED if options.mods else ()))
    return image, Step(name="proof", kind="proof", needs=("image",), about=about, key=digest([image.key, scripts]))


def finishers_of(options: Options) -> tuple[str, ...]:
    """The scripts that write the small files above the layers of wheels."""
    return (SETTINGS, OVERLAYER) if options.overlay else (SETTINGS,)


def assign_to_layers(recipe: Recipe, lock: Lock, options: Options) -> dict[str, tuple[LockedWheel, ...]]:
    """Layer name -> its wheels. The first layer with a matching pattern wins; ``rest: true`` takes the others."""
    classes: dict[str, list[LockedWheel]] = {layer.name: [] for layer in recipe.layers}
    for wheel in sorted(lock.wheels.image[options.target], key=lambda wheel: wheel.name):
        classes[class_of(wheel.name, recipe.layers)].append(wheel)
    empty = [name for name, wheels in classes.items() if not wheels]
    if empty:
        raise UsageError(f"layers without a wheel: {', '.join(empty)}", hint="remove them from the recipe's layers")
    return {name: tuple(wheels) for name, wheels in classes.items()}


def class_of(name: str, layers: Iterable[Layer]) -> str:
    """The layer that takes a project. Raises UsageError when none does."""
    rest = None
    for layer in layers:
        if _takes(layer.packages, name):
            return layer.name
        rest = layer.name if layer.rest else rest
    if rest is None:
        raise UsageError(
            f"no layer takes {name}", hint="name it in one of the recipe's layers, or add rest: true to one"
        )
    return rest


@cache
def _takes(patterns: tuple[str, ...], project: str) -> bool:
    """Whether one of the patterns fits. Each plan asks it of each wheel."""
    return any(fnmatchcase(project, pattern) for pattern in patterns)


def _shas(files: Iterable[LockedDeb | LockedWheel]) -> list[str]:
    return [file.sha256 for file in files]


PROGRAM: Final = (
    "inside/compile/compilers.py",
    "inside/rehearse/compiler_text.py",
    "inside/rehearse/rehearsal.py",
    "inside/rehearse/triton_key.py",
    "inside/scan/elf.py",
    "inside/scan/sealed.py",
)
"""What runs the rehearsal in its stage."""
OF_IMAGE: Final = ("inside/rehearse/gb10_b12x.py", "inside/rehearse/gb10_caches.py")
"""Modules that a cache layer installs into the image."""
SCRIPTS: Final = (
    "explain/child",
    "explain/operators.py",
    "inside/compile/launch.py",
    *OF_IMAGE,
    "inside/scan/elf.py",
)
"""What runs over the engine, what looks into the caches of the image, and what starts a compiler."""
CAPABILITY: Final = "12.1"


def why_none(recipe: Recipe, toolkit: Toolkit, options: Options) -> str:
    """Why no rehearsal is possible, empty when one is."""
    known = toolkit.rehearsals.get(recipe.engine)
    if known is None or known.engine != recipe.version:
        release = f"is for {known.engine}" if known else "does not exist"
        return f"the rehearsal of {recipe.engine} {release}, the recipe has {recipe.version}"
    if options.arch.capability != CAPABILITY or options.target != "arm64":
        return f"it answers for capability {CAPABILITY} on arm64, and this is {options.arch} on {options.target}"
    return ""


def rehearsal_steps(draft: Plan, toolkit: Toolkit, tools: Step, below: tuple[Step, ...]) -> tuple[Step, ...]:
    """The rehearsal and its layers; none without a model. ``below``: the layers under them."""
    served, overlay = draft.options.served, draft.options.overlay
    if served is None:
        return ()
    known = toolkit.rehearsals[draft.recipe.engine]
    twins = set(known.twins)
    wheels = tuple(wheel for wheel in draft.lock.wheels.image[draft.options.build] if wheel.name in twins)
    under = [[step.key for step in below], overlay.digest if overlay else None]
    own = toolkit.digests_of(INSTALLER, *PROGRAM, *SCRIPTS)
    rehearsal = Step(
        name="rehearsal",
        kind="rehearsal",
        key=digest(
            ["rehearsal", tools.key, under, [wheel.sha256 for wheel in wheels], request_text(draft, toolkit), own]
        ),
        needs=(tools.name, *(step.name for step in below)),
        files=artifacts(draft.recipe, wheels),
        about=f"{draft.recipe.engine} serves {served.name} without a GPU; its kernels are compiled",
    )
    return (rehearsal, *(_layer(f"cache-{name}", about, rehearsal) for name, about in known.caches.items()))


def _layer(name: str, about: str, rehearsal: Step) -> Step:
    """One cache, as the program writes it."""
    key = digest(["cache", name, rehearsal.key])
    return Step(name=name, kind="cache", key=key, needs=(rehearsal.name,), about=about)


def request_text(plan: Plan, toolkit: Toolkit) -> str:
    """What the rehearsal reads, as JSON; the plan must have a model."""
    if plan.options.served is None:
        raise ValueError("a plan without a model has no rehearsal")
    served, known = plan.options.served, toolkit.rehearsals[plan.recipe.engine]
    request = known.request(json.loads(served.config), dict(served.options), dict(environment(plan)))
    return json.dumps(request, indent=1, sort_keys=True) + "\n"
