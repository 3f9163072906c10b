"""Which CMake targets read the compiled files that a commit changes, and which of their units.

Of targets that were compiled here, the compiler's own lists of what each unit read decide. Of others CMakeLists.txt and
the includes do; CMake itself does not run: conditions about the GPU's language are followed, of all others both sides
count. So a target may be named that does not need it, but a changed file that no target is known to read is never
passed over.
"""

import re
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import PurePosixPath
from typing import Final

from gb10.errors import UsageError
from gb10.image.context import Context
from gb10.image.lock.moves import nested_moves
from gb10.image.patches.places import harmless
from gb10.image.patches.source_tree import Tree
from gb10.image.plan.catalog import Catalog
from gb10.image.plan.values import source_archive
from gb10.image.recipe.image_recipe import ALL, Recipe
from gb10.image.recipe.kernel_sets import COSTS
from gb10.image.recipe.locked import Lock
from gb10.image.request.any_commit import CommitChange
from gb10.image.request.unit_reads import Reads, known_reads
from gb10.inside.compile.cmake_nested import FOLDER

MAIN: Final = "CMakeLists.txt"
LARGEST: Final = 1 << 20
"""Bytes of a file that is read."""
MOST: Final = 20_000
"""Commands of a CMake file, and words of a command."""
COMMENT: Final = re.compile(r"#[^\n]*")
PART: Final = re.compile(r"\"(?:[^\"\\]|\\.)*\"|[()]|[^()\"]+|\"", re.DOTALL)
NAME: Final = re.compile(r"([A-Za-z_]\w*)\s*$")
WORD: Final = re.compile(r"\"((?:[^\"\\]|\\.)*)\"|([^\s;\"]+)")
VARIABLE: Final = re.compile(r"\$\{(\w+)\}")
INCLUDE: Final = re.compile(rb"^[ \t]*#[ \t]*include[ \t]*[<\"]([^>\"\n]+)[>\"]", re.MULTILINE)
DEFINES: Final = ("define_extension_target", "define_gpu_extension_target")
CODE: Final = (".c", ".cc", ".cpp", ".cu", ".cuh", ".h", ".hpp", ".inc", ".py")
ASKED: Final = {"VLLM_GPU_LANG": "CUDA", "VLLM_TARGET_DEVICE": "cuda"}
"""What a build for an NVIDIA GPU sets."""
OTHERS: Final = (
    {"VLLM_GPU_LANG": "HIP", "VLLM_TARGET_DEVICE": "rocm"},
    {"VLLM_GPU_LANG": "", "VLLM_TARGET_DEVICE": "cpu"},
)
"""What builds for other devices set: what only they read is nothing to compile here."""
DEEPEST: Final = 4
"""Files that one include after the other leads to."""
NOTHING: Final[Reads] = {}
EQUAL: Final = re.compile(r"(NOT\s+)?(?:\$\{)?(\w+)\}?\s+STREQUAL\s+\"?(\w+)\"?")


@dataclass(frozen=True, kw_only=True, slots=True)
class Read:
    """The targets that read changed files, and changed files of which nobody knows who reads them.

    ``units``: by target, the units that read them, where the compiler's lists are known.
    """

    targets: tuple[str, ...]
    unknown: tuple[str, ...]
    units: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Cost:
    """What a target was measured to take; 0 where it was not."""

    units: int = 0
    cpu_s: float = 0.0


def targets_of(tree: Tree, changed: Iterable[str], listed: Reads = NOTHING) -> Read:
    """The targets of a tree that read these files. ``listed``: what the compiler read of the release. Pure.

    A file that the release's compile read counts by that list alone: what includes it, and did not before, is changed
    itself. A new file, and one that no compiler reads, as a generator, counts by the text.
    """
    known, changed = frozenset(tree.paths()), tuple(changed)
    closures = {name: _closure(tree, files, known) for name, files in targets_with_sources(tree).items()}
    compiled = {path for units in listed.values() for paths in units.values() for path in paths}
    units = {
        name: tuple(unit for unit, paths in sorted(own.items()) if not paths.isdisjoint(changed))
        for name, own in listed.items()
    }
    others = [files for asked in OTHERS for files in targets_with_sources(tree, asked).values()]
    elsewhere = _closure(tree, (file for files in others for file in files), known)
    found, unknown = set[str](), list[str]()
    for path in sorted(changed):
        if PurePosixPath(path).suffix not in CODE and path != MAIN and not path.startswith("cmake/"):
            continue
        if harmless(path) or path.startswith(f"{FOLDER}/"):
            continue
        readers = {name for name, own in listed.items() if any(path in paths for paths in own.values())}
        by_text = {name for name, files in closures.items() if path in files}
        readers |= by_text - listed.keys() if path in compiled else by_text
        found |= readers
        if not readers and path not in elsewhere:
            unknown.append(path)
    return Read(
        targets=tuple(sorted(found)),
        unknown=tuple(unknown),
        units={name: own for name, own in units.items() if own},
    )


