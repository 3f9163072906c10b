"""Licences of packages that were compiled here: which may be given on as binaries, by what their wheels say of them.

Listed are licences that ask no more of who gives a binary on than their text, which the wheel has. All others,
AGPL and a licence that nobody can name among them, are for the machine that built it.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression
from packaging.metadata import parse_email

from gb10.errors import PublishError
from gb10.image.build.wheels import WheelCache
from gb10.image.plan.plan_record import LIBRARIES, PACKAGES
from gb10.image.proof.wheel_files import MANIFEST, open_wheel, read_text

GIVEN_ON: Final = frozenset(
    (
        "0BSD",
        "Apache-2.0",
        "BSD-2-Clause",
        "BSD-3-Clause",
        "BSL-1.0",
        "ISC",
        "MIT",
        "MIT-0",
        "PSF-2.0",
        "Unlicense",
        "Zlib",
    )
)
"""SPDX identifiers."""
CLASSIFIERS: Final[Mapping[str, str]] = {
    "Apache Software License": "Apache-2.0",
    "BSD License": "BSD-3-Clause",
    "Boost Software License 1.0 (BSL-1.0)": "BSL-1.0",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "MIT No Attribution License (MIT-0)": "MIT-0",
    "Python Software Foundation License": "PSF-2.0",
    "The Unlicense (Unlicense)": "Unlicense",
    "zlib/libpng License": "Zlib",
}
"""What PyPI's classifiers behind ``License :: OSI Approved ::`` mean; BSD's is for all of its forms."""
NAMES: Final[Mapping[str, str]] = {
    "apache 2.0": "Apache-2.0",
    "apache license 2.0": "Apache-2.0",
    "apache license, version 2.0": "Apache-2.0",
    "apache-2.0": "Apache-2.0",
    "bsd": "BSD-3-Clause",
    "bsd license": "BSD-3-Clause",
    "bsd-2-clause": "BSD-2-Clause",
    "bsd-3-clause": "BSD-3-Clause",
    "isc": "ISC",
    "mit": "MIT",
    "mit license": "MIT",
}
"""How people write licences in metadata, in lower case."""
WORDS: Final = re.compile(r"[()]|\b(?:AND|WITH)\b")


def licence_problem(metadata: bytes) -> str:
    """Why a package is not given on, in words; empty when its licence allows it. Pure."""
    raw = parse_email(metadata)[0]
    expression = raw.get("license_expression", "")
    if expression:
        return "" if allowed(expression) else f"its licence is {expression[:100]}"
    stated = [one.rpartition(" :: ")[2] for one in raw.get("classifiers", []) if one.startswith("License ::")]
    if stated:
        wrong = [one for one in stated if CLASSIFIERS.get(one) not in GIVEN_ON]
        return f"its licence is {', '.join(wrong)[:100]}" if wrong else ""
    name = " ".join(raw.get("license", "").split())
    if NAMES.get(name.lower()) in GIVEN_ON:
        return ""
    return f"its licence is {name}" if 0 < len(name) <= 100 and name != "UNKNOWN" else "it names no licence"


def allowed(expression: str) -> bool:
    """Whether one side of each OR has listed licences alone. Pure."""
    try:
        text = str(canonicalize_license_expression(expression))
    except InvalidLicenseExpression:
        return False
    if " OR " in text and "(" in text:  # brackets may turn it around: read by people
        return False
    sides = ({word for word in WORDS.sub(" ", side).split() if word} for side in text.split(" OR "))
    return any(side <= GIVEN_ON for side in sides)


def wheel_licence_problem(wheel: Path) -> str:
    """Why a compiled wheel is not given on; empty for kernels of gb10's own methods, whose licences are known."""
    with open_wheel(wheel) as archive:
        manifests = [name for name in archive.namelist() if name.count("/") == 1 and name.endswith(f"/{MANIFEST}")]
        manifest = json.loads(read_text(archive, manifests[0])) if manifests else {}
        if manifest.get("set") == "library":  # it has no metadata: the recipe's word was written into it
            licence = str(manifest.get("licence") or "none")
            return "" if allowed(licence) else f"its licence is {licence[:100]}, by the recipe"
        if manifest.get("set") != "package":
            return ""
        metadata = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return licence_problem(read_text(archive, metadata))


def require_licences(cache: WheelCache, labels: Mapping[str, str], reference: str) -> None:
    """Raise PublishError for an image with packages whose licences do not let it be given on."""
    wrong = [
        f"{label.removeprefix(f'{LIBRARIES}.')}: its licence is {licence}, by the recipe"
        for label, licence in sorted(labels.items())
        if label.startswith(f"{LIBRARIES}.") and not allowed(licence)
    ]
    for label, key in sorted(labels.items()):
        name = label.removeprefix(f"{PACKAGES}.")
        if name == label:
            continue
        wheel = cache.get(key)
        if wheel is None:
            raise PublishError(
                f"{reference} holds {name}, whose wheel is not in the store: its licence cannot be read",
                where=key,
                hint="build the image again: the wheel is made anew",
            )
        if why := wheel_licence_problem(wheel):
            wrong.append(f"{name}: {why}")
    if wrong:
        raise PublishError(
            f"{reference} is for this machine only, so it is not published",
            where="\n".join(wrong),
            hint="publish the recipe instead: who has it builds the same image; or take the package out of the recipe",
        )
