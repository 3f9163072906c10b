"""A release of a package becomes an entry of a recipe: its source, its build, what it requires. Nothing of it runs.

What decides the entry is read from its files: ``pyproject.toml``, what ``setup.py`` imports, the variable by which it
compiles instead of downloading a wheel, the module that compiles when it is imported.
"""

import ast
import difflib
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml
from packaging.requirements import InvalidRequirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from gb10.core.document import compose, parse_document
from gb10.core.fetch import redact
from gb10.core.fields import parse_requirement, requirement_name
from gb10.core.files import Artifact
from gb10.core.machine import MACHINES
from gb10.errors import UsageError
from gb10.image.context import Context
from gb10.image.lock.lockfile import check_lock, load_lock, lock_path
from gb10.image.lock.moves import BY_HAND, demands, metadata_of
from gb10.image.lock.offered import require_release
from gb10.image.lock.relock import main_index, own_index, resolve_lock, sha256_of
from gb10.image.locked_files import fetch_locked
from gb10.image.patches.release_files import open_stored, version_of
from gb10.image.patches.source_tree import Tree
from gb10.image.recipe.image_recipe import Recipe, Source, WheelBuild
from gb10.image.recipe.locked import Lock
from gb10.image.upgrade.proposal import read_recipe, write_recipe
from gb10.sources.index.client import size_of
from gb10.sources.index.page import Link

