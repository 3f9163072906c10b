"""FlashInfer: its package and its compiled kernels are of one release."""

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from gb10.image.proof.check import Check, Problem, Subject
from gb10.inside.scan.installed import Distribution

PACKAGE, KERNELS = "flashinfer-python", ("flashinfer-cubin", "flashinfer-jit-cache")


def judge(subject: Subject) -> list[Problem]:
    """Kernels of another release than the package, which then refuses to be imported."""
    if subject.image is None:
        return []
    found: dict[str, Distribution] = {canonicalize_name(one.name): one for one in subject.scan.distributions}
    package = found.get(PACKAGE)
    if package is None:  # who needs it requires it
        return []
    return [
        Problem(
            file=package.path,
            expected=f"{PACKAGE} {release(found[name].version)}, as {name} has it",
            found=f"{PACKAGE} {package.version}",
        )
        for name in KERNELS
        if name in found and release(found[name].version) != release(package.version)
    ]


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
    hint="install all of them in one release; the label behind + may differ",
    judge=judge,
)
