"""Which pins of a recipe move with a release of its engine. Pure."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from gb10.core.document import Location
from gb10.core.fields import requirement_name
from gb10.errors import UsageError
from gb10.image.recipe.image_recipe import Recipe
from gb10.image.upgrade.demands import Demand

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
        demand.extra for demand in release.old if demand.project == project and _gave(demand, pin) and demand.extra
    }
    return plain or [demand for demand in own if demand.extra in before]


def _gave(demand: Demand, pin: str) -> bool:
    return demand.specifier.contains(pin, prereleases=True)


def no_longer(recipe: Recipe, release: Next) -> tuple[str, ...]:
    """Pinned projects that the old release demanded and the next one does not."""
    old, new = ({demand.project for demand in found} for found in (release.old, release.new))
    pinned = [requirement_name(text) for text in recipe.requirements if pin_of(text) is not None]
    return tuple(name for name in pinned if name in old and name not in new)