def targets_of_commit(ctx: Context, recipe: Recipe, lock: Lock, change: CommitChange) -> tuple[str, ...]:
    """The targets to compile of a commit, or all where they are not known; printed with their units and the cost.

    Raises UsageError when the recipe compiles nothing of its engine.
    """
    _say_nested(ctx, recipe, change)
    if not change.compiled:
        differ = "only installed files differ: a graft" if change.installed else "no file that an image holds differs"
        ctx.reporter.say(f"{differ}, nothing of the engine is compiled")
        return ()
    name = next((name for name, wheel in recipe.wheels.items() if wheel.method == "source"), None)
    if name is None:
        raise UsageError(
            f"{change.own.taken.path} changes what {change.released} compiles, and the recipe compiles none of it",
            where="\n".join(change.compiled[:10]),
            hint="name a commit that changes Python files alone, or add a wheel of method source to a recipe",
        )
    source = recipe.wheels[name].source
    listed = known_reads(ctx.store, source_archive(source, recipe, lock).sha256)
    read, most = targets_of(change.tree, change.compiled, listed), _cost(ctx.catalog, f"{source}_all").cpu_s
    if read.unknown:
        ctx.reporter.say(
            f"targets not known yet: {_some(read.unknown)} can be read by any. At most {most:,.0f} CPU s, all targets; "
            f"name them to compile less: --targets {','.join(read.targets) or 'A,B'}. Compiled once, a target is "
            f"known: ./build.py wheels --ref {recipe.engine}={recipe.version} --targets NAME"
        )
        return (ALL,)
    if not read.targets:
        ctx.reporter.say(f"no target for this GPU reads what differs ({_some(change.compiled)}): nothing is compiled")
        return ()
    ctx.reporter.say(
        f"compiled: {', '.join(read.targets)}, which read {_some(change.compiled)}; all targets are {most:,.0f} CPU s"
    )
    for target in read.targets:
        ctx.reporter.say(_units_of(target, read, listed, _cost(ctx.catalog, target)))
    return read.targets


def _units_of(target: str, read: Read, listed: Reads, cost: Cost) -> str:
    """How much of a target reads what differs."""
    if target not in listed:
        bound = f": at most {cost.units}, {cost.cpu_s:,.0f} CPU s" if cost.units else ""
        return f"units of {target} that read it are not known yet{bound}; compiled once here, they are"
    own, units = read.units.get(target, ()), len(listed[target])
    seconds = f", about {cost.cpu_s * len(own) / cost.units:,.0f} CPU s" if cost.units else ""
    return (
        f"{len(own)} of {units} units of {target} read it, by the compiler's own list{seconds} "
        f"({_some(own)}); the compile cache has the others, unless it was cleared"
    )


def check_pins(ctx: Context, recipe: Recipe, change: CommitChange, targets: Sequence[str]) -> None:
    """Raise UsageError when targets are compiled from a commit that names another CUTLASS, or nested project.

    The build stage would refuse it, too, after the downloads.
    """
    if not targets:
        return
    what = change.own.taken.path
    moves, _ = nested_moves(recipe, change.tree, ctx.store, what)
    nested = {name: own for wheel in recipe.wheels.values() for name, own in wheel.nested.items()}
    for move in moves:
        needed = move.at[0] == "wheels" or ALL in targets or bool({*nested.get(move.what, ())} & {*targets})
        if needed:
            raise UsageError(
                f"{what} cannot be compiled: it names {move.what} {move.after}, and the recipe has {move.before}",
                where=move.why,
                hint="in a recipe of your own change that pin, then lock it; or leave it out: --targets NAME",
            )


def _cost(catalog: Catalog, name: str) -> Cost:
    row = tomllib.loads(catalog.contents[COSTS].decode()).get(name, {})
    return Cost(units=int(row.get("units", 0)), cpu_s=float(row.get("cpu_s", 0)))


def _say_nested(ctx: Context, recipe: Recipe, change: CommitChange) -> None:
    """Name the nested projects that the commit takes at another commit, where the wheel keeps the release's."""
    files = [path for path in change.compiled if path.startswith(f"{FOLDER}/")]
    names = [PurePosixPath(path).stem for path in files if path.endswith(".cmake")]
    if names:
        ctx.reporter.say(
            f"nested projects that the commit changes, and no lock has: {', '.join(names)}; the wheel's are kept "
            f"(add one as a source in a recipe of your own to compile it)"
        )


def targets_with_sources(tree: Tree, asked: Mapping[str, str] = ASKED) -> dict[str, tuple[str, ...]]:
    """The targets for a device, each with its sources: files, and patterns of files that are generated."""
    reader = _Reader(tree, asked)
    reader.follow(MAIN, 0)
    return reader.found


