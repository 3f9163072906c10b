"""Secrets: the image holds no password, token or private key."""

import re
from collections.abc import Iterator

from gb10.image.proof.check import Check, Problem, Subject
from gb10.image.recipe.allowances import fits
from gb10.inside.scan.hazards import of_content

NAMES = re.compile(r"(?:^|_)(?:TOKEN|SECRET|PASSWORD|PASSWD|API_?KEY|ACCESS_KEY)(?:_|$)", re.IGNORECASE)
HARMLESS = re.compile(r"|[/~$].*|0|1|true|false|none", re.IGNORECASE)
"""Values that are no secret: none, a path, a switch."""


def judge(subject: Subject) -> list[Problem]:
    """Every file with what looks like a secret, and every variable of the image's environment."""
    if subject.image is None:
        return []
    patterns = [pattern for one in subject.allowed.secrets for pattern in one.paths]
    found = [
        Problem(file=one.path, expected="no secret", found=one.what)
        for one in subject.scan.hazards
        if one.kind == "secret" and not fits(one.path, patterns)
    ]
    return [*found, *_of_environment(subject.image.environment)]


def _of_environment(environment: tuple[str, ...]) -> Iterator[Problem]:
    """The value itself is never printed."""
    for entry in environment:
        name, _, value = entry.partition("=")
        kind = next((one.what for one in of_content(value.encode(), name)), "")
        if kind or (NAMES.search(name) and not HARMLESS.fullmatch(value)):
            yield Problem(file=f"ENV {name}", expected="no secret", found=kind or "a value that everybody can read")


CHECK = Check(
    name="secrets",
    reads="the image's environment, .netrc and pip's settings; of mods, overlays and foreign images also the texts",
    fails="one holds a password, a token of a known form, or a private key",
    hint="revoke it if the image left this machine; mods get secrets when the container starts: docker run -e NAME",
    judge=judge,
)
