"""Replaying: the record inside an image becomes its plan again, by this checkout's code. Raises UsageError."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gb10.errors import UsageError
from gb10.image.context import Context, build_architecture
from gb10.image.lock.lockfile import load_recipe
from gb10.image.mods.lookup import FoundMod, find_mod, mod_names
from gb10.image.plan.catalog import Catalog, tree_digest
from gb10.image.plan.compiles import set_owner
from gb10.image.plan.dag import plan_image
from gb10.image.plan.options import Mod, Options, Overlay, PatchUse, Taken
from gb10.image.plan.plan_record import NO_HOST, OF_A_MACHINE
from gb10.image.plan.values import Plan, Toolkit
from gb10.image.recipe.arch import parse_arch
from gb10.image.recipe.builds import Source
from gb10.image.recipe.image_recipe import Recipe
from gb10.image.recipe.layout import PLAIN
from gb10.image.request.replay_input import ModEntry, PatchEntry, PatchInput, Record

SHOWN = 12


@dataclass(frozen=True, kw_only=True, slots=True)
class Given:
    """What an image does not hold of its inputs, as the command line gives it again."""

    mods: tuple[str, ...] = ()
    mod_network: bool = False
    overlay: Path | None = None


@contextmanager
def replayed(ctx: Context, record: Record, given: Given) -> Iterator[Plan]:
    """The plan of a record; it may be used while the context lasts. Raises UsageError when it is another one now."""
    with ctx.store.folder("replay") as folder:
        plan = plan_again(ctx.catalog, record, given, folder)
        require_same(plan, record)
        yield plan


def plan_again(catalog: Catalog, record: Record, given: Given, folder: Path) -> Plan:
    """The plan of a record; patches that it holds are laid into ``folder``."""
    inputs, arch = record.inputs, parse_arch(record.arch)
    recipe = with_servers(catalog, inputs.recipe)
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
    return plan_image(recipe, inputs.lock, with_kernels(catalog.toolkit, recipe, inputs.kernels), options)


def with_servers(catalog: Catalog, recipe: Recipe) -> Recipe:
    """The recipe with servers of the checkout's recipe alone: what an image says of servers is not asked."""
    known = load_recipe(catalog.recipe(recipe.engine)) if recipe.engine in catalog.engines() else None
    own = known.sources if known else {}
    sources = {name: _located(source, own.get(name)) for name, source in recipe.sources.items()}
    return recipe.model_copy(update={"indexes": known.indexes if known else {}, "sources": sources})


def _located(source: Source, known: Source | None) -> Source:
    if source.sdist:
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


def _mod(catalog: Catalog, wanted: ModEntry, given: Given) -> Mod:
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
