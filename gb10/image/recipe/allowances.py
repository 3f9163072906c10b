"""What the checks of an image allow, each with its reason: recipes/verify.yaml. Pure."""

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Annotated, Final

from pydantic import Field

from gb10.core.fields import Model, Name, Patterns, Sentence

ALLOWANCES: Final = "recipes/verify.yaml"


class AllowedLibrary(Model):
    """Libraries that no file of an image is; ``symbols`` are what they would offer, ``of`` the files that need them."""

    names: Patterns
    of: Patterns = ("*",)
    symbols: Patterns
    why: Sentence


class AllowedSymbol(Model):
    """Symbols of some files that nothing in an image offers."""

    names: Patterns
    of: Patterns
    why: Sentence


class AllowedRequirement(Model):
    """A distribution with requirements that may be unmet; ``platform``: whose wheel may be for another platform."""

    of: Name
    names: tuple[Name, ...] = ()
    platform: bool = False
    why: Sentence


class AllowedPaths(Model):
    """Files that may be what a check refuses."""

    paths: Patterns
    why: Sentence


class Cost(Model):
    """What the driver's compiler takes of PTX."""

    seconds_per_mb: Annotated[float, Field(gt=0)]
    measured: Sentence


class Allowances(Model):
    """``recipes/verify.yaml``."""

    libraries: tuple[AllowedLibrary, ...] = ()
    symbols: tuple[AllowedSymbol, ...] = ()
    requirements: tuple[AllowedRequirement, ...] = ()
    rights: tuple[AllowedPaths, ...] = ()
    secrets: tuple[AllowedPaths, ...] = ()
    imports: dict[Name, str] = {}
    ptx: Cost | None = None

    def absent(self, library: str, of: str) -> AllowedLibrary | None:
        """The entry by which a file may need a library that is not there."""
        return next((one for one in self.libraries if fits(library, one.names) and fits(of, one.of)), None)

    def unresolved(self, symbol: str, of: str) -> AllowedSymbol | None:
        """The entry by which a file may want a symbol that is not there."""
        return next((one for one in self.symbols if fits(symbol, one.names) and fits(of, one.of)), None)


def fits(name: str, patterns: Iterable[str]) -> bool:
    """Whether one of the patterns matches the whole name."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)
