"""Reading ``patches/<source>/``: the series, and every patch with its header, diff, new files and record."""

import datetime
import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import Version

from gb10.core.document import parse_document
from gb10.core.files import digest
from gb10.errors import PatchError, UsageError
from gb10.image.patches.added import added_files
from gb10.image.patches.diff import FileDiff, check_size, parse_diff
from gb10.image.patches.places import installed
from gb10.image.patches.record import Record
from gb10.image.patches.releases import load_releases
from gb10.image.recipe.image_recipe import Layout

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
    # The last paragraph that is made of trailers, as `git interpret-trailers` finds it.
    paragraphs = re.split(r"\n\s*\n", message.strip())
    lines = paragraphs[-1].splitlines() if len(paragraphs) > 1 else []
    matches = [TRAILER.fullmatch(line.strip()) for line in lines]
    trailers = tuple((match[1], match[2]) for match in matches if match)
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


NAME: Final = re.compile(r"(?P<id>\d{4}-[a-z0-9]+(?:-[a-z0-9]+)*)(?:@(?P<variant>[a-z0-9.]+))?(?P<end>\.patch|/)?")
WIRING: Final = "wiring.patch"


@dataclass(frozen=True, kw_only=True)
class Patch:
    """One patch of a series; ``files`` are those that it adds, its own and of our kernels."""

    source: str
    layout: Layout
    name: str
    id: str
    header: Header
    diffs: tuple[FileDiff, ...]
    files: Mapping[str, bytes]
    record: Record
    sha256: str
    text: bytes
    """Message and diff, as they lie there."""

    @property
    def place(self) -> str:
        """Where the patch lies, as errors name it."""
        return f"patches/{self.source}/{self.name}"

    @property
    def installable(self) -> bool:
        """Whether all that it changes is installed: then a wheel can be patched, too."""
        return all(installed(path, self.layout) for path in self.paths)

    @property
    def paths(self) -> tuple[str, ...]:
        """What it changes or adds."""
        return (*(diff.path for diff in self.diffs), *self.files)

    def applies_to(self, version: Version) -> bool:
        """Whether a release is in its range; a local version (``+gb10.…``) is the release it came from."""
        return self.header.releases.contains(Version(version.public), prereleases=True)


def sources(root: Path) -> tuple[str, ...]:
    """The sources that have a series."""
    return tuple(sorted(path.parent.name for path in root.glob("*/series")))


def load_series(root: Path, source: str) -> tuple[Patch, ...]:
    """The patches of a source, in order; raises PatchError for what is missing, double or malformed."""
    folder = root / source
    if not (folder / "series").is_file():
        raise UsageError(
            f"no series for {source!r}", where=str(folder / "series"), hint=f"sources: {', '.join(sources(root))}"
        )
    names = read_series((folder / "series").read_text(encoding="utf-8"), f"patches/{source}/series")
    layout = load_releases(root).source(source).layout
    patches = tuple(load_patch(folder, source, layout, name) for name in names)
    _check_variants(patches)
    return patches


def read_series(text: str, where: str) -> tuple[str, ...]:
    """The names in a quilt series; raises PatchError for a second entry, an option or a name not ours. Pure."""
    names: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        name = line.partition("#")[0].strip()
        if not name:
            continue
        if not NAME.fullmatch(name):
            raise PatchError(
                f"{name!r} is not the name of a patch",
                where=f"{where}:{number}",
                hint="NNNN-slug.patch, NNNN-slug@variant.patch or NNNN-slug/; always -p1",
            )
        if name in names:
            raise PatchError(f"{name} is listed twice", where=f"{where}:{number}")
        names.append(name)
    return tuple(names)


def load_patch(folder: Path, source: str, layout: Layout, name: str) -> Patch:
    """One patch of a series; raises PatchError when a file is missing or malformed."""
    match = NAME.fullmatch(name)
    if match is None:
        raise PatchError(f"{name!r} is not the name of a patch", where=str(folder))
    path = folder / name.rstrip("/")
    diff, beside = (path / WIRING, path / "probe.yaml") if path.is_dir() else (path, folder / f"{match['id']}.yaml")
    text = _read(diff, f"patches/{source}/series", name)
    where = f"patches/{source}/{beside.relative_to(folder)}"
    record = parse_document(_read(beside, where, name).decode(), Record, where=where, what="record of a patch")
    files = added_files(path, folder.parents[1], record.adds)
    header, diffs = _parsed(text, source, f"patches/{source}/{name}")
    patch = Patch(
        source=source,
        layout=layout,
        name=name.rstrip("/"),
        id=match["id"],
        header=header,
        diffs=diffs,
        files=files,
        record=record,
        text=text,
        sha256=_identity(text, files),
    )
    check_whole(patch.place, layout, patch.paths)
    return patch


@lru_cache(maxsize=128)  # `cache ls` and `lock --upgrade` make many plans
def _parsed(text: bytes, source: str, place: str) -> tuple[Header, tuple[FileDiff, ...]]:
    return parse_header(text.decode("utf-8", "replace"), source, place), parse_diff(text, place)


def check_whole(what: str, layout: Layout, paths: Iterable[str]) -> None:
    """Raise PatchError when a wheel holds a part of what a patch changes: in a wheel it would be applied by half.

    A wheel that holds sources, too (``in_wheel``), takes a patch of both.
    """
    if not layout.in_wheel and len({installed(path, layout) for path in paths}) > 1:
        raise PatchError(
            f"{what} changes what a wheel holds and what it does not",
            where="\n".join(paths),
            hint="split it: a patch for either, both named in the series",
        )


def _identity(text: bytes, files: Mapping[str, bytes]) -> str:
    """The sha256 of the diff; with added files, of theirs and the paths, too."""
    own = hashlib.sha256(text).hexdigest()
    return digest([own, {path: hashlib.sha256(new).hexdigest() for path, new in files.items()}]) if files else own


def _read(path: Path, where: str, name: str) -> bytes:
    if not path.is_file():
        raise PatchError(
            f"{path.name} is missing", where=f"{where} names {name}", hint=f"write {path}, or drop the line"
        )
    check_size(path.stat().st_size, path.name)
    return path.read_bytes()


def _check_variants(patches: Iterable[Patch]) -> None:
    """Two patches of one id are variants: no release may be in both ranges. Their bounds and neighbours are tried."""
    by_id: dict[str, list[Patch]] = {}
    for patch in patches:
        by_id.setdefault(patch.id, []).append(patch)
    for variants in (patches for patches in by_id.values() if len(patches) > 1):
        probes = [Version(text) for patch in variants for text in _bounds(patch)]
        for version in probes:
            inside = [patch for patch in variants if patch.applies_to(version)]
            if len(inside) > 1:
                raise PatchError(
                    f"two variants are for {inside[0].source} {version}",
                    where="\n".join(patch.place for patch in inside),
                    hint="their X-Applies-To ranges may not overlap",
                )


def _bounds(patch: Patch) -> list[str]:
    """Each version of a range, and one just above it."""
    versions = [specifier.version.removesuffix(".*") for specifier in patch.header.releases]
    return versions + [f"{version}.post0" for version in versions if not re.search("post|dev", version)]
