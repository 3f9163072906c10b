"""``--ref NAME=VERSION``: the recipe with different releases, resolved once; the store keeps the lock."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from packaging.utils import canonicalize_name
from packaging.version import Version
from pydantic import Field, ValidationError

from gb10.core.fields import Model, Name, Requirements, requirement_name
from gb10.core.files import digest
from gb10.core.host import Host
from gb10.core.store import note_use
from gb10.errors import FetchError, Gb10Error, UsageError
from gb10.image.context import Context
from gb10.image.lock.lockfile import check_lock, input_digest, load_lock, load_recipe, write_lock
from gb10.image.lock.moves import Next, pin_of, pins
from gb10.image.lock.offered import demanded, links_of, newest_of, require_release, require_wheel
from gb10.image.lock.relock import NONE, TORCH, main_index, own_index, resolve_lock
from gb10.image.lock.resolver import MISFIT
from gb10.image.patches.release_files import version_of
from gb10.image.patches.selection import BUNDLED
from gb10.image.patches.series import load_series
from gb10.image.patches.verdict import variants_for
from gb10.image.plan.steps import class_of
from gb10.image.recipe.image_recipe import Override, Recipe, Source
from gb10.image.recipe.locked import Lock
from gb10.image.request.commit_wheels import CommitWheel, with_commit_wheel, without_commit_wheel
from gb10.image.request.optional_layers import asking_less, optional_layer_of

SECTION, FILE, FIT = "resolved", "lock.json", "fit.json"
ENGINES: Final = ("vllm", "sglang")
"""Engines that have a recipe of ours: ``--engine`` takes their names."""
ONE = r"([a-z0-9-]+)(?:\[[^\]]*\]|\{[^}]*\})?==([^\s;,]*[^\s;,.])"
DEMANDED = re.compile(rf"\bdepends?\s+on\s+{ONE}(?:\s+and\s+{ONE}(?=,))?")
"""uv joins two demands of one release by "and"; another clause may follow that word, too, but no comma its version."""
NO_WHEEL = re.compile(r"([a-z0-9-]+)==([^\s;,]+) has no usable wheels")
WHEEL = """the package index has no wheel of {project} {version} for this image: in a recipe of your own name an index
that has it (indexes), or take another release of it, if that will do (overrides)
"""
OWN = """choose other releases (--ref NAME=VERSION for each)
or change more in a recipe of your own: cp recipes/images/{engine}.yaml recipes/images/my.yaml, change requirements and
sources there, then ./build.py lock --engine my"""


def with_refs(recipe: Recipe, refs: Mapping[str, str]) -> Recipe:
    """The recipe with these releases. Raises UsageError for an invalid release, or a name that the recipe lacks."""
    wanted = {project_of(recipe, source): _release(source, text) for source, text in refs.items()}
    changes = {
        "version": wanted.get(recipe.engine, recipe.version),
        "requirements": tuple(_other(text, wanted) for text in recipe.requirements),
        "sources": {
            name: Source(sdist=_other(source.sdist, wanted)) if source.sdist else source
            for name, source in recipe.sources.items()
        },
    }
    return recipe.model_copy(update=changes)


def are_own(recipe: Recipe, refs: Mapping[str, str]) -> bool:
    """Whether all these releases are those that the recipe pins: then nothing is another one. Raises UsageError."""
    released = without_commit_wheel(recipe) if recipe.engine in refs else recipe
    return with_refs(released, refs) == recipe


def project_of(recipe: Recipe, name: str) -> str:
    """The index project of a source of the recipe, of its engine, or of a required project.

    Raises UsageError for any other name, and for a source from git.
    """
    project = recipe.project(name) if name in recipe.sources else name
    required = {requirement_name(text) for text in recipe.requirements}
    if project in required:
        return project
    if name in recipe.sources:
        raise UsageError(
            f"--ref {name}: the {recipe.engine} recipe pins it to a git commit",
            hint="copy the recipe, change the commit, then lock the copy: ./build.py lock --engine FILE.yaml",
        )
    valid = sorted({recipe.engine, *(source for source in recipe.sources if recipe.sources[source].sdist), *required})
    hint = f"valid: {', '.join(valid)}"
    if name in ENGINES:
        hint = f"{name} is another engine: add --engine {name}\n{hint}"
    raise UsageError(f"--ref {name}: the {recipe.engine} recipe requires no {name}", hint=hint)


def _release(source: str, text: str) -> str:
    try:
        return str(Version(text))
    except ValueError as error:  # packaging's own, or a number of too many digits
        raise UsageError(
            f"--ref {source}={text} is not a release on the package index",
            hint="of a commit, or of a checkout of the locked release:\n"
            f"--ref {source}=git:https://HOST/PATH@COMMIT\n--source {source}=DIR",
        ) from error


def _other(requirement: str, wanted: Mapping[str, str]) -> str:
    name = str(canonicalize_name(requirement_name(requirement)))
    return f"{name}=={wanted[name]}" if name in wanted else requirement


OF_COMMIT: Final = "the commit that is built requires it in place of what the wheel of its release declares"


class Fit(Model):
    """What a recipe takes with other releases than its own, beyond those that were named, and what it leaves out."""

    releases: dict[Name, str] = Field(default_factory=dict)
    """By project: what the engine's release requires."""
    added: Requirements = ()
    """Requirements for what the recipe pins, and no package of this release brings."""
    left_out: dict[Name, str] = Field(default_factory=dict)
    """Optional layers, each with the reason."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Fitted:
    """A recipe with other releases, and its lock. The layers that were left out are still in the recipe.

    ``refs``: the releases that were named; none when the recipe pins all of them.
    """

    recipe: Recipe
    lock: Lock
    refs: dict[str, str]
    left_out: Mapping[str, str] = field(default_factory=dict)


def recipe_of_release(ctx: Context, engine: str, refs: Mapping[str, str]) -> Path:
    """The recipe's file: that of ``--engine``, or another one of ours that is for the release of ``--ref``.

    A post-release counts as the release. Raises UsageError.
    """
    path = ctx.catalog.recipe(engine)
    if engine not in ctx.catalog.engines() or not refs:
        return path
    recipe = load_recipe(path)
    wanted = refs.get(recipe.engine)
    if wanted is None or _numbers(wanted) in (None, _numbers(recipe.version)):
        return path
    for name in ctx.catalog.engines():
        other = load_recipe(ctx.catalog.recipe(name))
        if other.engine == recipe.engine and _numbers(other.version) == _numbers(wanted):
            ctx.reporter.say(f"the recipe {name} is for {recipe.engine} {other.version}: it is taken")
            return ctx.catalog.recipe(name)
    return path


def _numbers(text: str) -> tuple[int, ...] | None:
    """0, 5 and 10 of 0.5.10.post1; None for what is no release."""
    try:
        return Version(text).release
    except ValueError:
        return None


def fit_release(
    host: Host,
    recipe: Recipe,
    base: Lock,
    refs: Mapping[str, str],
    without: Sequence[str],
    *,
    changed: Sequence[str] = (),
    wheel: CommitWheel | None = None,
) -> Fitted:
    """The recipe with other releases and its lock, from the store or resolved now. The recipe's own are unchanged.

    With another release of the engine its exact requirements move, too. ``without``: optional layers that do not
    count. ``changed``: what a commit of the engine requires in place of what its release requires. ``wheel``: that of a
    commit, in place of a release's. The lock keeps versions of ``base`` that still fit, and its date. Releases that the
    recipe pins itself change nothing, also no key. Raises UsageError when nothing fits, FetchError.
    """
    if not changed and not wheel and are_own(recipe, refs):
        return Fitted(recipe=recipe, lock=base, refs={})
    recipe = without_commit_wheel(recipe) if recipe.engine in refs else recipe
    asked = with_refs(asking_less(recipe, without), refs)
    asked = with_changed(with_commit_wheel(asked, wheel) if wheel else asked, changed)
    named = _listed_refs(refs)
    inputs = [input_digest(recipe), base.model_dump(mode="json"), sorted(refs.items()), sorted(without), list(changed)]
    inputs += [wheel.model_dump(mode="json")] if wheel else []
    entry = host.store.entry(SECTION, digest(inputs))
    with host.store.locked(f"resolved-{entry.name}", host.reporter.waiting_for(named)):
        cached = (entry / FIT).exists()
        if not cached:
            with host.reporter.task(f"resolve {named}"):
                fit, made = _fit(host, recipe, asked, base, refs)

            def write(work: Path) -> None:
                write_lock(work / FILE, made)
                (work / FIT).write_text(fit.model_dump_json(by_alias=True), encoding="utf-8")

            host.store.replace(entry, write)
        lock, fit = load_lock(entry / FILE), _read_fit(entry / FIT)
        note_use(entry / FILE)
    fitted = _with_fit(asked, fit)
    check_lock(fitted, lock, entry / FILE)
    _say(host, recipe, fit, named)
    wheels = len(lock.wheels.image["arm64"])
    how = "locked before" if cached else "locked now"
    host.reporter.say(f"{how}: {named}, {wheels} wheels in the store; the recipe and its lock are unchanged")
    own = _without_empty_layers(host, fitted, lock, fit)
    return Fitted(recipe=own, lock=lock, refs=dict(refs), left_out=fit.left_out)


def _listed_refs(refs: Mapping[str, str]) -> str:
    return ", ".join(f"{source} {text}" for source, text in refs.items())


def with_changed(recipe: Recipe, changed: Sequence[str]) -> Recipe:
    """The recipe with requirements of a commit: they hold in place of what the wheel of the release declares.

    An override of the recipe's own stays. Source archives follow exact releases. Pure.
    """
    own = {requirement_name(one.requirement) for one in recipe.overrides}
    texts = {requirement_name(text): text for text in changed if requirement_name(text) not in own}
    pinned = {project: pin for project, text in texts.items() if (pin := pin_of(text))}
    known = {requirement_name(text) for text in recipe.requirements}
    made = with_refs(recipe, {project: pin for project, pin in pinned.items() if project in known})
    kept = tuple(texts.get(requirement_name(text), text) for text in made.requirements)
    fresh = tuple(text for project, text in texts.items() if project not in known)
    overrides = tuple(Override(requirement=text, why=OF_COMMIT) for text in texts.values())
    return made.model_copy(
        update={"requirements": (*kept, *fresh), "overrides": (*made.overrides, *overrides)} if texts else {}
    )


def _read_fit(path: Path) -> Fit:
    try:
        return Fit.model_validate_json(path.read_bytes())
    except ValidationError as error:
        raise UsageError(
            "the store has a lock that this version of gb10 cannot read", where=str(path), hint=f"delete {path.parent}"
        ) from error


def _with_fit(asked: Recipe, fit: Fit) -> Recipe:
    """The recipe that the lock of a fit is for."""
    made = asking_less(with_refs(asked, fit.releases), tuple(fit.left_out))
    return made.model_copy(update={"requirements": (*made.requirements, *fit.added)})


def _say(host: Host, recipe: Recipe, fit: Fit, named: str) -> None:
    """One line for each thing that the recipe has otherwise."""
    pinned = [
        f"{project} {version}"
        for project, version in fit.releases.items()
        if optional_layer_of(recipe, project) not in fit.left_out
    ]
    if pinned:
        host.reporter.say(f"{named} requires {', '.join(pinned)}: taken with it")
    if fit.added:
        host.reporter.say(f"added, for the recipe pins them and no package brings them: {', '.join(fit.added)}")
    for layer, why in fit.left_out.items():
        host.reporter.say(f"{layer} is left out: {why}")


def _fit(host: Host, recipe: Recipe, asked: Recipe, base: Lock, refs: Mapping[str, str]) -> tuple[Fit, Lock]:
    """Resolve, and leave out one optional layer after the other while they do not fit."""
    fit = _of_engine(host, recipe, asked, refs)
    while True:
        try:
            made = _resolved(host, _with_fit(asked, fit), base, refs)
        except UsageError as error:
            if not error.message.startswith(MISFIT):
                raise
            optional = _optional(_with_fit(asked, fit), _whole(error))
            if not optional:
                known = _with_fit(asked, fit)
                hint = _way_out(known, error, *_completed(host, known, base, refs, error))
                raise UsageError(f"{_listed_refs(refs)}: {error.message}", where=error.where, hint=hint) from error
            fit = fit.model_copy(update={"left_out": {**fit.left_out, optional[0]: error.message}})
            continue
        if fit.added or not (added := _toolkit(asked, base, made)):
            return fit, made
        fit = fit.model_copy(update={"added": added})


def _of_engine(host: Host, recipe: Recipe, asked: Recipe, refs: Mapping[str, str]) -> Fit:
    """What another release of the engine requires, by its metadata. Raises UsageError, FetchError."""
    known = next((pin_of(text) for text in recipe.requirements if requirement_name(text) == recipe.engine), None)
    if known is None or asked.version == recipe.version:
        return Fit()
    old, new = Version(known), Version(asked.version)
    found, newer = links_of(host, recipe, old), links_of(host, asked, new)
    require_release(newer.links, recipe.engine, str(new))
    require_wheel(newer, new)
    offered = any(version_of(link) == old for link in found.links)  # the index may have the recipe's release no longer
    demands = demanded(host, found, old) if offered else ()
    release = Next(engine=recipe.engine, version=new, old=demands, new=demanded(host, newer, new))
    chosen = {project_of(recipe, name) for name in refs} | {
        requirement_name(one.requirement) for one in asked.overrides
    }
    free = tuple(text for text in asked.requirements if requirement_name(text) not in chosen - {recipe.engine})
    moves = pins(
        recipe.model_copy(update={"requirements": free, "sources": {}}),
        release,
        lambda project, accepted: newest_of(found, project, accepted),
    )
    return Fit(
        releases={move.what: move.after for move in moves if move.at[0] == "requirements" and move.what not in chosen},
        left_out=dict(_not_known(recipe, release, free)),
    )


def _not_known(recipe: Recipe, release: Next, requirements: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Optional layers whose project was required by an extra of the engine, and this release has no such extra."""
    by_extra = {demand.project for demand in release.old if demand.extra}
    known = {demand.project for demand in release.new}
    for project in map(requirement_name, requirements):
        layer = optional_layer_of(recipe, project)
        if layer and project in by_extra - known:
            yield layer, f"{release.name} has no extra that requires {project}"


