"""Planning: read recipe and lock, refuse a stale lock, resolve the command-line options, plan."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.version import Version
from pydantic import ValidationError

from gb10.errors import Gb10Error, UsageError
from gb10.image.context import Context, build_architecture
from gb10.image.lock.lockfile import check_lock, load_any, load_lock, load_recipe, lock_path
from gb10.image.mods.declaration import RECORD, require_fit
from gb10.image.mods.read import FoundMod, find_mod
from gb10.image.patches.releases import load_releases
from gb10.image.patches.selection import left_out, plan_patches, require_stand_in
from gb10.image.plan.catalog import Catalog, tree_digest
from gb10.image.plan.dag import GEMM, plan_image, plan_program
from gb10.image.plan.options import Mod, Options, Overlay, Served
from gb10.image.plan.values import PLACES, Plan, Toolkit
from gb10.image.recipe.arch import ARCHES, Arch, parse_arch
from gb10.image.recipe.image_recipe import Recipe, WheelBuild
from gb10.image.recipe.locked import Lock
from gb10.image.recipe.on_image import ImageBase, OnImage, derived
from gb10.image.request.checkouts import (
    START,
    GitCommit,
    OwnSource,
    own_sources,
    parse_commit,
    split_refs,
    with_checkout_names,
)
from gb10.image.request.given_diffs import by_source, from_web, with_origins
from gb10.image.request.image_request import Request
from gb10.image.request.kernel_probe import fitting_sets, for_engine
from gb10.image.request.optional_layers import drop_optional_layers

if TYPE_CHECKING:
    from gb10.image.request.any_commit import CommitChange
    from gb10.image.request.nearest_release import Nearest

__all__ = ["Reasons", "Request", "make_plan", "reasons", "with_targets"]


def make_plan(ctx: Context, request: Request) -> Plan:
    """The plan of a request. Only ``--ref`` and URLs ask others, once; the store keeps the results.

    What few requests need is imported for them: a plan takes a second. Raises UsageError for a bad recipe or arch,
    LockStaleError for a stale lock.
    """
    arch = parse_arch(request.arch)
    if request.base:
        from gb10.image.request.from_image import check_from, plain_engine  # noqa: PLC0415 - for --from

        engine = plain_engine(request.engine) if request.named_engine else None
        asked = OnImage(base=ImageBase(image=check_from(request.base)), engine=engine)
        return _plan_on(ctx, request, asked, _locked_base(ctx, request, asked, arch), "--engine")
    own = ctx.catalog.recipe(request.engine)
    on_image = load_any(own)
    if isinstance(on_image, OnImage):
        return _plan_of_file(ctx, request, on_image, own)
    platform = request.platform or arch.platform
    path, refs, commit, nearest = _release(ctx, request)
    recipe = load_recipe(path)
    lock = load_lock(lock_path(path))
    check_lock(recipe, lock, path)
    without, target = request.without, Options(arch=arch, platform=platform, build=build_architecture()).target
    changed = nearest.requirements if nearest else ()
    if changed and not refs:
        refs = {recipe.engine: recipe.version}
    if refs:
        from gb10.image.request.refs import fit_release, require_cuda, without_idle_kernels  # noqa: PLC0415 - for --ref

        wheel = nearest.wheel if nearest else None
        fitted = fit_release(ctx, recipe, lock, refs, without, changed=changed, wheel=wheel)
        if nearest and changed:
            plain = fit_release(ctx, recipe, lock, refs, without, wheel=wheel)
            _say_derived(ctx, plain.lock, fitted.lock, nearest)
        recipe, lock, without, refs = fitted.recipe, fitted.lock, (*without, *fitted.left_out), fitted.refs
        require_cuda(recipe, lock, path)
        recipe = without_idle_kernels(ctx, recipe)
    recipe, lock = drop_optional_layers(recipe, lock, without)
    change, targets = None, request.targets
    if commit:
        from gb10.image.request.any_commit import change_of_commit  # noqa: PLC0415 - for a commit
        from gb10.image.request.changed_targets import check_pins, targets_of_commit  # noqa: PLC0415 - the same

        change = change_of_commit(ctx, recipe, lock, target, commit)
        targets = targets or targets_of_commit(ctx, recipe, lock, change)
        check_pins(ctx, recipe, change, targets)
    recipe = with_targets(recipe, targets)
    _, commits = split_refs(request.refs)
    others = tuple(text for text in commits if commit is None or not text.startswith(f"{recipe.engine}="))
    sources = own_sources(ctx, recipe, lock, target, (*request.sources, *others))
    sources = (change.own, *sources) if change else sources
    changed_engine = any(one.source == recipe.engine and one.diffs for one in sources)
    recipe = for_engine(ctx, recipe, ctx.catalog.toolkit, changed=bool(commit) or changed_engine)
    recipe, toolkit, served = _with_kernels(ctx, request, recipe, lock)
    toolkit = fitting_sets(ctx, recipe, lock, toolkit)
    options = Options(
        arch=arch,
        platform=platform,
        build=build_architecture(),
        overlay=_overlay(request.overlay),
        mods=_mods(ctx.catalog, request, recipe),
        targets=targets,
        refs=tuple(refs),
        kernels=request.kernels or request.model,
        without=tuple(sorted(without)),
        slim=request.slim,
    )
    if served:
        from gb10.image.request.kernel_choice import with_warmup_run  # noqa: PLC0415 - for a model

        options = replace(options, served=with_warmup_run(ctx, recipe, toolkit, options, served))
    options = _with_patches(ctx, request, recipe, lock, toolkit=toolkit, options=options, own=sources, change=change)
    return plan_image(recipe, lock, toolkit, options)


def _locked_base(ctx: Context, request: Request, given: OnImage, arch: Arch) -> Lock:
    """The lock of what ``--from`` names: a tag is resolved now, and printed."""
    from gb10.image.lock.base_lock import lock_in_memory  # noqa: PLC0415 - for --from

    lock = lock_in_memory(ctx, given, request.platform or arch.platform)
    if "@" not in given.base.image and lock.base:
        ctx.reporter.say(f"--from {given.base.image} is {lock.base.reference}")
    return lock


def _plan_of_file(ctx: Context, request: Request, given: OnImage, path: Path) -> Plan:
    """The plan of a recipe file on an image of others, by its lock."""
    from gb10.image.lock.base_lock import check_on_image  # noqa: PLC0415 - for an image of others
    from gb10.image.request.from_image import beside  # noqa: PLC0415 - the same

    lock = load_lock(lock_path(path))
    check_on_image(given, lock, path)
    if request.platform and request.platform != given.platform:
        raise UsageError(
            f"{path.name} is for {given.platform}, and --platform names {request.platform}",
            where=str(path),
            hint=f"leave the option out, or write platform: {request.platform} into the recipe and lock it again",
        )
    own = replace(
        request,
        patches=(*beside(path, given.patches), *request.patches),
        mods=(*beside(path, given.mods), *request.mods),
    )
    return _plan_on(ctx, own, given, lock, f"the engine of {path.name}")


def _plan_on(ctx: Context, request: Request, given: OnImage, lock: Lock, named: str) -> Plan:
    """The plan of a request on an image of others. Raises UsageError for options that are for our own images."""
    from gb10.image.lock.base_lock import build_inputs, with_kernel_inputs  # noqa: PLC0415 - for an image of others
    from gb10.image.request.from_image import (  # noqa: PLC0415 - the same
        Over,
        plan_over,
        release_of,
        require_engine,
        split_sets,
    )
    from gb10.image.request.kernel_choice import served_model  # noqa: PLC0415 - the same

    wrong = next((name for name, given in _of_recipes(request).items() if given), None)
    if wrong is not None:
        raise UsageError(f"--from excludes {wrong}", hint="--from keeps what the image holds; leave out one of them")
    base = lock.base
    if base is None:
        raise UsageError("the lock names no image", hint="lock it again: ./build.py lock --engine FILE")
    kernels, own = split_sets(request.kernels)
    if kernels and request.model:
        raise UsageError("--kernels and --for-model both choose the kernels", hint="choose one of them")
    served = served_model(ctx, request.model, request.served_with)
    wanted = kernels or ("core" if served else given.kernels)
    given = given.model_copy(update={"kernels": wanted, "own_kernels": own or given.own_kernels})
    if given.compiles and (lock.headers is None or (own and not any(one.name == "torch" for one in lock.headers))):
        lock = with_kernel_inputs(ctx, lock, given)
    base = lock.base or base
    require_engine(base, given.engine, named)
    engine, version = release_of(base)
    recipe = derived(given.without_kernels(), base, build_inputs(ctx)[0])
    recipe = recipe.model_copy(update={"engine": engine, "version": version})  # for mods alone
    over = Over(
        arch=parse_arch(request.arch),
        patches=request.patches,
        overlay=_overlay(request.overlay),
        mods=_mods(ctx.catalog, request, recipe),
        without_patches=request.without_patches,
        served=served,
    )
    return plan_over(ctx, given, lock, over)


def _of_recipes(request: Request) -> dict[str, bool]:
    """The options that choose what our own recipes build, and whether each is given."""
    return {
        "--ref": bool(request.refs),
        "--source": bool(request.sources),
        "--targets": bool(request.targets),
        "--without": bool(request.without),
        "--recipe": bool(request.serves),
        "--slim all": request.slim == "all",
    }


def _say_derived(ctx: Context, old: Lock, new: Lock, nearest: "Nearest") -> None:
    """Print what a commit requires otherwise, and the wheels of the image that differ for it."""
    before, after = ({wheel.name: wheel.version for wheel in lock.wheels.image["arm64"]} for lock in (old, new))
    names = sorted(name for name in {*before, *after} if before.get(name) != after.get(name))
    wheels = [f"{name} {before.get(name, 'none')} -> {after.get(name, 'none')}" for name in names]
    ctx.reporter.say(f"the commit requires: {', '.join(nearest.otherwise)}")
    ctx.reporter.say(f"derived lock, against that of {nearest.release}: {', '.join(wheels) or 'the same wheels'}")


def _release(ctx: Context, request: Request) -> "tuple[Path, dict[str, str], GitCommit | None, Nearest | None]":
    """The recipe's file, the releases that ``--ref`` names, the commit that it names of the engine, its release."""
    if not request.refs:
        return ctx.catalog.recipe(request.engine), {}, None, None
    from gb10.image.lock.offered import full_release, is_short, links_of  # noqa: PLC0415 - for --ref
    from gb10.image.request.commit_wheels import keep_wheels  # noqa: PLC0415 - for --ref
    from gb10.image.request.nearest_release import nearest_release  # noqa: PLC0415 - for --ref
    from gb10.image.request.refs import recipe_of_release  # noqa: PLC0415 - for --ref

    refs, _ = split_refs(request.refs)
    path = recipe_of_release(ctx, request.engine, refs)
    recipe = load_recipe(path)
    if recipe.engine in refs and is_short(refs[recipe.engine]):
        links = links_of(ctx, recipe, Version(recipe.version)).links
        refs[recipe.engine] = full_release(links, recipe.engine, refs[recipe.engine])
        path = recipe_of_release(ctx, request.engine, refs)
        recipe = load_recipe(path)
    text = request.refs.get(recipe.engine, "")
    if not text.startswith(START):
        return path, refs, None, None
    commit = parse_commit(recipe.engine, text)
    found = nearest_release(ctx, recipe, commit)
    ctx.reporter.say(f"{commit} is built on the wheel of {recipe.engine} {found.release}: {found.why}")
    if found.wheel:
        keep_wheels(ctx, recipe, found.wheel)
    if found.release != recipe.version:
        refs[recipe.engine] = found.release
        path = recipe_of_release(ctx, request.engine, refs)
    return path, refs, commit, found


