"""Which pins of a recipe move with a release of its engine. Pure."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from packaging.markers import UndefinedComparison, UndefinedEnvironmentName
from packaging.metadata import parse_email
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from gb10.core.document import Location
from gb10.core.fields import LONGEST, parse_requirement, requirement_name
from gb10.core.store import Store
from gb10.errors import FetchError, UsageError
from gb10.image.patches.source_tree import Tree
from gb10.image.recipe.image_recipe import Recipe, Source
from gb10.inside.compile.cmake_nested import FOLDER, Nested, kind, meets, read
from gb10.inside.compile.cmake_targets import PINNED

LARGEST: Final = 4 << 20
"""Bytes of a metadata file: the description is in it, too."""
MOST: Final = 2000
"""Requirements, and extras, of one release."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Demand:
    """One requirement of a release; ``extra`` is empty for what every installation gets."""

    project: str
    specifier: SpecifierSet
    extra: str = ""
    wants: str = field(default="", compare=False)
    """The extras of the project that it asks for, as it writes them: ``[cu13]``."""

    @property
    def pin(self) -> str | None:
        """The one release that it accepts, if it names one."""
        only = list(self.specifier)
        exact = len(only) == 1 and only[0].operator in ("==", "===") and not only[0].version.endswith(".*")
        return only[0].version if exact else None


def metadata_of(tree: Tree, what: str) -> bytes:
    """The metadata of a source archive or of a wheel; raises FetchError when it has none, or too much."""
    name = "PKG-INFO"
    if tree.installed:
        found = [path for path in tree.paths() if path.endswith(".dist-info/METADATA") and path.count("/") == 1]
        name = found[0] if len(found) == 1 else name
    content = tree.read(name)
    if content is None or len(content) > LARGEST:
        raise FetchError(f"{what} has no usable metadata", where=name, hint="choose another release: --to VERSION")
    return content


def demands(metadata: bytes, python: str, machine: str) -> tuple[Demand, ...]:
    """The requirements that count on Linux for this Python and machine, in the order of the file.

    Those that packaging does not understand are left out: uv decides about them.
    """
    raw = parse_email(metadata)[0]
    extras = ("", *raw.get("provides_extra", [])[:MOST])
    found = [one for text in raw.get("requires_dist", [])[:MOST] if (one := _readable(text))]
    return of_requirements(found, python, machine, extras)


def of_requirements(
    found: Iterable[Requirement], python: str, machine: str, extras: Iterable[str] = ("",)
) -> tuple[Demand, ...]:
    """The same of requirements that were read already."""
    environment = {
        "python_version": python,
        "python_full_version": f"{python}.0",
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
        "platform_machine": machine,
        "platform_system": "Linux",
        "sys_platform": "linux",
        "os_name": "posix",
    }
    return tuple(demand for one in found for demand in _for(one, extras, environment))


def _readable(text: str) -> Requirement | None:
    if len(text) > LONGEST:  # a version of so many digits is no number that Python reads
        return None
    try:
        return parse_requirement(text)
    except InvalidRequirement:
        return None


def _for(requirement: Requirement, extras: Iterable[str], environment: Mapping[str, str]) -> Iterable[Demand]:
    """The requirement as everybody's, else under each extra that brings it."""
    name = str(canonicalize_name(requirement.name))
    for extra in extras:
        if _holds(requirement, extra, environment):
            wants = f"[{','.join(sorted(requirement.extras))}]" if requirement.extras else ""
            yield Demand(project=name, specifier=requirement.specifier, extra=extra, wants=wants)
            if not extra:
                return


def _holds(requirement: Requirement, extra: str, environment: Mapping[str, str]) -> bool:
    if requirement.marker is None:
        return not extra
    try:
        return requirement.marker.evaluate({**environment, "extra": extra})
    except (UndefinedComparison, UndefinedEnvironmentName):
        return False


def extras_of(found: Iterable[Demand]) -> dict[str, tuple[str, ...]]:
    """The optional packages of a release: extra -> its requirements, as text."""
    names: dict[str, list[str]] = {}
    for demand in found:
        if demand.extra:
            names.setdefault(demand.extra, []).append(f"{demand.project}{demand.specifier}")
    return {extra: tuple(sorted(own)) for extra, own in names.items()}


BY_HAND: Final = "change the recipe by hand, then ./build.py lock"
Newest = Callable[[str, SpecifierSet], Version | None]
"""The newest release of a project that a specifier accepts."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Move:
    """One value of a recipe that changes: ``at`` is its place, ``before`` and ``after`` are parts of its text."""

    at: Location
    what: str
    before: str
    after: str
    why: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Next:
    """The next release of an engine: what the old one demands, and what it demands itself."""

    engine: str
    version: Version
    old: tuple[Demand, ...]
    new: tuple[Demand, ...]

    @property
    def name(self) -> str:
        """As messages name it."""
        return f"{self.engine} {self.version}"


def pin_of(requirement: str) -> str | None:
    """The one release that a requirement of a recipe names."""
    return Demand(project="", specifier=Requirement(requirement).specifier).pin


def pins(recipe: Recipe, release: Next, newest: Newest) -> tuple[Move, ...]:
    """The recipe's version, requirements and source archives that move. Raises UsageError for a pin without a way."""
    wanted = {recipe.engine: str(release.version)}
    whys = {recipe.engine: "the engine"}
    for text in recipe.requirements:
        project, pin = requirement_name(text), pin_of(text)
        if pin is not None and project != recipe.engine:
            found = _wanted(project, pin, release, newest)
            wanted[project], whys[project] = found or (pin, "")
    return tuple(move for move in _moves(recipe, wanted, whys) if move.before != move.after)