def _toolkit(asked: Recipe, base: Lock, made: Lock) -> tuple[str, ...]:
    """Pins of the recipe's constraints whose projects its own image holds, and the new one does not."""
    before, after = ({wheel.name for wheel in lock.wheels.image["arm64"]} for lock in (base, made))
    return tuple(text for text in asked.constraints if requirement_name(text) in before - after)


def _without_empty_layers(host: Host, recipe: Recipe, lock: Lock, fit: Fit) -> Recipe:
    """The recipe without layers that none of the locked wheels is for."""
    filled = {class_of(wheel.name, recipe.layers) for wheels in lock.wheels.image.values() for wheel in wheels}
    empty = [layer.name for layer in recipe.layers if layer.name not in filled and layer.name not in fit.left_out]
    for name in empty:
        host.reporter.say(f"the layer {name} is left out: this release brings none of its packages")
    return recipe.model_copy(update={"layers": tuple(layer for layer in recipe.layers if layer.name not in empty)})


def require_cuda(recipe: Recipe, lock: Lock, path: Path) -> None:
    """Raise UsageError for a release whose torch for aarch64 is not built with the recipe's CUDA, on this index."""
    torch = next((wheel for wheel in lock.wheels.image["arm64"] if wheel.name == TORCH), None)
    if torch is None or torch.cuda in (None, recipe.cuda):
        return
    built = "without CUDA" if torch.cuda == NONE else f"with CUDA {torch.cuda}"
    label = f"cu{recipe.cuda.replace('.', '')}"
    required = {requirement_name(text) for text in recipe.requirements}
    family = [name for name in (TORCH, "torchaudio", "torchvision") if name in required | {TORCH}]
    raise UsageError(
        f"{recipe.engine} {recipe.version} takes torch {torch.version}, and the package index has that for aarch64 "
        f"{built} alone",
        where=torch.filename,
        hint=f"name PyTorch's index for CUDA {recipe.cuda} in a recipe of your own, then lock it:\n"
        f"cp {path} my.yaml; add to it\n"
        f"indexes: {{pytorch: {{url: https://download.pytorch.org/whl/{label}, packages: [{', '.join(family)}]}}}}",
    )


