"""A Dockerfile, a folder with one, or a folder of patches, adopted: found, read bounded, accounted for."""

import difflib
import stat
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from packaging.utils import canonicalize_name
from packaging.version import Version

from gb10.containers.reference import is_reference
from gb10.errors import EngineError, FetchError, PatchError, PublishError, UncheckedError, UsageError, VerifyError
from gb10.image.adopt.accounting import DockerfileInputs, account
from gb10.image.adopt.adopted import Adopted, Line
from gb10.image.adopt.build_files import BuildFile, BuildFiles, ignore_rules
from gb10.image.adopt.dockerfile import MOST_BYTES, Dockerfile, parse_dockerfile
from gb10.image.adopt.recipe_files import one_line, rows_of
from gb10.image.context import Context
from gb10.image.inspect.remote import remote_image
from gb10.image.patches.diff import check_diff, check_size
from gb10.image.patches.owners import SITE, divide
from gb10.image.patches.places import installed
from gb10.image.patches.release_files import Library, open_release, version_of
from gb10.image.patches.releases import Releases, load_releases
from gb10.image.patches.source_tree import Tree
from gb10.image.patches.write import file_diff
from gb10.sources.index.client import open_index_session, size_of, sources
from gb10.sources.index.metadata import wheel_modules
from gb10.sources.index.pip_settings import read_settings

