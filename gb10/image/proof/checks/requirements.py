"""Requirements: every distribution finds what it requires, and is for this Python and machine, as `pip check` asks."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache

from packaging.markers import UndefinedComparison, UndefinedEnvironmentName
from packaging.requirements import InvalidRequirement, Requirement
from packaging.tags import Tag, compatible_tags, cpython_tags, parse_tag
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from gb10.core.fields import parse_requirement
from gb10.image.proof.check import Check, Problem, Subject
from gb10.image.recipe.allowances import Allowances
from gb10.inside.scan.installed import Distribution

PLACE = re.compile(r"(.*?/?)lib/python(?:3\.(\d+)|3)/(?:site|dist)-packages")
MACHINES = {"linux/arm64": "aarch64", "linux/amd64": "x86_64"}
SYSTEM = ("usr/local/", "usr/")
"""Prefixes that the system's Python sees together, the first of them first."""
GLIBC = 60
"""The newest glibc that a wheel may be for: what one needs of glibc is among its symbols."""


def judge(subject: Subject) -> list[Problem]:
    """What `pip check` would report of an image or a folder, but for what its recipe overrides and what is allowed."""
    if subject.image is None and (subject.target is None or subject.scan.root.endswith(".whl")):
        return []
    machine = _machine(subject)
    overrides = subject.image.plan.overrides if subject.image and subject.image.plan else ()
    overridden = {name for one in overrides for name in _project(one.requirement)}
    problems = []
    here = subject.target.python if subject.target else None
    for minor, found in environments(subject.scan.distributions, here):
        for one in found.values():
            lacking = [lack for lack in unmet(one, found, minor, machine) if lack[0] not in overridden]
            problems += [
                Problem(file=one.path, expected=f"{wanted}, which {one.name} {one.version} requires", found=installed)
                for name, wanted, installed in lacking
                if not _allowed(subject.allowed, one.name, name)
            ]
            if is_foreign(one, minor, machine) and not _allowed(subject.allowed, one.name, None):
                expected = f"a wheel for Python 3.{minor} on {machine}"
                problems.append(Problem(file=one.path, expected=expected, found=", ".join(one.tags)))
    return problems


def _machine(subject: Subject) -> str:
    """The machine of an image, or the one that a folder's wheels are for: most of them, where they differ."""
    if subject.image is not None:
        return MACHINES.get("/".join(subject.image.platform.split("/")[:2]), "")
    names = "|".join(MACHINES.values())
    tags = (tag for one in subject.scan.distributions for tag in one.tags)
    found = Counter(match[1] for tag in tags if (match := re.search(rf"_({names})$", tag)))
    return found.most_common(1)[0][0] if found else MACHINES["linux/arm64"]


def environments(
    distributions: Iterable[Distribution], here: int | None = None
) -> Iterator[tuple[int, dict[str, Distribution]]]:
    """The minor of each Python that has distributions, and these by name; the first place of several counts.

    ``here``: the Python of a folder of packages that was scanned by itself.
    """
    placed: dict[str, list[tuple[int, int, Distribution]]] = {}
    for one in distributions:
        if one.site == "." and here:
            placed.setdefault(".", []).append((0, here, one))
        elif match := PLACE.fullmatch(one.site):
            prefix = match[1]
            rank = SYSTEM.index(prefix) if prefix in SYSTEM else 0
            key = "usr/" if prefix in SYSTEM else prefix
            placed.setdefault(key, []).append((rank, int(match[2] or 0), one))
    for found in placed.values():
        minor = max(minor for _, minor, _ in found)
        if minor:  # a folder of no certain Python alone is nobody's
            ordered = sorted(found, key=lambda row: row[0], reverse=True)
            yield minor, {canonicalize_name(one.name): one for _, own, one in ordered if own in (0, minor)}


def unmet(
    one: Distribution, found: dict[str, Distribution], minor: int, machine: str
) -> Iterator[tuple[str, str, str]]:
    """Unmet requirements: the project, the requirement, what is there. A malformed one is passed over, as by pip."""
    for text in one.requires:
        try:
            requirement = parse_requirement(text)
            if requirement.marker and not requirement.marker.evaluate(marker_environment(minor, machine)):
                continue
        except (InvalidRequirement, InvalidVersion, UndefinedComparison, UndefinedEnvironmentName, RecursionError):
            continue
        name = canonicalize_name(requirement.name)
        installed = found.get(name)
        if installed is None:
            yield name, _short(requirement), f"no {name}"
        elif not _meets(requirement, installed.version):
            yield name, _short(requirement), f"{name} {installed.version}"


def marker_environment(minor: int, machine: str) -> dict[str, str]:
    """What markers are evaluated with: a Python of the image, without extras."""
    return {
        "extra": "",
        "implementation_name": "cpython",
        "implementation_version": f"3.{minor}.0",
        "os_name": "posix",
        "platform_machine": machine,
        "platform_python_implementation": "CPython",
        "platform_release": "",
        "platform_system": "Linux",
        "platform_version": "",
        "python_full_version": f"3.{minor}.0",
        "python_version": f"3.{minor}",
        "sys_platform": "linux",
    }


def is_foreign(one: Distribution, minor: int, machine: str) -> bool:
    """Whether no tag of a wheel is for this Python and machine; one without tags did not come as a wheel."""
    tags = [tag for text in one.tags for tag in _parsed(text)]
    return bool(tags) and bool(machine) and not supported(minor, machine).intersection(tags)


@cache
def supported(minor: int, machine: str) -> frozenset[Tag]:
    """The tags that a Python on a machine takes."""
    old = {"x86_64": ["manylinux1", "manylinux2010"], "aarch64": []}[machine]
    glibc = [f"manylinux_2_{number}_{machine}" for number in range(5 if machine == "x86_64" else 17, GLIBC)]
    platforms = [*(f"{name}_{machine}" for name in (*old, "manylinux2014")), *glibc, f"linux_{machine}"]
    version, interpreter = (3, minor), f"cp3{minor}"
    return frozenset(
        (*cpython_tags(version, [interpreter], platforms), *compatible_tags(version, interpreter, platforms))
    )


def _parsed(text: str) -> Iterator[Tag]:
    if text.count("-") == 2:
        yield from parse_tag(text)


def _meets(requirement: Requirement, version: str) -> bool:
    try:
        return requirement.specifier.contains(Version(version), prereleases=True)
    except InvalidVersion:
        return False


def _project(text: str) -> Iterator[str]:
    """The project of an override; nothing of one that is no requirement."""
    with suppress(InvalidRequirement):
        yield canonicalize_name(parse_requirement(text).name)


def _short(requirement: Requirement) -> str:
    return f"{requirement.name}{requirement.specifier}"


def _allowed(allowed: Allowances, of: str, name: str | None) -> bool:
    """Whether a distribution may lack a requirement, or, without a name, be for another platform."""
    entries = [one for one in allowed.requirements if one.of == canonicalize_name(of)]
    return any(one.platform if name is None else name in one.names for one in entries)


CHECK = Check(
    name="requirements",
    reads="the METADATA and WHEEL of every distribution of an image or a folder, as `pip check` does",
    fails="a requirement is missing or has another version, or a wheel is for another Python or machine",
    hint="install what is required; an override with its reason belongs into the image's recipe",
    judge=judge,
)