OURS: Final = ("sglang", "sglang-0.5.10", "vllm")
"""The recipes that gb10 brings."""
GIVEN: Final = ("torch", "ninja")
"""In every build stage: torch is the image's."""
LARGEST: Final = 1 << 30
"""Bytes of a source."""
LARGEST_TEXT: Final = 1 << 20
FORCE: Final = re.compile(r"(?:getenv|environ\.get)\(\s{0,99}[\"']([A-Z][A-Z0-9_]{0,98}_FORCE_BUILD)[\"']")
IMPORT: Final = "from torch.utils.cpp_extension import "
CALL: Final = "cpp_extension.load("
"""How a module compiles when it is imported."""
CODE: Final = (".cu", ".cpp", ".cc", ".cxx", ".c", ".pyx")


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """What a recipe gets for one package."""

    name: str
    source: Source
    build: WheelBuild
    requirements: tuple[str, ...]
    """What it requires at run time and the image lacks."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Added:
    """A recipe with more packages, which locks."""

    path: Path
    before: str
    text: str
    lock: Lock
    entries: tuple[Entry, ...]

    @property
    def difference(self) -> str:
        """The lines that are new, as a diff."""
        old, new = (text.splitlines(keepends=True) for text in (self.before, self.text))
        return "".join(difflib.unified_diff(old, new, str(self.path), str(self.path)))

    def write(self) -> None:
        """Write recipe and lock. Raises UsageError, and leaves both as they were, when one cannot be written."""
        write_recipe(self.path, self.before, self.text, self.lock)


def add_packages(ctx: Context, path: Path, pinned: Sequence[str]) -> Added:
    """The recipe of a file with these releases as packages. Writes nothing but the store.

    Raises UsageError for a recipe of ours, a package without a source, or one that asks for what the image does not
    have; FetchError.
    """
    check_own(ctx, path)
    before, recipe = read_recipe(path)
    lock = load_lock(lock_path(path))
    check_lock(recipe, lock, path)
    names = [str(canonicalize_name(text.partition("==")[0])) for text in pinned]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UsageError(f"--add names {twice} twice", hint="an image has one release of it: give that one")
    entries = tuple(_entry(ctx, recipe, lock, text) for text in pinned)
    text, made = with_entries(before, recipe, entries, str(path))
    with ctx.reporter.task(f"resolve {path.name}"):
        locked = resolve_lock(made, lock, store=ctx.store, env=ctx.env)
    return Added(path=path, before=before, text=text, lock=locked, entries=entries)


def check_own(ctx: Context, path: Path) -> None:
    """Raise UsageError for a recipe that gb10 brings: its image would no longer be the one that was published."""
    ours = ctx.catalog.root / "recipes/images"
    if path.resolve().parent == ours.resolve() and path.stem in OURS:
        raise UsageError(
            f"{path.name} is a recipe of gb10's, which stays as it is",
            where=str(path),
            hint=f"add to a copy: cp {path} {lock_path(path)} DIR, then --engine DIR/{path.name}",
        )


def _entry(ctx: Context, recipe: Recipe, lock: Lock, pinned: str) -> Entry:
    name, _, text = pinned.partition("==")
    try:
        source = Source(sdist=pinned)
        version = Version(text)
    except ValueError as error:
        raise UsageError(
            f"--add {pinned}: give one release", hint="--add NAME==VERSION, as exllamav3==1.6.5"
        ) from error
    name = str(canonicalize_name(name))
    if name in recipe.sources or name in recipe.wheels:
        raise UsageError(f"the recipe has {name} already", hint="change its version there, then lock it")
    held = next((wheel for wheel in lock.wheels.image["arm64"] if wheel.name == name), None)
    if held and Version(held.version) != version:
        raise UsageError(
            f"the image has {name} {held.version}, a wheel of the index: {pinned} would be a second one",
            hint=f"put {pinned} under requirements in the recipe, then lock it; to change a file of it, give a patch",
        )
    index = own_index(recipe, name, main_index(ctx.env), ctx.store)
    links = index.links(name)
    if not links:
        raise UsageError(
            f"the index has no project {name}", where=redact(index.url), hint="its name there: --add NAME==VERSION"
        )
    require_release(links, name, text, f"--add {name}==VERSION")
    of_release = [link for link in links if version_of(link) == version]
    link = _best(of_release)
    if link is None and any("aarch64" in one.filename for one in of_release):
        raise UsageError(
            f"{pinned} has wheels for aarch64 and no source archive: nothing is to compile",
            hint=f"require it as it is: {pinned} under requirements in the recipe, then lock it",
        )
    if link is None:
        raise UsageError(
            f"the index has no source of {pinned}: no source archive, and no wheel for every machine",
            where=redact(index.url),
            hint="take its commit from git: sources: {NAME: {git: URL, commit: …}} and a wheel of method package, "
            "docs/wheels.md",
        )
    file = Artifact(link.filename, sha256_of(link), size_of(index.session, link), index=recipe.index_of.get(name, ""))
    if file.size > LARGEST:
        raise UsageError(f"{file.filename} has {file.size >> 20} MiB by the index", hint="no source is that large")
    fetch_locked(ctx, [file])
    tree = open_stored(ctx.store, ctx.store.entry("downloads", file.sha256) / file.filename, file)
    if link.filename.endswith(".whl"):
        source = Source(wheel=pinned)
    return entry_of(name, source, tree, recipe, lock)


def _best(links: Sequence[Link]) -> Link | None:
    """A source archive, else a wheel that every machine installs."""
    archives = [link for link in links if link.filename.endswith(".tar.gz")]
    return next(iter((*archives, *(link for link in links if link.filename.endswith("-py3-none-any.whl")))), None)


def entry_of(name: str, source: Source, tree: Tree, recipe: Recipe, lock: Lock) -> Entry:
    """The entry of a package, from its files. Raises UsageError for what the image cannot have."""
    if not any(path.endswith(CODE) for path in tree.paths()):
        raise UsageError(
            f"{source.pinned or name} has nothing to compile: no file of {', '.join(CODE)}",
            hint=f"require it as it is: {name} under requirements in the recipe, then lock it; if its release leaves "
            "its sources out, take its commit from git",
        )
    jit = _jit(name, tree) if source.wheel else None
    setup = _text(tree, "setup.py")
    tools = ("setuptools",) if jit else build_tools(tree, setup, recipe)
    forced = dict.fromkeys(FORCE.findall(setup), "TRUE")
    build = WheelBuild(method="package", source=name, tools=tools, environment=forced, jit=jit)
    what = source.pinned or name
    return Entry(name=name, source=source, build=build, requirements=tuple(missing(what, tree, recipe, lock)))


def _jit(name: str, tree: Tree) -> str:
    """The module of a wheel that compiles when it is imported. Raises UsageError for none, and for several."""
    found = [path for path in tree.paths() if path.endswith(".py") and compiles_on_import(_text(tree, path))]
    if len(found) != 1:
        listed = ", ".join(found[:5]) or "none"
        raise UsageError(
            f"{name} is a wheel with sources, and no one module of it compiles them by torch.utils.cpp_extension.load",
            where=f"modules that do: {listed}",
            hint="write the entry by hand, with jit: MODULE, or take its commit from git: docs/wheels.md",
        )
    return found[0].removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def compiles_on_import(text: str) -> bool:
    """Whether a module calls torch's ``load``, by the line that imports it, or by its name. Pure."""
    lines = (line.strip() for line in text.split("\n"))
    return any(CALL in line or (line.startswith(IMPORT) and "load" in re.findall(r"\w+", line)) for line in lines)


