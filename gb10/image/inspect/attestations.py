"""The documents of an image of ours, made of what it holds: its bill, its SBOM, its provenance, its verification."""

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from gb10 import __version__
from gb10.containers.connection import Engine
from gb10.containers.images import ImageInfo, read_folders
from gb10.errors import PatchError, UsageError
from gb10.image.context import Context
from gb10.image.inspect.summary import OVERLAY, ModStory, PatchStory
from gb10.image.mods.read import find_mod, mod_names
from gb10.image.patches.series import Patch, load_series, sources
from gb10.image.plan.catalog import Catalog
from gb10.image.plan.plan_record import RecordedPatch, RecordedPlan
from gb10.image.proof.arch_match import judge
from gb10.image.proof.check import Facts, Subject
from gb10.image.proof.checking import all_checks, findings
from gb10.image.proof.reading import read_linked
from gb10.image.proof.report import document
from gb10.image.proof.scans import LINKED, PLAN, SCANS, below_of, own_changes, own_findings, own_plan, own_scan
from gb10.image.recipe.arch import parse_arch
from gb10.image.sbom import statements
from gb10.image.sbom.parts import Bill, bill_of, read_nested
from gb10.image.sbom.statements import as_bytes


def patch_stories(catalog: Catalog, plan: RecordedPlan) -> tuple[PatchStory, ...]:
    """The patches of a plan, in order; each once, though it may be for several projects."""
    named = dict.fromkeys(patch.source for patch in plan.patches)
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


TOOL: Final = f"gb10-{__version__}"


@dataclass(frozen=True)
class Attestations:
    """The documents of one proven image; ``config`` is its config's digest."""

    ctx: Context
    image: ImageInfo
    config: str
    files: dict[str, bytes]
    plan: RecordedPlan

    @cached_property
    def bill(self) -> Bill:
        """Its parts."""
        return bill_of(
            self.plan,
            read_nested(self.ctx.catalog.nested),
            overlay=self.image.labels.get(OVERLAY, ""),
            installed=own_scan("", self.files).distributions,
            whys=whys(patch_stories(self.ctx.catalog, self.plan)),
        )

    @cached_property
    def sbom(self) -> bytes:
        """The SBOM in SPDX."""
        return as_bytes(statements.spdx(self.bill, digest=self.config, created=self.plan.created, tool=TOOL))

    @cached_property
    def provenance(self) -> dict[str, Any]:
        """The predicate of its provenance."""
        own: dict[str, Any] = json.loads(self.files[PLAN])
        return statements.provenance(self.plan, own, config=self.config, tool=TOOL)

    @cached_property
    def verification(self) -> dict[str, Any]:
        """The predicate of its verification: the same verdict that `verify --json` prints."""
        scan, arch = own_scan(self.plan.tags[-1], self.files), parse_arch(self.plan.arch)
        linked = self.files.get(f"{SCANS}/{LINKED}")
        subject = Subject(
            scan=scan,
            linked=read_linked(linked.decode(), LINKED) if linked else None,
            image=Facts(
                platform=self.image.platform,
                user=self.image.user,
                environment=self.image.environment,
                plan=self.plan,
                recorded=own_changes(self.files),
            ),
            arch=arch,
            allowed=self.ctx.catalog.allowances,
        )
        base = self.plan.base
        found = own_findings(below_of(self.ctx, base), subject) if base else findings(subject)
        verdict = document(judge(scan, arch), found)
        return statements.verification(verdict, [check.name for check in all_checks()])


def attestations_of(ctx: Context, engine: Engine, image: ImageInfo, config: str) -> Attestations:
    """The documents of an image; ``config`` is its config's digest. Raises UsageError for one that is not ours."""
    files = read_folders(engine, ctx.store, image, [PLAN, SCANS])[0]
    plan = own_plan(files)
    if plan is None or not (plan.base or f"{SCANS}/{LINKED}" in files):
        raise UsageError(
            "the image holds no plan and no scans of gb10, of which an SBOM is made",
            where=image.id,
            hint="build it by this release of gb10; `publish --no-attest` pushes an older one without",
        )
    return Attestations(ctx, image, config, files, plan)