OPERATORS: Final = b"torch.ops.gb10"
"""How code calls the operators of our own kernels."""


def without_idle_kernels(ctx: Context, recipe: Recipe) -> Recipe:
    """The recipe without wheels of our own kernels that no patch for its engine's release calls."""
    own = [name for name, wheel in recipe.built.items() if wheel.method == "extension"]
    version, series = Version(recipe.version), load_series(ctx.catalog.patches, recipe.engine)
    used = (patch for patch in variants_for(series, version) if patch.applies_to(version))
    if not own or recipe.engine not in recipe.patches or any(OPERATORS in patch.text for patch in used):
        return recipe
    ctx.reporter.say(f"{', '.join(own)} is left out: no patch for {recipe.engine} {recipe.version} calls it")
    wheels = {name: wheel for name, wheel in recipe.wheels.items() if name not in own}
    patches = recipe.patches
    if not any(wheel.cutlass for wheel in wheels.values() if wheel.targets):
        patches = tuple(source for source in patches if source != BUNDLED)  # nothing is compiled over it
    return recipe.model_copy(update={"wheels": wheels, "patches": patches})


def _resolved(host: Host, recipe: Recipe, base: Lock, refs: Mapping[str, str]) -> Lock:
    index = main_index(host.env)
    for source, text in refs.items():
        project = project_of(recipe, source)
        require_release(own_index(recipe, project, index, host.store).links(project), source, text)
    made = resolve_lock(recipe, base, store=host.store, env=host.env)
    return made.model_copy(update={"created": base.created})


