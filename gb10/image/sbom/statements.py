"""Statements about an image in in-toto's form: SLSA's provenance, and what the checks found. Pure.

They hold no time and no machine: two builds of one image state the same.
"""

import json
import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression

from gb10.image.plan.plan_record import RecordedFile, RecordedPlan
from gb10.image.sbom.parts import BASE, Bill, Part, deb_part, source_part, wheel_part

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
    if plan.base:
        found[BASE] = {"name": plan.base.reference, "digest": {"sha256": plan.base.digest.removeprefix("sha256:")}}
    for files in (*(step.files for step in plan.steps if step.kind != "base"), plan.inputs.lock.files()):
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


SPDX_MEDIA_TYPE: Final = "application/spdx+json"
NAMESPACE: Final = uuid.UUID("5a1f4c0e-7d8e-5c39-9a57-6bb0c2f6e1a4")
NONE: Final = "NOASSERTION"
PURPOSES: Final = {
    "image": "CONTAINER",
    "base": "CONTAINER",
    "deb": "LIBRARY",
    "wheel": "LIBRARY",
    "built": "LIBRARY",
    "source": "SOURCE",
    "nested": "SOURCE",
    "patch": "FILE",
    "mod": "OTHER",
    "overlay": "OTHER",
}
OWN: Final = "LicenseRef-"


def spdx(bill: Bill, *, digest: str, created: str, tool: str) -> dict[str, Any]:
    """The document of an image with this config digest, of a lock of this day, by this tool (``gb10-1.0``)."""
    identities = identities_of(bill.parts)
    image = bill.parts[0]
    relations = [("SPDXRef-DOCUMENT", "DESCRIBES", identities[image.id])]
    relations += [(identities[one], verb, identities[two]) for one, verb, two in bill.relations]
    return {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"{image.name}:{image.version}",
        "documentNamespace": f"urn:uuid:{uuid.uuid5(NAMESPACE, f'{digest} {tool}')}",
        "creationInfo": {"created": f"{created}T00:00:00Z", "creators": [f"Tool: {tool}"]},
        "packages": [_package(part, identities[part.id], digest) for part in bill.parts],
        "relationships": [
            {"spdxElementId": one, "relationshipType": verb, "relatedSpdxElement": two}
            for one, verb, two in sorted(relations)
        ],
    }


def identities_of(parts: Iterable[Part]) -> dict[str, str]:
    """An SPDX identifier for each part: letters, digits, dots and hyphens, no two alike."""
    found: dict[str, str] = {}
    taken = set[str]()
    for part in parts:
        name = "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]+", "-", part.id)
        number, unique = 1, name
        while unique in taken:
            number += 1
            unique = f"{name}-{number}"
        taken.add(unique)
        found[part.id] = unique
    return found


def _package(part: Part, identity: str, digest: str) -> dict[str, Any]:
    sha256 = digest.removeprefix("sha256:") if part.kind == "image" else part.sha256
    comment = "; ".join(filter(None, (part.comment, f"in the image's {part.layer}" if part.layer else "")))
    return {
        "SPDXID": identity,
        "name": part.name,
        **({"versionInfo": part.version} if part.version else {}),
        **({"packageFileName": part.filename} if part.filename else {}),
        "primaryPackagePurpose": PURPOSES[part.kind],
        "downloadLocation": part.git or NONE,
        "filesAnalyzed": False,
        "licenseConcluded": NONE,
        "licenseDeclared": licence_of(part.licence),
        "copyrightText": NONE,
        **({"checksums": [{"algorithm": "SHA256", "checksumValue": sha256}]} if sha256 else {}),
        **(
            {
                "externalRefs": [
                    {"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": part.purl}
                ]
            }
            if part.purl
            else {}
        ),
        **({"comment": comment} if comment else {}),
    }


def licence_of(text: str) -> str:
    """A licence as SPDX writes it; NOASSERTION for free words, and for one that would need a text beside it."""
    try:
        found = str(canonicalize_license_expression(text))
    except InvalidLicenseExpression:
        return NONE
    return NONE if OWN.lower() in found.lower() else found


def as_bytes(document: dict[str, Any]) -> bytes:
    """A document as it is printed, attached and hashed."""
    return (json.dumps(document, indent=1, sort_keys=True) + "\n").encode()
