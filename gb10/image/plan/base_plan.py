"""The plan of an image on an image of others: the base as it is, what is added, and what is changed. Pure.

Nothing of the base is made here, so no step is of its layers: they stay as they are, under their own digests.
"""

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from gb10.core.fields import ARCHITECTURES
from gb10.core.files import Artifact, digest
from gb10.errors import UsageError
from gb10.image.plan.compiles import BLANK, INSTALLER, PATCHER, wheel_step, with_headers
from gb10.image.plan.options import Options, PatchUse
from gb10.image.plan.steps import image_and_proof, mod_steps, rootfs, tools_step
from gb10.image.plan.values import Plan, Step, Toolkit, artifacts
from gb10.image.recipe.base_image import BaseImage
from gb10.image.recipe.image_recipe import Recipe
from gb10.image.recipe.locked import AskedBase, Lock, LockedDebs, LockedPart, LockedWheel, LockedWheels
from gb10.image.recipe.on_image import OnImage, derived

PLACER: Final = "inside/install/placed.py"
"""What lays files over a base."""
NAMED: Final = re.compile(r"[A-Za-z0-9._:/\[\]-]+@sha256:[0-9a-f]{64}", re.ASCII)
NO_TAG: Final = re.compile(r"[^A-Za-z0-9_.-]+", re.ASCII)
LONGEST: Final = 60
"""Characters of an engine's version in a tag: whoever built the image wrote it."""
PLACING: Final = tuple(f"patches/{name}.py" for name in ("on_base", "owners", "releases", "write"))
"""What decides which file of a base a diff changes, beside the layouts of the sources."""
UNPACKING: Final = ("rootfs/added_wheels.py", INSTALLER)
"""What unpacks wheels that are added, beside uv."""
PATCHED: Final = "patched"
ADDED: Final = "added"


def requested_base(given: OnImage) -> AskedBase:
    """What a recipe asks for of its image."""
    return AskedBase(image=given.base.image, python=given.base.python, engine=given.engine)


def lock_on(
    base: BaseImage,
    build: Lock,
    input_digest: str,
    added: Iterable[LockedWheel] = (),
    asked: AskedBase | None = None,
) -> Lock:
    """The lock of an image on ``base``; ``build`` gives the build stages' packages and the day."""
    wheels = tuple(added)
    target = base.platform.partition("/")[2].partition("/")[0]
    return Lock(
        input_digest=input_digest,
        base_digest=build.base_digest,
        created=build.created,
        debs=LockedDebs(image=dict.fromkeys(ARCHITECTURES, ()), build=build.debs.build),
        wheels=LockedWheels(
            image={name: wheels if name == target else () for name in ARCHITECTURES},
            tools=dict.fromkeys(ARCHITECTURES, ()),
        ),
        sdists={},
        base=base,
        asked=asked,
    )


def plan_on_image(given: OnImage, build: Recipe, lock: Lock, toolkit: Toolkit, options: Options) -> Plan:
    """Every step of an image on an image of others; the lock must hold that. ``build``: see ``derived``."""
    if lock.base is None:
        raise ValueError("a plan on an image needs a lock that holds one")
    base, recipe = lock.base, derived(given, lock.base, build)
    check_base(base, options)
    recipe = with_headers(recipe, toolkit)
    stages = rootfs("build", lock.debs.build[options.build], lock, toolkit)
    below = base_step(base)
    tools = (tools_step(recipe, lock, toolkit, options.build, stages),) if recipe.built else ()
    draft = Plan(
        recipe=recipe,
        lock=lock,
        options=options,
        steps=(stages, below, *tools),
        key=BLANK,
        tags=on_image_tags(recipe, options, BLANK),
        on=given,
    )
    wheels = tuple(wheel_step(name, draft, toolkit, *tools) for name in sorted(recipe.built))
    built = (_built(draft, wheel, below, toolkit) for wheel in wheels)
    own = (*_added(draft, below, toolkit), *built, *_patched(draft, below, toolkit))
    draft = replace(draft, steps=(*draft.steps, *wheels, *own))
    mods = mod_steps(draft, toolkit, (below, *own), (PLACER,), draft.base.interpreter if draft.base else "")
    draft = replace(draft, steps=(*draft.steps, *mods))
    needs = (below, *own, *mods)
    image, proof = image_and_proof(draft, toolkit, needs, (PLACER,), "what is added and changed")
    steps, tags = (*draft.steps, image, proof), on_image_tags(recipe, options, image.key)
    return replace(draft, steps=steps, key=image.key, tags=tags)


