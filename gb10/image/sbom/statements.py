"""Statements about an image in in-toto's form: SLSA's provenance, and what the checks found. Pure.

They hold no time and no machine: two builds of one image state the same.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from gb10.image.plan.recorded import RecordedFile, RecordedPlan
from gb10.image.sbom.parts import deb_part, source_part, wheel_part

MEDIA_TYPE: Final = "application/vnd.in-toto+json"
PREDICATE: Final = "in-toto.io/predicate-type"
"""The annotation that names what a statement is about, as BuildKit writes it."""
STATEMENT: Final = "https://in-toto.io/Statement/v1"
PROVENANCE: Final = "https://slsa.dev/provenance/v1"
VERIFICATION: Final = "urn:gb10:verification:v1"
BUILD_TYPE: Final = "urn:gb10:image:v1"
BUILDER: Final = "urn:gb10:builder"


def statement(subject: str, digest: str, predicate_type: str, predicate: Mapping[str, Any]) -> dict[str, Any]:
    """A statement about the manifest of an image, by its name without a tag."""
    return {
        "_type": STATEMENT,
        "subject": [{"name": subject, "digest": {"sha256": digest.removeprefix("sha256:")}}],
        "predicateType": predicate_type,
        "predicate": dict(predicate),
    }


def provenance(plan: RecordedPlan, document: Mapping[str, Any], *, config: str, tool: str) -> dict[str, Any]:
    """SLSA's predicate: what was asked for, every locked file that was read, and the plan's own document."""
    return {
        "buildDefinition": {
            "buildType": BUILD_TYPE,
            "externalParameters": {
                "engine": plan.engine,
                "version": plan.version,
                "arch": plan.arch,
                "platform": plan.platform,
                "patches": [{"name": f"{one.source}/{one.name}", "sha256": one.sha256} for one in plan.patches],
                "mods": [{"name": one.name, "sha256": one.sha256} for one in plan.mods],
                "without": list(plan.without),
                **({"withoutPatches": list(plan.unpatched)} if plan.unpatched else {}),
            },
            "internalParameters": {"plan": dict(document)},
            "resolvedDependencies": dependencies(plan),
        },
        "runDetails": {
            "builder": {"id": BUILDER, "version": {"gb10": tool.removeprefix("gb10-")}},
            "byproducts": [{"name": "the image's config", "digest": {"sha256": config.removeprefix("sha256:")}}],
        },
    }


def dependencies(plan: RecordedPlan) -> list[dict[str, Any]]:
    """Every locked file that a step reads, once, by sha256; of the build tools those of either building machine."""
    found: dict[str, dict[str, Any]] = {}
    for files in (*(step.files for step in plan.steps), plan.inputs.lock.files()):
        for file in files:
            found.setdefault(file.sha256, _dependency(file, plan.suite))
    return sorted(found.values(), key=lambda one: (str(one["name"]), str(one["digest"])))


def _dependency(file: RecordedFile, suite: str) -> dict[str, Any]:
    if file.filename.endswith(".deb"):
        part = deb_part(file, suite, "")
    else:
        part = wheel_part(file, "") if file.filename.endswith(".whl") else source_part(file)
    place = {"uri": part.git or part.purl} if part.git or part.purl else {}
    return {"name": file.filename, "digest": {"sha256": file.sha256}, **place}


def verification(document: Mapping[str, Any], checks: Sequence[str]) -> dict[str, Any]:
    """What `verify --json` printed of the image, and the checks that were made."""
    return {"checks": list(checks), "verdict": dict(document)}