PLATFORM: Final = "linux/arm64"
NAMES: Final = ("Dockerfile", "Containerfile")
MOST_PATCHES: Final = 1_000
SOME: Final = 8
MOST_MODULES: Final = 32
"""Packages whose import names are asked for."""
PREDEFINED: Final = frozenset(
    (
        *("HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "NO_PROXY", "ALL_PROXY", "SOURCE_DATE_EPOCH"),
        *("TARGETPLATFORM", "TARGETOS", "TARGETARCH", "TARGETVARIANT"),
        *("BUILDPLATFORM", "BUILDOS", "BUILDARCH", "BUILDVARIANT"),
    )
)
"""Arguments that a Dockerfile may read without ARG, or that its builder takes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Wanted:
    """What to adopt. ``context`` is the build's folder where it is not the Dockerfile's own; ``refs``: releases, by
    source, whose files stand for those of the base: what is copied over them becomes a patch."""

    place: Path
    context: Path | None = None
    arguments: Mapping[str, str] = field(default_factory=dict)
    target: str = ""
    base: str = ""
    refs: Mapping[str, Version] = field(default_factory=dict)


Ask = Callable[[str], Mapping[str, str]]
"""The variables of an image by its name; raises PublishError when its registry does not answer."""
AskModules = Callable[[str], Collection[str]]
"""The names that a package is imported by; raises FetchError when no index can say."""


def base_environment(ctx: Context, reference: str) -> dict[str, str]:
    """The variables of an image for a GB10, as its registry has them. Raises PublishError, EngineError, VerifyError."""
    settings = remote_image(ctx, None, reference, PLATFORM).config.config
    return dict(text.partition("=")[::2] for text in settings.environment or ()) if settings else {}


def import_names(env: Mapping[str, str], package: str) -> frozenset[str]:
    """The names that a package of the index is imported by: those of the newest wheel's files. Raises FetchError."""
    session = open_index_session(env)
    for index in sources(session, read_settings(env)):
        links = (link for link in index.links(package) if link.filename.endswith(".whl") and not link.yanked)
        own = (link for link in links if canonicalize_name(link.filename.partition("-")[0]) == package)
        if wheels := {version: link for link in own if (version := version_of(link))}:
            newest = wheels[max(wheels)]
            return wheel_modules(session, newest, size_of(session, newest)) or frozenset()
    raise FetchError(f"the package index has no wheel of {package}")


def adopt(library: Library, wanted: Wanted, ask: Ask | None = None, ask_modules: AskModules | None = None) -> Adopted:
    """The parts of a recipe, with a verdict for each line; nothing of theirs is run.

    ``ask`` is called when a line reads a variable of the base, ``ask_modules`` when a line imports what may be of a
    package that is not taken. Raises UsageError for what is neither Dockerfile nor
    patches, FetchError for a release that ``refs`` names.
    """
    if wanted.base and not is_reference(wanted.base):
        raise UsageError(f"--from {wanted.base!r} is no image", hint="write --from NAME@sha256:…")
    releases = load_releases(library.root)
    file = find_dockerfile(wanted.place)
    if file is None:
        return _adopt_patches(wanted, releases)
    text = _read(file)
    root = wanted.context or (wanted.place if wanted.place.is_dir() else file.parent)
    given = DockerfileInputs(arguments=wanted.arguments, target=wanted.target, base=wanted.base)
    parsed = parse_dockerfile(text, file.name)
    _require_declared(wanted.arguments, parsed, file.name)
    rules = ignore_rules(file, root)
    found, remarks = account(parsed, BuildFiles(root, rules), given, releases, file.name), list[str]()
    if ask and found.base and any(line.verdict == "unchecked" and line.need == "base" for line in found.lines):
        try:
            given = replace(given, environment=ask(found.base))
        except (PublishError, EngineError, VerifyError) as error:
            why = f"{error.message}; {error.hint}" if error.hint else error.message
            remarks += [f"the config of {found.base} is not known", why]
        else:
            found = account(parsed, BuildFiles(root, rules), given, releases, file.name)
    if ask_modules and found.unsure:
        modules, unknown = _modules(found.unsure[:MOST_MODULES], ask_modules)
        found = account(parsed, BuildFiles(root, rules), replace(given, modules=modules), releases, file.name)
        remarks += unknown
    found = replace(found, remarks=(*found.remarks, *remarks))
    absent = [line for line in found.lines if line.verdict == "unchecked" and line.need == "lost"]
    if absent and wanted.context is None:
        what = "a line copies" if len(absent) == 1 else f"{len(absent)} lines copy"
        remark = f"{what} files that are not in {root}: give the folder of the build by --context DIR"
        found = replace(found, remarks=(*found.remarks, remark))
    for source, version in wanted.refs.items():
        found = _with_difference(found, source, releases, open_release(library, releases, source, version).tree)
    return found


def _modules(packages: Sequence[str], ask: AskModules) -> tuple[dict[str, Collection[str]], tuple[str, ...]]:
    """The import names of packages, and why those of some are not known."""
    found, unknown = dict[str, Collection[str]](), dict[str, str]()
    for package in packages:
        try:
            found[package] = ask(package)
        except FetchError as error:
            unknown[package] = error.message
    why = f"which names {', '.join(unknown)} is imported by is not known: {next(iter(unknown.values()), '')}"
    return found, (why,) if unknown else ()


def _require_declared(given: Mapping[str, str], file: Dockerfile, name: str) -> None:
    """Raise UsageError for an argument that no ARG reads: its value would be dropped."""
    lines = (*file.before, *(one for stage in file.stages for one in stage.instructions))
    declared = {word.partition("=")[0] for one in lines if one.name == "ARG" for word in one.words}
    unread = [one for one in given if one not in declared and one.upper() not in PREDEFINED]
    if unread:
        folded = {one.lower(): one for one in sorted(declared)}
        close = difflib.get_close_matches(unread[0].lower(), folded, n=1)
        some = ", ".join(sorted(declared)[:SOME]) + (
            f" and {len(declared) - SOME} more" if len(declared) > SOME else ""
        )
        raise UsageError(
            f"no ARG of {name} reads {unread[0]}",
            hint=f"did you mean --build-arg {folded[close[0]]}=…?"
            if close
            else f"it reads {some}"
            if declared
            else "it has no ARG: leave --build-arg out",
        )


def find_dockerfile(place: Path) -> Path | None:
    """The Dockerfile that a path means; None for a folder of patches. Raises UsageError."""
    if place.is_file():
        return place
    if not place.is_dir():
        raise UsageError(f"there is no {place}", hint="give a Dockerfile, a folder with one, or a folder of patches")
    plain = next((place / name for name in NAMES if (place / name).is_file()), None)
    if plain is not None:
        return plain
    others = sorted(
        path
        for path in (*place.glob("*ockerfile*"), *place.glob("docker/*ockerfile*"))
        if path.is_file() and not path.name.endswith((".dockerignore", ".md"))
    )
    if len(others) > 1:
        names = ", ".join(str(path.relative_to(place)) for path in others[:SOME])
        raise UsageError(f"{place} has {len(others)} Dockerfiles", where=names, hint="name one of them")
    if others:
        return others[0]
    if not any(_diffs(place)):
        raise UsageError(
            f"{place} has neither a Dockerfile nor patches",
            hint="give a Dockerfile, or a folder of .patch or .diff files",
        )
    return None


def _read(path: Path) -> bytes:
    """A file, up to one byte over the limit."""
    with path.open("rb") as file:
        return file.read(MOST_BYTES + 1)


def _diffs(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.iterdir()) if path.suffix in (".patch", ".diff"))