def _with_patches(
    ctx: Context,
    request: Request,
    recipe: Recipe,
    lock: Lock,
    *,
    toolkit: Toolkit,
    options: Options,
    own: Sequence[OwnSource],
    change: "CommitChange | None" = None,
) -> Options:
    """The options with the patches of ours and of the request, in the order in which they are applied.

    A whole commit comes first: our patches are for what it leaves, those that it has already are left out.
    """
    given, urls = from_web(ctx, request.patches)
    diffs = by_source(ctx, recipe, lock, options.target, [*(text for source in own for text in source.by_hand), *given])
    planning = partial(plan_patches, ctx.catalog.patches, recipe, lock, options.target, toolkit=toolkit)
    gone = left_out(ctx.catalog.patches, request.without_patches, planning(())) if request.without_patches else ()
    if change:
        from gb10.image.request.any_commit import no_longer_needed  # noqa: PLC0415 - for a commit

        had = set(no_longer_needed(ctx, change, recipe)) & {use.patch for use in planning(())}
        gone = tuple(sorted({*gone, *had}))
    planned = planning(diffs.texts, without=gone)
    require_stand_in(recipe, gone, planned)
    patches = with_origins(with_checkout_names(planned, own, diffs.origins), urls, diffs.origins)
    if change:
        patches = tuple(sorted(patches, key=lambda use: use.taken != change.own.taken))
    return replace(options, patches=patches, unpatched=gone)