def check_base(base: BaseImage, options: Options) -> None:
    """Raise UsageError for a base that no Dockerfile can name, or with paths that lead elsewhere.

    A record of a plan may come from anybody.
    """
    if not NAMED.fullmatch(base.reference):
        raise UsageError(
            f"the lock names no image by its digest: {ascii(base.reference)[:200]}",
            hint="lock it again: ./build.py lock --engine FILE",
        )
    if base.strange is not None:
        raise UsageError(
            f"the lock names a path that no Python has: {ascii(base.strange)[:200]}",
            where=base.reference,
            hint="lock it again: ./build.py lock --engine FILE",
        )
    if base.platform != options.platform:
        raise UsageError(f"{base.reference} is for {ascii(base.platform)[:40]}, and the plan for {options.platform}")


def base_step(base: BaseImage) -> Step:
    """The base. Its layers are the files that it reads, under their own digests."""
    layers = tuple(Artifact(one.digest, one.digest.removeprefix("sha256:"), one.size) for one in base.layers)
    return Step(
        name="base",
        kind="base",
        key=digest(["base", base.reference, base.platform]),
        files=layers,
        about=f"{base.reference}: {len(layers)} layers",
    )


def on_image_tags(recipe: Recipe, options: Options, key: str) -> tuple[str, ...]:
    """The one tag of an image on an image of others; it holds the key and never moves."""
    cuda = f"-cu{recipe.cuda.replace('.', '')}" if recipe.cuda else ""
    version = NO_TAG.sub("-", recipe.version)[:LONGEST].strip("-.") or "unknown"
    tag = f"{recipe.repository}:{version}{cuda}-sm{options.arch.digits}"
    tag = tag if options.platform == options.arch.platform else f"{tag}-{options.target}"
    return (f"{tag}-{key[:12]}",)


def _added(draft: Plan, below: Step, toolkit: Toolkit) -> tuple[Step, ...]:
    """The layer of added wheels."""
    wheels = draft.lock.wheels.image[draft.options.target]
    if not wheels or draft.base is None:
        return ()
    inputs = [[wheel.sha256 for wheel in wheels], *_placing(draft.base, toolkit)]
    return (
        Step(
            name=ADDED,
            kind="added",
            key=digest([ADDED, below.key, *inputs]),
            needs=(below.name,),
            files=artifacts(draft.recipe, wheels),
            about=", ".join(f"{wheel.name} {wheel.version}" for wheel in wheels),
        ),
    )


def _built(draft: Plan, wheel: Step, below: Step, toolkit: Toolkit) -> Step:
    """The layer of a wheel that is compiled for the base."""
    where = [*_placing(draft.base, toolkit), module_folder_of(draft, wheel.name)] if draft.base else []
    return Step(
        name=f"layer-{wheel.name}",
        kind="added",
        key=digest([ADDED, below.key, wheel.key, *where]),
        needs=(below.name, wheel.name),
        about="the wheel built here",
    )


def module_folder_of(plan: Plan, wheel: str) -> str:
    """The folder of an image of others that gets a wheel's modules; empty where the wheel is installed as it is."""
    build = plan.recipe.wheels[wheel]
    part = plan.lock.sdists.get(plan.recipe.project(build.source))
    return part.modules if build.method == "aot" and isinstance(part, LockedPart) else ""


def _placing(base: BaseImage, toolkit: Toolkit) -> list[object]:
    """What decides where the files of a wheel lie in a base."""
    place = [base.site_packages[:1], base.interpreter, base.python, base.glibc]
    return [place, [toolkit.digests_of(PLACER, *UNPACKING), toolkit.uv]]


def _patched(draft: Plan, below: Step, toolkit: Toolkit) -> tuple[Step, ...]:
    """The layer of patched files; their texts are those of the base, so its key stands for them."""
    uses = laid_over(draft.options)
    if not uses:
        return ()
    inputs = [part for use in uses for part in (use.source, *use.inputs)]
    return (
        Step(
            name=PATCHED,
            kind="patched",
            key=digest([PATCHED, below.key, inputs, toolkit.digests_of(PLACER, *PATCHER, *PLACING), toolkit.layouts]),
            needs=(below.name,),
            about=", ".join(use.name for use in uses),
        ),
    )


def laid_over(options: Options) -> tuple[PatchUse, ...]:
    """The patches of files that a base holds; those of what is compiled alone change no file of it."""
    return tuple(use for use in options.patches if use.installable)
