"""What the wheels of a file or a folder say they are for, by their tags: machine and Pythons. Pure."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Final

from gb10.image.proof.check import Subject
from gb10.inside.scan.installed import Distribution

SPARK: Final = "aarch64"
"""The machine of a GB10."""
OF_GPUS: Final = ("", "cuda", "other")
"""Machines of files that no processor runs, or that nobody knows."""
PLATFORM: Final = re.compile(r"(?:many|musl)?linux\w*?_(x86_64|aarch64|i686|armv7l|riscv64|ppc64le|s390x)")
INTERPRETER: Final = re.compile(r"cp(\d)(\d+)")
SITE: Final = re.compile(r"(?:.*/)?lib/python3\.(\d+)/(?:site|dist)-packages")
EXTENSION: Final = re.compile(r"(?P<stem>.+)\.cpython-3(?P<minor>\d+t?)[a-z]?(?:-[\w-]+)?\.so")
"""A module that one Python alone loads; ``abi3`` and no tag are for several."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WheelClaim:
    """What lies below ``site`` is for one machine and for these Pythons (minor numbers, ``t``: free-threaded).

    Empty: the tags leave it open.
    """

    site: str
    machine: str = ""
    pythons: frozenset[str] = field(default_factory=frozenset)


def wheel_claims(subject: Subject) -> tuple[WheelClaim, ...]:
    """One for each wheel and each folder of Python packages, the deepest first."""
    sites: dict[str, list[Distribution]] = defaultdict(list)
    for one in subject.scan.distributions:
        sites[one.site].append(one)
    found = [_claim(site, same, subject) for site, same in sites.items()]
    return tuple(sorted(found, key=lambda one: (-len(PurePosixPath(one.site).parts), one.site)))


def claim_of(path: str, claims: Iterable[WheelClaim]) -> WheelClaim | None:
    """The claim that a file falls under."""
    return next((one for one in claims if one.site == "." or path.startswith(f"{one.site}/")), None)


def of_other_pythons(paths: Iterable[str]) -> frozenset[str]:
    """Extension modules for another Python than the one whose packages they lie among, which has its own beside them.

    Wheels bring such: vLLM 0.29's has DeepGEMM for four Pythons. Where the right one is absent, none is listed.
    """
    modules: dict[str, list[tuple[bool, str]]] = defaultdict(list)
    for path in paths:
        site, found = SITE.match(path), EXTENSION.fullmatch(path)
        if site and found:
            modules[found["stem"]].append((found["minor"] == site[1], path))
    own = (same for same in modules.values() if any(right for right, _ in same))
    return frozenset(path for same in own for right, path in same if not right)


def _claim(site: str, distributions: Iterable[Distribution], subject: Subject) -> WheelClaim:
    tags = [tag for one in distributions for tag in one.tags]
    machines = {found[1] for tag in tags if (found := PLATFORM.search(tag))}
    installed = SITE.fullmatch(site)
    target = subject.target.python if subject.target else None
    if installed:
        pythons = frozenset({installed[1]})
    elif target is not None:
        pythons = frozenset({str(target)})
    else:
        pythons = (
            frozenset(_pythons(tags)) if site.endswith(".whl") or subject.scan.root.endswith(".whl") else frozenset()
        )
    return WheelClaim(site=site, machine=machines.pop() if len(machines) == 1 else "", pythons=pythons)


def _pythons(tags: Iterable[str]) -> Iterator[str]:
    """The minor numbers of ``cp312-cp312-…``; nothing where a tag has a stable ABI or none."""
    for tag in tags:
        interpreter, _, rest = tag.partition("-")
        found = INTERPRETER.fullmatch(interpreter)
        if found and found[1] == "3" and rest.startswith("cp"):
            yield f"{found[2]}{'t' if rest.partition('-')[0].endswith('t') else ''}"