def build_tools(tree: Tree, setup: str, recipe: Recipe) -> tuple[str, ...]:
    """What the project is built with, without what every stage has: as it states it, and what setup.py imports."""
    stated = _stated(_text(tree, "pyproject.toml"))
    known = {requirement_name(tool) for tool in recipe.tools} | {*GIVEN}
    own = {requirement_name(text): text for text in stated if requirement_name(text) not in known}
    imported = (str(canonicalize_name(module)) for module in imports(setup, tree))
    needed = ("setuptools", *imported) if setup else imported
    return tuple((own | {name: own.get(name, name) for name in needed if name not in known}).values()) or (
        "setuptools",
    )


def _stated(project: str) -> list[str]:
    """``build-system.requires``, without markers' other machines; raises UsageError for a file that is no TOML."""
    try:
        found = tomllib.loads(project).get("build-system", {}).get("requires", ["setuptools"])
        return [text for text in found if parse_requirement(text).marker is None]
    except (tomllib.TOMLDecodeError, InvalidRequirement, AttributeError, TypeError, RecursionError) as error:
        raise UsageError("the package's pyproject.toml cannot be read", where=str(error)[:200]) from error


def imports(setup: str, tree: Tree) -> Iterator[str]:
    """The projects that setup.py imports at once, by their modules; raises UsageError when it is no Python."""
    try:
        body = ast.parse(setup).body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise UsageError("the package's setup.py cannot be read", where=str(error)[:200]) from error
    own = {path.split("/")[0].removesuffix(".py") for path in tree.paths()}
    for node in body:
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module] if isinstance(node, ast.ImportFrom) and node.module and not node.level else []
        for top in dict.fromkeys(name.partition(".")[0] for name in names):
            if top not in sys.stdlib_module_names and top not in own and top not in ("torch", "distutils"):
                yield top


def missing(what: str, tree: Tree, recipe: Recipe, lock: Lock) -> Iterator[str]:
    """What a package requires that the image lacks. Raises UsageError for what it has in another release."""
    image = {wheel.name: Version(wheel.version) for wheel in lock.wheels.image["arm64"]}
    built = {recipe.project(build.source) for build in recipe.wheels.values()}
    for demand in demands(metadata_of(tree, what), recipe.python, MACHINES["arm64"]):
        if demand.extra or demand.project == "ninja":
            continue
        if demand.project in image:
            version = image[demand.project]
            if not demand.specifier.contains(version, prereleases=True):
                raise UsageError(
                    f"{what} requires {demand.project}{demand.specifier}, the image has {demand.project} {version}",
                    hint=f"take a release of {what.partition('==')[0]} that is for {demand.project} {version}, or "
                    "replace its requirement by an override in the recipe and write the entry by hand",
                )
        elif demand.project not in built:
            yield f"{demand.project}{demand.specifier}"


def _text(tree: Tree, path: str) -> str:
    content = tree.read(path) if path in tree.paths() else b""
    return (content or b"")[:LARGEST_TEXT].decode(errors="replace")


