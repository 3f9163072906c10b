"""A patch's message: its subject and its DEP-3 trailers. Pure.

https://dep-team.pages.debian.net/deps/dep3/ names the fields; as trailers at the end of the message they survive
``git am`` and ``git format-patch``. ``X-Applies-To`` is ours: the releases that a patch is for.
"""

import datetime
import re
from dataclasses import dataclass
from typing import Final

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from gb10.errors import PatchError

REQUIRED: Final = ("Origin", "Forwarded", "Last-Update", "X-Applies-To")
KNOWN: Final = (*REQUIRED, "Bug", "Applied-Upstream", "Signed-off-by", "Reviewed-by")
TRAILER: Final = re.compile(r"([A-Za-z][A-Za-z-]*): (.+)")
BOUNDS: Final = (">=", "<", "==")
"""With these alone the ends of two ranges show whether they overlap."""
ORIGINS: Final = ("upstream", "backport", "vendor", "other")


@dataclass(frozen=True, kw_only=True, slots=True)
class Header:
    """The header fields of a patch: origin, forwarding, versions."""

    subject: str
    trailers: tuple[tuple[str, str], ...]
    releases: SpecifierSet

    def get(self, name: str) -> str | None:
        """The value of a trailer, or None."""
        return next((value for key, value in self.trailers if key == name), None)


def parse_header(text: str, source: str, name: str) -> Header:
    """The header before the first file of a diff; raises PatchError that names every missing or wrong field."""
    message = re.split(r"^---\s*$|^diff --git ", text, maxsplit=1, flags=re.MULTILINE)[0]
    subject = re.search(r"^Subject: (?:\[PATCH[^\]]*\] )?(.+(?:\n .+)*)", message, re.MULTILINE)
    trailers = _trailers(message)
    found = dict(trailers)
    problems = [f"the field {field} is missing" for field in REQUIRED if field not in found]
    problems += [f"unknown field {field}" for field in found if field not in KNOWN]
    problems += [] if subject else ["it has no Subject"]
    problems += _wrong(found)
    if problems or not subject:
        raise PatchError(
            f"{name}: the header is not one of ours",
            where="\n".join(problems),
            hint=f"the message ends with the trailers {', '.join(REQUIRED)}",
        )
    releases = _releases(found["X-Applies-To"], source, name)
    return Header(subject=" ".join(subject[1].split()), trailers=trailers, releases=releases)


def _trailers(message: str) -> tuple[tuple[str, str], ...]:
    """The last paragraph that is made of trailers, as ``git interpret-trailers`` finds it."""
    paragraphs = re.split(r"\n\s*\n", message.strip())
    lines = paragraphs[-1].splitlines() if len(paragraphs) > 1 else []
    matches = [TRAILER.fullmatch(line.strip()) for line in lines]
    return tuple((match[1], match[2]) for match in matches if match)


def _wrong(found: dict[str, str]) -> list[str]:
    problems = []
    if found.get("Origin", "other").split(",")[0].strip() not in ORIGINS:
        problems.append(f"Origin is one of {', '.join(ORIGINS)}, found {found['Origin']!r}")
    try:
        datetime.date.fromisoformat(found.get("Last-Update", "2000-01-01"))
    except ValueError:
        problems.append(f"Last-Update is a date (YYYY-MM-DD), found {found['Last-Update']!r}")
    return problems


def _releases(text: str, source: str, name: str) -> SpecifierSet:
    """``vllm >=0.24,<0.34``: the source's own name, then the releases, pre-releases among them."""
    project, _, wanted = text.partition(" ")
    try:
        releases = SpecifierSet(wanted, prereleases=True)
        if project == source and releases and all(one.operator in BOUNDS for one in releases):
            return releases
    except InvalidSpecifier:
        pass
    raise PatchError(
        f"{name}: X-Applies-To does not name releases of {source}",
        where=f"X-Applies-To: {text}",
        hint=f"X-Applies-To: {source} >=1.0,<2.0 (bounds: {', '.join(BOUNDS)})",
    )
