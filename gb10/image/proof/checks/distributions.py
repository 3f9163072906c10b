"""Distributions: Python finds one release of each."""

from collections import defaultdict

from packaging.utils import canonicalize_name

from gb10.image.proof.check import Check, Problem, Subject


def judge(subject: Subject) -> list[Problem]:
    """Every distribution that one folder holds twice."""
    found = defaultdict(list)
    for one in subject.scan.distributions:
        found[one.site, canonicalize_name(one.name)].append(one)
    return [
        Problem(
            file=same[0].path,
            expected=f"one release of {name}",
            found=", ".join(f"{one.version or 'no version'} ({one.path.split('/')[-2]})" for one in same),
        )
        for (_, name), same in sorted(found.items())
        if len(same) > 1
    ]


CHECK = Check(
    name="distributions",
    reads="the METADATA of every installed distribution",
    fails="a folder of Python packages has two releases of one distribution",
    hint="install it once: pip uninstall it until pip says that it is not installed, then install it again",
    judge=judge,
)
