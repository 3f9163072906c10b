"""Replaying: the record inside an image becomes its plan again, by this checkout's code. Raises UsageError."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import Base64Bytes, ConfigDict, Field, StringConstraints, ValidationError

from gb10.core.fields import Commit, Model, Name, Sha256
from gb10.errors import UsageError
from gb10.image.context import Context, build_architecture
from gb10.image.lock.lockfile import load_recipe
from gb10.image.mods.read import FoundMod, find_mod, mod_names
from gb10.image.plan.base_plan import plan_on_image
from gb10.image.plan.catalog import DEFAULT_ENGINE, Catalog, tree_digest
from gb10.image.plan.compiles import set_owner
from gb10.image.plan.dag import plan_image
from gb10.image.plan.options import Mod, Options, Overlay, PatchUse, Taken
from gb10.image.plan.plan_record import NO_HOST, OF_A_MACHINE
from gb10.image.plan.values import SCHEMA, Plan, Toolkit
from gb10.image.recipe.arch import parse_arch
from gb10.image.recipe.image_recipe import PLAIN, Layout, Recipe, Source
from gb10.image.recipe.kernel_sets import SetFile
from gb10.image.recipe.locked import Lock
from gb10.image.recipe.on_image import OnImage, derived
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

    recipe: Recipe | OnImage
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
    # what kind of recipe was tried is no part of the document
    place = [str(part) for part in first["loc"] if part != OnImage.__name__ and not str(part).startswith("function-")]
    return f"{where}: {'.'.join(place)[:200]}: {first['msg'][:200]}"


SHOWN = 12


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplayInputs:
    """What an image does not hold of its inputs, as the command line gives it again."""

    mods: tuple[str, ...] = ()
    mod_network: bool = False
    overlay: Path | None = None


@contextmanager
def replayed(ctx: Context, record: Record, given: ReplayInputs) -> Iterator[Plan]:
    """The plan of a record; it may be used while the context lasts. Raises UsageError when it is another one now."""
    with ctx.store.folder("replay") as folder:
        plan = plan_again(ctx.catalog, record, given, folder)
        require_same(plan, record)
        yield plan


def plan_again(catalog: Catalog, record: Record, given: ReplayInputs, folder: Path) -> Plan:
    """The plan of a record; patches that it holds are laid into ``folder``."""
    inputs, arch = record.inputs, parse_arch(record.arch)
    options = Options(
        arch=arch,
        platform=record.platform,
        build=build_architecture(),
        overlay=_overlay(given.overlay, inputs.options.overlay),
        patches=tuple(_patches(record, folder)),
        mods=tuple(_mod(catalog, mod, given) for mod in record.mods),
        targets=inputs.options.targets,
        kernels="recorded" if inputs.options.kernels else None,
        refs=inputs.options.refs,
        without=record.without,
        unpatched=record.unpatched,
        slim=inputs.options.slim,
        foreign=True,
    )
    if isinstance(inputs.recipe, OnImage):
        if inputs.lock.base is None:
            raise UsageError("the record of the plan names no image to build on", hint=NEWER)
        build = load_recipe(catalog.recipe(DEFAULT_ENGINE))
        toolkit = catalog.toolkit
        if inputs.recipe.compiles:
            toolkit = with_kernels(toolkit, derived(inputs.recipe, inputs.lock.base, build), inputs.kernels)
        return plan_on_image(inputs.recipe, build, inputs.lock, toolkit, options)
    recipe = with_servers(catalog, inputs.recipe)
    return plan_image(recipe, inputs.lock, with_kernels(catalog.toolkit, recipe, inputs.kernels), options)


def with_servers(catalog: Catalog, recipe: Recipe) -> Recipe:
    """The recipe with servers of the checkout's recipe alone: what an image says of servers is not asked."""
    known = load_recipe(catalog.recipe(recipe.engine)) if recipe.engine in catalog.engines() else None
    own = known.sources if known else {}
    sources = {name: _located(source, own.get(name)) for name, source in recipe.sources.items()}
    return recipe.model_copy(update={"indexes": known.indexes if known else {}, "sources": sources})