def _way_out(recipe: Recipe, first: UsageError, tried: Mapping[str, str], last: Gb10Error | None) -> str:
    """The releases that fit; without any, those that were tried with the last error, and what else one can do."""
    options = "".join(f" --ref {name}={version}" for name, version in tried.items())
    if last is None:
        return f"these releases fit together:{options}"
    own = OWN.format(engine=recipe.engine)
    for project, version in dict.fromkeys(NO_WHEEL.findall(last.message)):
        own = WHEEL.format(project=project, version=version) + own
    return own if last is first else f"no releases were found that fit. Also tried:{options}\n{last.message}\n{own}"


def _optional(recipe: Recipe, message: str) -> list[str]:
    """The optional layers with a requirement that the resolver names."""
    required = {requirement_name(text): class_of(requirement_name(text), recipe.layers) for text in recipe.requirements}
    named = {layer for name, layer in required.items() if re.search(rf"(?<![\w.-]){re.escape(name)}[<>=!~]", message)}
    return [layer.name for layer in recipe.layers if layer.optional and layer.name in named]


def _completed(
    host: Host, recipe: Recipe, base: Lock, refs: Mapping[str, str], error: UsageError
) -> tuple[dict[str, str], Gb10Error | None]:
    """``refs`` and what the resolver's messages demand of the other requirements, with the last error if none fits."""
    wanted = dict(refs)
    free = {requirement_name(text) for text in recipe.requirements} - {project_of(recipe, name) for name in refs}
    while found := next((pair for pair in _demands(error) if pair[0] in free), None):
        free.remove(found[0])
        wanted |= [found]
        try:
            resolve_lock(with_refs(recipe, wanted), base, store=host.store, env=host.env)
            return wanted, None
        except UsageError as other:
            error = other
        except FetchError as lost:
            return wanted, lost
    return wanted, error


def _demands(error: UsageError) -> list[tuple[str, str]]:
    """The releases (project, version) that other releases demand, in uv's words: the steps shown first. Pure."""
    found = DEMANDED.findall(_whole(error))
    return [(name, version) for pairs in found for name, version in (pairs[:2], pairs[2:]) if name]


def _whole(error: UsageError) -> str:
    """The resolver's message with all steps of its derivation."""
    return "\n".join([error.message, error.where or "", *getattr(error, "__notes__", ())])