def with_entries(text: str, recipe: Recipe, entries: Sequence[Entry], where: str) -> tuple[str, Recipe]:
    """The text and the recipe with more entries; comments and layout stay. Raises UsageError as ``inserted``,
    and for one that another does not allow.

    What several require is one requirement; what one is of another is compiled, and not required of the index.
    """
    wanted = dict[str, SpecifierSet]()
    for one in (parse_requirement(text) for entry in entries for text in entry.requirements):
        wanted[one.name] = wanted.get(one.name, SpecifierSet()) & one.specifier
    for entry in entries:
        specifier, pinned = wanted.pop(entry.name, SpecifierSet()), entry.source.pinned or ""
        if not specifier.contains(pinned.partition("==")[2], prereleases=True):
            raise UsageError(
                f"--add {pinned}: what is added with it requires {entry.name}{specifier}",
                hint="add a release that is within it, or the others in the releases that are for this one",
            )
    requirements = tuple(f"{name}{specifier}" for name, specifier in wanted.items())
    for entry in entries:
        text = inserted(text, "sources", [f"{entry.name}: {_flow(_written(entry.source))}"], where)
        text = inserted(text, "wheels", _lines(entry), where)
    for requirement in requirements:
        text = inserted(text, "requirements", [f"- {_scalar(requirement)}"], where)
    made = parse_document(text, Recipe, where=where, what="image recipe")
    expected = recipe.model_copy(
        update={
            "sources": {**recipe.sources, **{entry.name: entry.source for entry in entries}},
            "wheels": {**recipe.wheels, **{entry.name: entry.build for entry in entries}},
            "requirements": (*recipe.requirements, *requirements),
        }
    )
    if made != expected:
        raise UsageError(f"{where} cannot be changed in place", hint=BY_HAND)
    return text, made


def _written(model: Source) -> dict[str, object]:
    return model.model_dump(by_alias=True, exclude_defaults=True)


def _lines(entry: Entry) -> list[str]:
    """A wheel of a recipe, one line for each of its fields."""
    build = entry.build
    lines = [f"{entry.name}:", "  method: package", f"  source: {build.source}", f"  tools: {_flow([*build.tools])}"]
    lines += [f"  environment: {_flow(build.environment)}"] if build.environment else []
    return [*lines, *([f"  jit: {build.jit}"] if build.jit else [])]


def _flow(value: object) -> str:
    """A value in one line of YAML."""
    return yaml.safe_dump(value, default_flow_style=True, width=1 << 20, sort_keys=False).strip()


def _scalar(text: str) -> str:
    return _flow([text])[1:-1]


def inserted(text: str, section: str, lines: Iterable[str], where: str) -> str:
    """The text with lines at the end of a section of its top, indented as the section is, or with a new section.

    Raises UsageError for a section that is written in one line.
    """
    root = compose(text)
    pairs = root.value if isinstance(root, yaml.MappingNode) else []
    node = next((value for key, value in pairs if key.value == section), None)
    if node is None:
        added = "".join(f"  {line}\n" for line in lines)
        return f"{text}{'' if text.endswith(chr(10)) else chr(10)}\n{section}:\n{added}"
    if not isinstance(node, yaml.CollectionNode) or node.flow_style or not node.value:
        raise UsageError(
            f"{where}: {section} is written in one line, so nothing is added to it",
            hint="write it with one entry a line, then run the command again",
        )
    end = _last(node).end_mark.index
    end = len(text) if (line := text.find("\n", end)) < 0 else line
    indent = " " * node.start_mark.column
    return text[:end] + "".join(f"\n{indent}{line}" for line in lines) + text[end:]


def _last(node: yaml.Node) -> yaml.Node:
    """The scalar, or the value in brackets, that ends a node: the end of a block is behind the comments after it."""
    if isinstance(node, yaml.CollectionNode) and node.value and not node.flow_style:
        last = node.value[-1]
        return _last(last[1] if isinstance(last, tuple) else last)
    return node