def _moves(recipe: Recipe, wanted: dict[str, str], whys: dict[str, str]) -> Iterator[Move]:
    yield Move(
        at=("version",),
        what="version",
        before=recipe.version,
        after=wanted[recipe.engine],
        why=whys[recipe.engine],
    )
    named: list[tuple[Location, str]] = [
        (("requirements", index), text) for index, text in enumerate(recipe.requirements)
    ]
    named += [(("sources", name, "sdist"), source.sdist) for name, source in recipe.sources.items() if source.sdist]
    for at, text in named:
        project, pin = requirement_name(text), pin_of(text)
        if pin is not None and project in wanted:
            yield Move(at=at, what=project, before=pin, after=wanted[project], why=whys[project])


def _wanted(project: str, pin: str, release: Next, newest: Newest) -> tuple[str, str] | None:
    """The release of a project that the engine's next one takes, and why; None when it demands nothing of it."""
    for demand in _of(project, pin, release):
        why = f"{release.name} {f'with its extra {demand.extra} ' if demand.extra else ''}requires "
        if demand.pin is not None:
            return demand.pin, f"{why}it"
        if not demand.specifier.contains(pin, prereleases=True):
            found = newest(project, demand.specifier)
            if found is None:
                raise UsageError(
                    f"{why}{project}{demand.specifier}, and the package index has no such release",
                    hint="wait until the index has it, or choose another release: --to VERSION",
                )
            return str(found), f"{why}{demand.specifier}"
    return None


def _of(project: str, pin: str, release: Next) -> Iterable[Demand]:
    """What the next release demands of a project: as everybody's, else by the extras that gave the pin before."""
    own = [demand for demand in release.new if demand.project == project]
    plain = [demand for demand in own if not demand.extra]
    before = {
        demand.extra
        for demand in release.old
        if demand.project == project and demand.specifier.contains(pin, prereleases=True) and demand.extra
    }
    return plain or [demand for demand in own if demand.extra in before]


def no_longer(recipe: Recipe, release: Next) -> tuple[str, ...]:
    """Pinned projects that the old release demanded and the next one does not."""
    old, new = ({demand.project for demand in found} for found in (release.old, release.new))
    pinned = [requirement_name(text) for text in recipe.requirements if pin_of(text) is not None]
    return tuple(name for name in pinned if name in old and name not in new)


LARGEST_NESTED: Final = 1 << 20
"""Bytes of a CMake file."""


def nested_moves(recipe: Recipe, tree: Tree, store: Store, what: str) -> tuple[tuple[Move, ...], tuple[str, ...]]:
    """The pins of nested projects and of CUTLASS that move, and notes on those that cannot be compared.

    There are none where the release is a wheel. Raises UsageError for a pin that a recipe cannot hold.
    """
    found: list[Move | str] = []
    for name, wheel in recipe.wheels.items() if not tree.installed else ():
        if wheel.method == "source":
            for nested in wheel.nested:
                found += _nested(nested, recipe.sources[nested], tree, store, what)
            if wheel.cutlass and wheel.cutlass.instead_of:
                found += _cutlass(name, wheel.cutlass.instead_of, tree, what)
    moves = tuple(dict.fromkeys(one for one in found if isinstance(one, Move)))
    return moves, tuple(dict.fromkeys(one for one in found if isinstance(one, str)))


def _nested(name: str, source: Source, tree: Tree, store: Store, what: str) -> Iterator[Move | str]:
    read_as = _read(name, tree, store)
    if read_as is None or not read_as.pin:
        raise UsageError(f"{what} names no commit of {name} in {FOLDER}/{name}.cmake", hint=BY_HAND)
    if meets(source.pin, read_as.pin):
        if not kind(read_as.pin) and not source.pin.startswith(read_as.pin):
            yield f"{what} names {name} {read_as.pin}, which is no commit: check that {source.pin} is it"
        return
    key = "tag" if source.tag else "commit"
    if kind(read_as.pin) != key:
        raise UsageError(f"{what} names {name} {read_as.pin}, and the recipe has a {key} of it", hint=BY_HAND)
    yield Move(
        at=("sources", name, key),
        what=name,
        before=source.pin,
        after=read_as.pin,
        why=f"{what} names it in {FOLDER}/{name}.cmake",
    )


def _read(name: str, tree: Tree, store: Store) -> Nested | None:
    """A nested project's file, as the build stage reads it."""
    content = tree.read(f"{FOLDER}/{name}.cmake")
    if content is None or len(content) > LARGEST_NESTED:
        return None
    with store.folder("cmake") as work:
        path = work / f"{name}.cmake"
        path.write_text(content.decode("utf-8", "replace"), encoding="utf-8")
        return read(path)


def _cutlass(wheel: str, accepted: str, tree: Tree, what: str) -> Iterator[Move | str]:
    text = (tree.read("CMakeLists.txt") or b"")[:LARGEST_NESTED].decode("utf-8", "replace")
    found = PINNED.search(text)
    if found is None:
        raise UsageError(f"{what} names no CUTLASS_REVISION in CMakeLists.txt", hint=BY_HAND)
    if found[1] != accepted:
        yield Move(
            at=("wheels", wheel, "cutlass", "instead-of"),
            what="CUTLASS of the engine",
            before=accepted,
            after=found[1],
            why=f"{what} names it in CMakeLists.txt",
        )
