"""An SBOM as SPDX 2.3 in JSON. The same image gives the same bytes: the lock's date is the only time in it. Pure."""

import json
import re
import uuid
from collections.abc import Iterable
from typing import Any, Final

from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression

from gb10.image.sbom.parts import Bill, Part

MEDIA_TYPE: Final = "application/spdx+json"
NAMESPACE: Final = uuid.UUID("5a1f4c0e-7d8e-5c39-9a57-6bb0c2f6e1a4")
NONE: Final = "NOASSERTION"
PURPOSES: Final = {
    "image": "CONTAINER",
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
        **({"externalRefs": [_purl(part.purl)]} if part.purl else {}),
        **({"comment": comment} if comment else {}),
    }


def _purl(purl: str) -> dict[str, str]:
    return {"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": purl}


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
