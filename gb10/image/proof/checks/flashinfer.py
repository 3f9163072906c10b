"""FlashInfer: its package and its compiled kernels are of one release."""

from collections import defaultdict
from collections.abc import Iterator

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from gb10.image.proof.check import Check, Problem, Subject
from gb10.inside.scan.installed import Distribution

PACKAGE, KERNELS = "flashinfer-python", ("flashinfer-cubin", "flashinfer-jit-cache")


def judge(subject: Subject) -> list[Problem]:
    """Kernels of another release than the package, which then refuses to be imported; in each folder of packages."""
    if subject.image is None and subject.target is None:
        return []
    sites: dict[str, dict[str, Distribution]] = defaultdict(dict)
    for one in subject.scan.distributions:
        sites[one.site][canonicalize_name(one.name)] = one
    return [problem for found in sites.values() for problem in _of_site(found)]


def _of_site(found: dict[str, Distribution]) -> Iterator[Problem]:
    package = found.get(PACKAGE)
    for name in KERNELS if package else ():  # who needs it requires it
        if package and name in found and release(found[name].version) != release(package.version):
            yield Problem(
                file=package.path,
                expected=f"{PACKAGE} {release(found[name].version)}, as {name} has it",
                found=f"{PACKAGE} {package.version}",
            )


def release(version: str) -> str:
    """A version without its local label."""
    try:
        return Version(version).public
    except InvalidVersion:
        return version


CHECK = Check(
    name="flashinfer",
    reads="the versions of flashinfer-python, flashinfer-cubin and flashinfer-jit-cache",
    fails="the kernels are of another release than the package",
    hint="install all of them in one release, the label behind + may differ; a GB10 needs no flashinfer-cubin",
    judge=judge,
)
