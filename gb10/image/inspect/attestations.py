"""The documents of an image of ours, made of what it holds: its bill, its SBOM, its provenance, its verification."""

import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from gb10 import __version__
from gb10.containers.connection import Engine
from gb10.containers.image_reading import read_folders
from gb10.containers.images import ImageInfo
from gb10.errors import UsageError
from gb10.image.context import Context
from gb10.image.inspect.patch_notes import patch_stories, whys
from gb10.image.inspect.summary import OVERLAY
from gb10.image.plan.recorded import RecordedPlan
from gb10.image.proof.arch_match import judge
from gb10.image.proof.check import Facts, Subject
from gb10.image.proof.checking import all_checks, findings
from gb10.image.proof.own_record import PLAN, own_changes, own_plan, own_scan
from gb10.image.proof.reading import read_linked
from gb10.image.proof.report import document
from gb10.image.proof.scans import LINKED, SCANS
from gb10.image.recipe.arch import parse_arch
from gb10.image.sbom import spdx, statements
from gb10.image.sbom.parts import Bill, bill_of, read_nested
from gb10.image.sbom.spdx import as_bytes

TOOL: Final = f"gb10-{__version__}"


@dataclass(frozen=True)
class Papers:
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
        return as_bytes(spdx.spdx(self.bill, digest=self.config, created=self.plan.created, tool=TOOL))

    @cached_property
    def provenance(self) -> dict[str, Any]:
        """The predicate of its provenance."""
        own: dict[str, Any] = json.loads(self.files[PLAN])
        return statements.provenance(self.plan, own, config=self.config, tool=TOOL)

    @cached_property
    def verification(self) -> dict[str, Any]:
        """The predicate of its verification: the same verdict that `verify --json` prints."""
        scan, arch = own_scan(self.plan.tags[-1], self.files), parse_arch(self.plan.arch)
        subject = Subject(
            scan=scan,
            linked=read_linked(self.files[f"{SCANS}/{LINKED}"].decode(), LINKED),
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
        verdict = document(judge(scan, arch), findings(subject))
        return statements.verification(verdict, [check.name for check in all_checks()])


def papers_of(ctx: Context, engine: Engine, image: ImageInfo, config: str) -> Papers:
    """The documents of an image; ``config`` is its config's digest. Raises UsageError for one that is not ours."""
    files = read_folders(engine, ctx.store, image, [PLAN, SCANS])[0]
    plan = own_plan(files)
    if plan is None or f"{SCANS}/{LINKED}" not in files:
        raise UsageError(
            "the image holds no plan and no scans of gb10, of which an SBOM is made",
            where=image.id,
            hint="build it by this release of gb10; `publish --no-attest` pushes an older one without",
        )
    return Papers(ctx, image, config, files, plan)
