"""A mod's ``mod.yaml``, and whether the mod fits a release. Pure."""

import posixpath
import re
from pathlib import Path
from typing import Annotated, Final, Self

from packaging.specifiers import SpecifierSet
from packaging.version import Version
from pydantic import Field, StringConstraints, model_validator

from gb10.core.document import parse_document
from gb10.core.fields import Model, Name, Release, Releases, Sentence
from gb10.core.folder_files import SCRIPT, Files
from gb10.errors import UsageError

RECORD: Final = "mod.yaml"
PatchName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9-]+/\d{4}$")]
"""As ``sglang/0005``."""


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
    mends: tuple[PatchName, ...] = ()
    """Patches of ours whose defects it mends; lint of a recipe with the mod is silent about these."""
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


LONGEST_LINK: Final = 1000
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")
INTERPRETERS: Final = ("bash", "sh", "dash", "python3")


def check_mod(name: str, files: Files) -> ModRecord | None:
    """The record of a mod, None without mod.yaml. Raises UsageError with all breaches of the contract."""
    problems = problems_of(name, files)
    if problems:
        hint = "a mod is a folder or a zip with run.sh at its top; docs/mods.md, Add one"
        raise UsageError(f"the mod {name} breaks the contract", where="\n".join(problems), hint=hint)
    if RECORD not in files:
        return None
    return parse_record(files[RECORD].content.decode("utf-8", "replace"), f"{name}/{RECORD}")


def problems_of(name: str, files: Files) -> list[str]:
    """Everything that breaks the contract, one sentence each."""
    found = []
    if not NAME.fullmatch(name):
        found.append(f"the name {name!r} cannot be a folder's name: letters, digits and . _ + -, at most 64")
    found += _script_problems(files)
    for path, file in files.items():
        if file.kind == "link":
            found += _link_problems(path, file.content.decode(errors="replace"))
        parts = path.split("/")
        above = ("/".join(parts[:count]) for count in range(1, len(parts)))
        if any(files[folder].kind == "link" for folder in above if folder in files):
            found.append(f"{path} is below a link")
    return found


def _link_problems(path: str, target: str) -> list[str]:
    if not target or not target.isprintable() or len(target) > LONGEST_LINK:
        return [f"the link {path} names no usable path: {target[:LONGEST_LINK]!a}"]
    inside = not posixpath.normpath(posixpath.join(posixpath.dirname(path), target)).startswith(("..", "/"))
    return [] if inside else [f"the link {path} leads out of the mod, to {target}"]


def _script_problems(files: Files) -> list[str]:
    script = files.get(SCRIPT)
    if script is None:
        below = [path for path in files if path.endswith(f"/{SCRIPT}")]
        return [f"{SCRIPT} is missing" + (f"; {below[0]} is not at the top" if below else "")]
    if script.kind == "folder":
        return [f"{SCRIPT} is a folder"]
    if b"\r\n" in script.content:
        return [f"{SCRIPT} has Windows line ends: the shell would look for 'bash\\r'"]
    return []


def remarks_of(files: Files) -> list[str]:
    """Warnings for the maintainer of a mod; the mod still runs."""
    first = files[SCRIPT].content.partition(b"\n")[0].decode(errors="replace")
    if not first.startswith("#!"):
        return [f"{SCRIPT} names no interpreter: bash runs it; begin it with #!/usr/bin/env bash"]
    words = [posixpath.basename(word) for word in first[2:].split()]
    program = next((word for word in words if word not in ("env", "-S")), "")
    if program not in INTERPRETERS:
        return [f"{SCRIPT} needs {program!r}; every image has {', '.join(INTERPRETERS)}"]
    return []


TABLE: Final = "community.yaml"


class CommunityMod(Model):
    """``ours`` is a mod of the checkout; ``why``: no image needs it, or none of these releases."""

    name: str
    ours: Name | None = None
    engines: dict[Name, Releases] = Field(default_factory=dict)
    why: Sentence | None = None

    @model_validator(mode="after")
    def _one_answer(self) -> Self:
        if (self.ours is None) == (self.why is None):
            raise ValueError("a mod of the community has exactly one of ours, why")
        return self

    def holds(self, engine: str, version: str) -> bool:
        """Whether the answer is for this release; without ``engines`` it is for all."""
        releases = self.engines.get(engine)
        if releases is None:
            return not self.engines
        return SpecifierSet(releases, prereleases=True).contains(Version(Version(version).public))


class CommunityTable(Model):
    """``mods/community.yaml``."""

    mods: tuple[CommunityMod, ...]


def community_mods(root: Path) -> dict[str, CommunityMod]:
    """The table of the checkout's ``mods/`` by name; raises UsageError for one that is not valid."""
    path = root / TABLE
    table = parse_document(
        path.read_text(encoding="utf-8"), CommunityTable, where=f"mods/{TABLE}", what="table of mods"
    )
    return {mod.name: mod for mod in table.mods}
