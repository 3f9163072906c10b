"""The claims and reports of the checkout: recipes/claims."""

from pathlib import Path
from typing import Final

from gb10.core.document import parse_document
from gb10.core.files import read_plain_file
from gb10.core.installation import ROOT
from gb10.errors import UsageError
from gb10.serving.claims.claim_schema import ClaimFile, Report, Subject

FOLDER: Final = "recipes/claims"
REPORTS: Final = f"{FOLDER}/reports"
LARGEST: Final = 1 << 20
MOST_REPORTS: Final = 10_000


def load_claims(root: Path = ROOT) -> tuple[Subject, ...]:
    """The claims by subject, in the order of their files. Raises UsageError, also for an id that two files have."""
    found: list[Subject] = []
    files: dict[str, str] = {}
    for path in sorted((root / FOLDER).glob("*.yaml")):
        where = f"{FOLDER}/{path.name}"
        file = parse_document(_text(path), ClaimFile, where=where, what="list of claims")
        for claim in file.claims:
            if files.setdefault(claim.id, where) != where:
                raise UsageError(f"the claim {claim.id} is in {files[claim.id]} and in {where}", hint="rename one")
        found.append(Subject(name=path.stem, title=file.title, claims=file.claims))
    return tuple(found)


def load_reports(root: Path = ROOT) -> tuple[Report, ...]:
    """What is kept of reports, the oldest first. Raises UsageError."""
    paths = sorted((root / REPORTS).glob("*.yaml"))
    if len(paths) > MOST_REPORTS:
        raise UsageError(f"{REPORTS} has more than {MOST_REPORTS} files")
    return tuple(
        parse_document(_text(path), Report, where=f"{REPORTS}/{path.name}", what="report of a machine")
        for path in paths
    )


def _text(path: Path) -> str:
    try:
        return read_plain_file(path, LARGEST).decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8") from error
