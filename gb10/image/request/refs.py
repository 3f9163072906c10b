"""``--ref NAME=VERSION``: the recipe with different releases, resolved once; the store keeps the lock."""

import re
from collections.abc import Iterable, Mapping

from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from gb10.core.fields import requirement_name
from gb10.core.files import digest
from gb10.core.host import Host
from gb10.core.store import note_use
from gb10.errors import FetchError, Gb10Error, UsageError
from gb10.image.lock.lockfile import check_lock, input_digest, load_lock, write_lock
from gb10.image.lock.relock import main_index, own_index, resolve_lock
from gb10.image.lock.resolver import MISFIT
from gb10.image.patches.release_files import version_of
from gb10.image.plan.steps import class_of
from gb10.image.recipe.image_recipe import Recipe, Source
from gb10.image.recipe.locked import Lock
from gb10.sources.index.page import Link

ROOM, FILE = "resolved", "lock.json"
NEWEST = 5
ONE = r"([a-z0-9-]+)(?:\[[^\]]*\]|\{[^}]*\})?==([^\s;,]*[^\s;,.])"
DEMANDED = re.compile(rf"\bdepends?\s+on\s+{ONE}(?:\s+and\s+{ONE}(?=,))?")
"""uv joins two demands of one release by "and"; another clause may follow that word, too, but no comma its version."""
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
    raise UsageError(f"--ref {name}: the {recipe.engine} recipe requires no {name}", hint=f"valid: {', '.join(valid)}")


def _release(source: str, text: str) -> str:
    try:
        return str(Version(text))
    except ValueError as error:  # packaging's own, or a number of too many digits
        raise UsageError(
            f"--ref {source}={text} is not a release on the package index",
            hint="of a commit or a checkout, the changes are carried over to the locked release:\n"
            f"--ref {source}=git:https://HOST/PATH@COMMIT\n--source {source}=DIR",
        ) from error


def _other(requirement: str, wanted: Mapping[str, str]) -> str:
    name = str(canonicalize_name(requirement_name(requirement)))
    return f"{name}=={wanted[name]}" if name in wanted else requirement


def lock_refs(host: Host, recipe: Recipe, base: Lock, refs: Mapping[str, str]) -> Lock:
    """The lock of a recipe with other releases, from the store or resolved now. The recipe's own lock is unchanged.

    It keeps versions of ``base`` that still fit, and its date. Raises UsageError when nothing fits, FetchError.
    """
    named = ", ".join(f"{source} {text}" for source, text in refs.items())
    entry = host.store.entry(ROOM, digest([input_digest(recipe), base.model_dump(mode="json")]))
    with host.store.locked(f"resolved-{entry.name}", host.reporter.waiting_for(named)):
        there = (entry / FILE).exists()
        if not there:
            with host.reporter.task(f"resolve {named}"):
                made = _resolved(host, recipe, base, refs, named)
            host.store.replace(entry, lambda work: write_lock(work / FILE, made))
        lock = load_lock(entry / FILE)
        note_use(entry / FILE)
    check_lock(recipe, lock, entry / FILE)
    wheels = len(lock.wheels.image["arm64"])
    how = "locked before" if there else "locked now"
    host.reporter.say(f"{how}: {named}, {wheels} wheels in the store; the recipe and its lock are unchanged")
    return lock


def require_release(links: Iterable[Link], source: str, text: str, how: str = "") -> None:
    """Raise UsageError, with the newest releases, when the index has no files of this release, or only yanked files.

    ``how``: the option that names a release; by default ``--ref``.
    """
    found = [(version, link) for link in links if (version := version_of(link))]
    asked = [link for version, link in found if SpecifierSet(f"=={text}").contains(version, prereleases=True)]
    if any(not link.yanked for link in asked):
        return
    good = sorted({version for version, link in found if not link.yanked and not version.is_prerelease}, reverse=True)
    problem = f"{source} {text} was yanked by its publishers" if asked else f"the package index has no {source} {text}"
    raise UsageError(
        problem,
        where=f"newest: {', '.join(map(str, good[:NEWEST])) or 'none'}",
        hint=f"choose one of its releases: {how or f'--ref {source}=VERSION'}",
    )


def _resolved(host: Host, recipe: Recipe, base: Lock, refs: Mapping[str, str], named: str) -> Lock:
    index = main_index(host.env)
    for source, text in refs.items():
        project = project_of(recipe, source)
        require_release(own_index(recipe, project, index).links(project), source, text)
    try:
        made = resolve_lock(recipe, base, store=host.store, env=host.env)
    except UsageError as error:
        if not error.message.startswith(MISFIT):
            raise
        hint = _way_out(recipe, error, *_completed(host, recipe, base, refs, error))
        raise UsageError(f"{named}: {error.message}", where=error.where, hint=hint) from error
    return made.model_copy(update={"created": base.created})


def _way_out(recipe: Recipe, first: UsageError, tried: Mapping[str, str], last: Gb10Error | None) -> str:
    """The releases that fit; without any, those that were tried with the last error, and what else one can do."""
    options = "".join(f" --ref {name}={version}" for name, version in tried.items())
    if last is None:
        return f"these releases fit together:{options}"
    own = OWN.format(engine=recipe.engine)
    for layer in _optional(recipe, last.message):
        own = f"leave out {layer}, which is optional: --without {layer}\n{own}"
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
    text = "\n".join([error.message, error.where or "", *getattr(error, "__notes__", ())])
    found = DEMANDED.findall(text)
    return [(name, version) for pairs in found for name, version in (pairs[:2], pairs[2:]) if name]