def _located(source: Source, known: Source | None) -> Source:
    if source.pinned:
        return source
    same = known is not None and _files(known) == _files(source)
    return source.model_copy(update={"git": known.git if known and same else NO_HOST})


def _files(source: Source) -> tuple[object, ...]:
    return source.pin, source.paths, source.submodules


def with_kernels(toolkit: Toolkit, recipe: Recipe, kernels: dict[str, dict[str, Any]]) -> Toolkit:
    """The toolkit with the sets that the wheels were compiled from, which were tried with their release then."""
    sets = dict(toolkit.kernel_sets)
    for name, words in kernels.items():
        build = recipe.wheels.get(name)
        if build is None or build.kernels is None:
            raise UsageError(f"the record has kernels of {name}, and its recipe builds no such wheel")
        sets[f"{set_owner(build)}-{build.kernels}"] = {
            **words,
            "name": build.kernels,
            "flashinfer": [(recipe.sources[build.source].sdist or "").partition("==")[2]],
        }
    return replace(toolkit, kernel_sets=sets)


def _patches(record: Record, folder: Path) -> Iterator[PatchUse]:
    """The planned patches; the text of those given by hand is laid into ``folder``."""
    for number, (patch, more) in enumerate(zip(record.patches, record.inputs.options.patches, strict=True)):
        path = folder / str(number) / patch.name
        if more.diff is not None:
            path.parent.mkdir(parents=True)
            path.write_bytes(more.diff)
        yield _patch(patch, more, path if more.diff is not None else None)


def _patch(patch: PatchEntry, more: PatchInput, path: Path | None) -> PatchUse:
    taken = Taken(path=str(path), commit=patch.checkout.commit, dirty=patch.checkout.dirty) if patch.checkout else None
    return PatchUse(
        source=patch.source,
        project=patch.project,
        name=patch.name,
        sha256=patch.sha256,
        path=str(path) if path else None,
        installable=more.installable,
        compiled=more.compiled,
        folder=patch.folder,
        layout=more.layout or PLAIN,
        taken=taken,
        url=patch.url,
        whole=patch.whole,
    )


def _overlay(path: Path | None, wanted: str | None) -> Overlay | None:
    if wanted is None:
        return None
    if path is None:
        raise UsageError(
            "the image has an overlay, which it does not hold apart", hint="give the folder: --overlay DIR"
        )
    if not path.is_dir() or tree_digest(path) != wanted:
        raise UsageError(f"{path} is not the overlay of the image", where=f"its digest must be {wanted}")
    return Overlay(path=str(path.absolute()), digest=wanted)


def _mod(catalog: Catalog, wanted: ModEntry, given: ReplayInputs) -> Mod:
    """The very mod of the image, among those given and those of the checkout."""
    root = catalog.root / "mods"
    own = [wanted.name] if wanted.name in mod_names(root) else []
    found = _same(wanted, [find_mod(root, name) for name in (*given.mods, *own)])
    if found is None:
        raise UsageError(
            f"the image has a mod {wanted.name} that is not here",
            where=f"its files have the digest {wanted.sha256}",
            hint=f"give its folder: --mod DIR/{wanted.name}",
        )
    if wanted.network and not given.mod_network and found.path.resolve().parent != root.resolve():
        raise UsageError(f"the mod {wanted.name} ran with the network", hint="if you trust it, add --mod-network")
    return Mod(name=wanted.name, path=str(found.path), digest=found.digest, network=wanted.network)


def _same(wanted: ModEntry, found: Sequence[FoundMod]) -> FoundMod | None:
    return next((mod for mod in found if (mod.name, mod.digest) == (wanted.name, wanted.sha256)), None)


def require_same(plan: Plan, record: Record) -> None:
    """Raise UsageError when this checkout's code makes something else of these inputs."""
    if plan.key == record.key:
        return
    before = {step.name: step.key for step in record.steps}
    after = {step.name: step.key for step in plan.steps if step.name not in OF_A_MACHINE and step.kind != "proof"}
    other = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    raise UsageError(
        "this checkout makes another image of the same inputs",
        where=f"image    {record.key}\ncheckout {plan.key}\nother keys: {', '.join(other[:SHOWN])}",
        hint="check out the release or commit of gb10 that made the image",
    )