def _adopt_patches(wanted: Wanted, releases: Releases) -> Adopted:
    """A folder of diffs: a line for each file."""
    if not wanted.base:
        raise UsageError(
            f"{wanted.place} is a folder of patches, which does not name an image",
            hint="name the image that they change: --from NAME@sha256:…\n"
            "for a release of gb10's own: ./build.py patches adopt DIR --ref vllm=VERSION",
        )
    lines, patches = list[Line](), dict[str, bytes]()
    for number, path in enumerate(_diffs(wanted.place), 1):
        if number > MOST_PATCHES:
            raise UsageError(f"{wanted.place} has more than {MOST_PATCHES:,} patches")
        line = Line(first=number, last=number, instruction="PATCH", text=path.name, verdict="taken", why="")
        if not stat.S_ISREG(path.lstat().st_mode):
            lines.append(replace(line, verdict="not-taken", why="a link or no plain file: it is not followed"))
            continue
        check_size(path.stat().st_size, path.name)
        text = path.read_bytes()
        try:
            check_diff(text, path.name)
            found = divide(text, path.name, releases)
        except (PatchError, UsageError) as error:
            why = f"{error.message}: {(error.where or '').splitlines()[:1]}"
            lines.append(replace(line, verdict="not-taken", why=one_line(why)))
            continue
        sources = ", ".join(f"{part.source} {len(part.diffs)}" for part in found.parts)
        lines.append(replace(line, why=f"patch of {sources}"))
        patches[path.name] = text
    return Adopted(base=wanted.base, patches=patches, lines=tuple(lines))


def _with_difference(found: Adopted, source: str, releases: Releases, tree: Tree) -> Adopted:
    """Files copied over a release's own as a patch: what they change can be read then, and a conflict is seen."""
    layout = releases.source(source).layout
    changes: dict[str, tuple[bytes | None, bytes]] = {}
    for path, file in found.overlay.items():
        inside = SITE.sub("", path) if SITE.match(path) else ""
        if inside and installed(inside, layout) and b"\0" not in file.content:
            changes[path] = (tree.read(inside), file.content)
    text = b"".join(file_diff(SITE.sub("", path), before, after) for path, (before, after) in changes.items())
    if not changes:
        return replace(found, remarks=(*found.remarks, f"nothing is copied over files of {source}"))
    same = sum(before == after for before, after in changes.values())
    new = sum(before is None for before, _ in changes.values())
    remark = (
        f"{len(changes)} files that are copied over {source} are a patch now: {len(changes) - same - new} changed, "
        f"{new} new, {same} as in the release"
    )
    overlay: dict[str, BuildFile] = {path: file for path, file in found.overlay.items() if path not in changes}
    number = len(found.patches) + 1
    patches = {**found.patches, **({f"{number:04}-copied-over-{source}.patch": text} if text else {})}
    return replace(found, overlay=overlay, patches=patches, remarks=(*found.remarks, remark))


def unchecked_error(found: Adopted, place: Path) -> UncheckedError | None:
    """The error of lines without a verdict, to raise after the recipe is written."""
    if not found.unchecked:
        return None
    lines = [f"line {rows_of(line)}: {line.why}" for line in found.unchecked]
    more = [f"and {len(lines) - SOME} more"] if len(lines) > SOME else []
    hint = "give what is missing: --context DIR, --build-arg NAME=VALUE"
    if all(line.need == "trial" for line in found.unchecked):
        hint = "without --trust these commands become a mod, which runs when the image is built"
    elif all(line.verdict == "unread" for line in found.unchecked):
        hint = "mend these lines, or leave them out and do by hand what they did"
    return UncheckedError(
        f"{place}: {'1 line is' if len(lines) == 1 else f'{len(lines)} lines are'} not checked",
        where="\n".join([*lines[:SOME], *more]),
        hint=hint,
    )
