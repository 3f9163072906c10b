"""Why an image has its patches and mods: the records of this checkout, for those that are the same by sha256."""

from pathlib import Path

from gb10.errors import PatchError, UsageError
from gb10.image.inspect.summary import ModStory, PatchStory
from gb10.image.mods.read import find_mod, mod_names
from gb10.image.plan.catalog import Catalog
from gb10.image.plan.recorded import RecordedPatch, RecordedPlan
from gb10.patches.series import Patch, load_series, sources


def patch_stories(catalog: Catalog, plan: RecordedPlan) -> tuple[PatchStory, ...]:
    """The patches of a plan, in order; each once, though it may be for several projects."""
    named = {patch.source for patch in plan.patches}
    known = {patch.sha256: patch for source in named for patch in _series(catalog.patches, source)}
    once = {patch.sha256: patch for patch in plan.patches}
    return tuple(_patch(patch, known.get(patch.sha256)) for patch in once.values())


def whys(stories: tuple[PatchStory, ...]) -> dict[str, str]:
    """The defect of each patch, by sha256."""
    return {story.sha256: story.defect for story in stories if story.defect}


def mod_stories(catalog: Catalog, plan: RecordedPlan) -> tuple[ModStory, ...]:
    """The mods of a plan, in order."""
    root = catalog.root / "mods"
    own = {name: find_mod(root, name) for name in mod_names(root)} if plan.mods else {}
    found = []
    for mod in plan.mods:
        record = own[mod.name].record if mod.name in own and own[mod.name].digest == mod.sha256 else None
        what, until = (record.what, record.delete_when) if record else ("", "")
        found.append(ModStory(name=mod.name, sha256=mod.sha256, what=what, delete_when=until))
    return tuple(found)


def _series(root: Path, source: str) -> tuple[Patch, ...]:
    """A source's series; nothing of one that this checkout has not, or cannot read."""
    try:
        return load_series(root, source) if source in sources(root) else ()
    except (PatchError, UsageError):
        return ()


def _patch(recorded: RecordedPatch, known: Patch | None) -> PatchStory:
    origin = recorded.url or (f"checkout {recorded.checkout.commit}" if recorded.checkout else "")
    if known is None:
        return PatchStory(source=recorded.source, name=recorded.name, sha256=recorded.sha256, origin=origin)
    return PatchStory(
        source=recorded.source,
        name=recorded.name,
        sha256=recorded.sha256,
        defect=known.record.defect,
        fix=known.record.fix,
        applies=str(known.header.releases),
        since=known.record.since or "",
        until=known.record.until or "",
        upstream=known.record.upstream or "",
        origin=origin,
    )