def _with_kernels(ctx: Context, request: Request, recipe: Recipe, lock: Lock) -> tuple[Recipe, Toolkit, Served | None]:
    """Recipe and toolkit with the kernel set of the request, and the model that chooses it."""
    toolkit = ctx.catalog.toolkit
    if not (request.kernels or request.model or request.served_with):
        return recipe, toolkit, None
    from gb10.image.request.kernel_choice import (  # noqa: PLC0415 - for kernels that the request chooses
        chosen_kernels,
        served_model,
        with_model,
        with_set,
    )

    served = served_model(ctx, request.model, request.served_with)
    if request.kernels and served:
        raise UsageError("--kernels and --for-model both choose the kernels", hint="choose one of them")
    if served:
        chosen = chosen_kernels(ctx, recipe, lock, json.loads(served.config), dict(served.options))
        return *with_model(ctx, recipe, toolkit, served, chosen), served
    return with_set(recipe, request.kernels) if request.kernels else recipe, toolkit, None


def with_targets(recipe: Recipe, targets: tuple[str, ...]) -> Recipe:
    """The recipe with these CMake targets. Raises UsageError when it has no wheel of method ``source``."""
    if not targets:
        return recipe
    name = next((name for name, wheel in recipe.wheels.items() if wheel.method == "source"), None)
    if name is None:
        raise UsageError(
            f"--targets: the {recipe.engine} recipe compiles no project of its engine",
            hint="add a wheel of method source to its wheels",
        )
    wheel = recipe.wheels[name]
    try:
        wheel = WheelBuild(**{**dict(wheel), "targets": tuple(sorted(targets))})
    except ValidationError as error:
        raise UsageError(
            f"--targets {','.join(targets)}: {error.errors()[0]['msg']}", hint="name CMake targets, separated by commas"
        ) from error
    return recipe.model_copy(update={"wheels": {**recipe.wheels, name: wheel}})


