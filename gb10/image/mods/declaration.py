"""A mod's ``mod.yaml``, and whether the mod fits a release. Pure."""

from typing import Final

from packaging.specifiers import SpecifierSet
from packaging.version import Version
from pydantic import Field

from gb10.core.document import parse_document
from gb10.core.fields import Model, Name, Release, Releases, Sentence
from gb10.errors import UsageError

RECORD: Final = "mod.yaml"


class ModRecord(Model):
    """What a mod does, why, for which releases of which engines, and when it can go."""

    what: Sentence
    why: Sentence
    upstream: str | None = None
    engines: dict[Name, Releases]
    fixed: dict[Name, Release] = Field(default_factory=dict)
    """By engine, the first release that does not need the mod."""
    flags: tuple[str, ...] = ()
    """Options that the mod adds to the engine's server; lint of a recipe with the mod knows them."""
    network: bool = False
    untuned: bool = False
    """It contains numbers that nobody measured on a GB10: safe, not fast."""
    delete_when: Sentence


def parse_record(text: str, where: str) -> ModRecord:
    """The record of a mod; raises UsageError with file:line:col for every mistake."""
    return parse_document(text, ModRecord, where=where, what="record of a mod")


def unfit(record: ModRecord, engine: str, version: str) -> str | None:
    """Why a mod is not for a release, None when it is; a local version (``+gb10.…``) is the release it came from."""
    release = Version(Version(version).public)
    if engine in record.fixed and release >= Version(record.fixed[engine]):
        return f"already upstream: {engine} {version} does not need it (fixed in {engine} {record.fixed[engine]})"
    if engine not in record.engines:
        return f"it is for {_spell(record)}, not for {engine}"
    if not SpecifierSet(record.engines[engine], prereleases=True).contains(release):
        return f"it is for {_spell(record)}, the image has {engine} {version}"
    return None


def require_fit(record: ModRecord, name: str, engine: str, version: str) -> None:
    """Raise UsageError for a mod that is not for this release."""
    reason = unfit(record, engine, version)
    if reason:
        hint = f"leave it out, or widen engines in its {RECORD} once you have tried it"
        if reason.startswith("already upstream"):
            hint = f"leave out --mod {name}: nothing was changed"
        raise UsageError(f"the mod {name} is not for {engine} {version}", where=reason, hint=hint)


def _spell(record: ModRecord) -> str:
    return " and ".join(f"{engine} {releases}" for engine, releases in sorted(record.engines.items()))