class _Reader:
    """The commands of CMake files, one after the other: variables, and the targets that they define."""

    def __init__(self, tree: Tree, asked: Mapping[str, str]) -> None:
        self.tree, self.asked = tree, asked
        self.variables: dict[str, tuple[str, ...]] = {}
        self.found: dict[str, tuple[str, ...]] = {}
        self.read: set[str] = set()

    def follow(self, name: str, depth: int) -> None:
        """Read a file, once, and those that it includes."""
        content = None if name in self.read else self.tree.read(name)
        self.read.add(name)
        if content is None or len(content) > LARGEST or depth > DEEPEST:
            return
        text = COMMENT.sub("", content.decode("utf-8", "replace"))
        counts: list[bool] = []
        for command, inside in islice(_commands(text), MOST):
            if command in ("if", "elseif", "else", "endif"):
                counts = _branch(command, inside, counts, self.asked)
            elif all(counts):
                self._obey(command, _words(inside, self.variables), depth)

    def _obey(self, command: str, words: tuple[str, ...], depth: int) -> None:
        if not words:
            return
        if command == "set":
            self.variables[words[0]] = tuple(word for word in words[1:] if word not in ("CACHE", "PARENT_SCOPE"))
        elif command == "list" and words[0] == "APPEND" and len(words) > 1:
            self.variables[words[1]] = (*self.variables.get(words[1], ()), *words[2:])
        elif command == "file" and words[0] == "GLOB" and len(words) > 1:
            self.variables[words[1]] = words[2:]
        elif command in DEFINES:
            self.found[words[0]] = tuple(dict.fromkeys((*self.found.get(words[0], ()), *_sources(words))))
        elif command == "include" and not words[0].startswith(FOLDER):
            self.follow(words[0].removeprefix("${CMAKE_CURRENT_LIST_DIR}/").removeprefix("/"), depth + 1)


def _commands(text: str) -> Iterator[tuple[str, str]]:
    """The commands of a CMake file, each with what is between its parentheses; one pass."""
    name, depth, inside = "", 0, list[str]()
    for part in PART.findall(text):
        if depth:
            depth += (part == "(") - (part == ")")
            if not depth:
                yield name.lower(), "".join(inside)
                inside = []
            else:
                inside.append(part)
        elif part == "(":
            depth = 1
        else:
            found = NAME.search(part)
            name = found[1] if found else ""


def _branch(command: str, inside: str, counts: Sequence[bool], asked: Mapping[str, str]) -> list[bool]:
    """Whether what follows counts, for each condition that is open."""
    if command == "endif":
        return [*counts[:-1]]
    if command == "if":
        return [*counts, _holds(inside, asked)]
    return [*counts[:-1], True]  # the other side of a condition that nobody evaluates, or of one that is false


def _holds(condition: str, asked: Mapping[str, str]) -> bool:
    """Whether a condition may hold: only plain questions for the language and the device are answered."""
    match = EQUAL.fullmatch(condition.strip())
    if match is None or match[2] not in asked:
        return True
    return (asked[match[2]] == match[3]) != bool(match[1])


def _words(inside: str, variables: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """The words of a command, with the variables that are known in place; at most MOST of them."""
    found: list[str] = []
    for quoted, bare in WORD.findall(inside):
        word = quoted or bare
        whole = VARIABLE.findall(word)
        if len(found) > MOST or sum(len(variables.get(name, ())) for name in whole) > MOST:
            break
        if VARIABLE.fullmatch(word):
            found += variables.get(whole[0], ())
        else:
            found += VARIABLE.sub(lambda one: ";".join(variables.get(one[1], (one[0],))), word).split(";")
    return tuple(part for part in found if part)[:MOST]


def _sources(words: Sequence[str]) -> tuple[str, ...]:
    """The words after SOURCES, up to the next keyword."""
    start = words.index("SOURCES") + 1 if "SOURCES" in words else len(words)
    end = next((at for at in range(start, len(words)) if re.fullmatch(r"[A-Z][A-Z_]+", words[at])), len(words))
    return tuple(words[start:end])


def _closure(tree: Tree, sources: Iterable[str], known: Collection[str]) -> set[str]:
    """The sources, and all files of the tree that they include. Of an include each file that may be meant counts.

    Of sources that are generated, by a pattern, every file of their folder counts: templates and generators are there.
    """
    named = list(sources)
    folders = {str(PurePosixPath(path).parent) for path in named if "*" in path}
    folders |= {str(PurePosixPath(folder).parent) for folder in folders if folder.endswith("/generated")}
    left = [path for path in known if path in named or str(PurePosixPath(path).parent) in folders]
    seen = set[str]()
    while left:
        path = left.pop()
        if path not in seen:
            seen.add(path)
            left += [one for one in _included(tree, path, known) if one not in seen]
    return seen


def _included(tree: Tree, path: str, known: Collection[str]) -> Iterator[str]:
    content = tree.read(path)
    for match in INCLUDE.findall(content or b"") if content and len(content) <= LARGEST else ():
        name = match.decode("utf-8", "replace")
        for folder in (str(PurePosixPath(path).parent), "csrc", "."):
            place = _normal(f"{folder}/{name}")
            if place in known:
                yield place


def _normal(path: str) -> str:
    """A path without ``.`` and ``..``; empty for one that leads out of the tree."""
    parts: list[str] = []
    for part in path.split("/"):
        if part == ".." and not parts:
            return ""
        if part == "..":
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return "/".join(parts)


def _some(paths: Sequence[str]) -> str:
    return ", ".join(paths[:3]) + (f", and {len(paths) - 3} more" if len(paths) > 3 else "")