def _mods(catalog: Catalog, request: Request, recipe: Recipe) -> tuple[Mod, ...]:
    """The mods of a request, in order. Raises UsageError for a mod that is invalid, for another
    release, or foreign and without consent to its network.
    """
    root = catalog.root / "mods"
    found = [find_mod(root, name) for name in request.mods]
    for index, mod in enumerate(found):
        if mod.name in [other.name for other in found[:index]]:
            raise UsageError(
                f"two mods are called {mod.name}",
                where=f"both would be installed in /workspace/mods/{mod.name}",
                hint="remove one, or rename its folder",
            )
        if mod.record:
            require_fit(mod.record, mod.name, recipe.engine, recipe.version)
    return tuple(
        Mod(name=mod.name, path=str(mod.path), digest=mod.digest, network=_network(root, mod, request.mod_network))
        for mod in found
    )


def _network(root: Path, mod: FoundMod, consent: bool) -> bool:
    """Whether a mod gets the network. A foreign mod needs the user's consent; raises UsageError without it."""
    if mod.path.resolve().parent == root.resolve():
        return mod.network
    if mod.network and not consent:
        raise UsageError(
            f"the mod {mod.name} needs the network, but it is not part of this checkout",
            where=f"{mod.path}: {RECORD} has network: true",
            hint="read its run.sh; if you trust it, add --mod-network: it then gets the network, this machine's CAs,\n"
            "its proxies, and pip's index with its login",
        )
    return consent and (mod.network or mod.record is None)


def _overlay(path: Path | None) -> Overlay | None:
    if path is None:
        return None
    if path == Path():  # the result of an unset variable
        raise UsageError("the overlay is the current directory", hint="if you mean it, give its path")
    if not path.is_dir():
        raise UsageError(
            f"the overlay {path} is not a directory", hint="give a directory that mirrors the image's root"
        )
    return Overlay(path=str(path.absolute()), digest=tree_digest(path))


Reasons = dict[tuple[str, str], str]
"""Users of each entry, by section and key."""


def reasons(ctx: Context, unplanned: Callable[[str], None]) -> Reasons:
    """Why each entry is needed: by an image of any engine and arch, or by the check of patches against releases.

    ``unplanned`` gets a line for each recipe without a valid plan: what that one needs is unknown.
    """
    found: Reasons = {}
    for source, pinned in load_releases(ctx.catalog.patches).sources.items():
        for version, release in pinned.releases.items():
            for section in ("downloads", "trees"):
                found[section, release.sha256] = f"patches, {source} {version}"
    for label, plan in _plans(ctx, unplanned):
        for step in plan.steps:
            for file in step.files:
                found.setdefault(("downloads", file.sha256), label)
            if step.kind in PLACES:
                found.setdefault((PLACES[step.kind], step.key), label)
    return found


def _plans(ctx: Context, unplanned: Callable[[str], None]) -> Iterator[tuple[str, Plan]]:
    """The plans of every image and program. A recipe without a valid plan is reported and skipped."""
    for engine in ctx.catalog.engines():
        try:
            plans = [make_plan(ctx, Request(engine=engine, arch=str(arch))) for arch in ARCHES]
        except Gb10Error as error:
            unplanned(f"{engine} has no valid plan, so its needs are unknown: {error.message}")
            continue
        yield from ((f"{engine} {plan.recipe.version}", plan) for plan in plans)
        if GEMM.source in plans[0].recipe.sources:
            yield from (("bench gemm", plan_program(GEMM, plan, ctx.catalog.toolkit)) for plan in plans)
