"""What a release of an engine requires, by its metadata, for the image's platform. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from packaging.markers import UndefinedComparison, UndefinedEnvironmentName
from packaging.metadata import parse_email
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from gb10.core.fields import LONGEST, parse_requirement
from gb10.errors import FetchError
from gb10.patches.source_tree import Tree

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
    found = [one for text in raw.get("requires_dist", [])[:MOST] if (one := _readable(text))]
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
            yield Demand(project=name, specifier=requirement.specifier, extra=extra)
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
